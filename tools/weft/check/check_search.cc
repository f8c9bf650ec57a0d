/// check_search.cc: see check_search.h.
#include "check_search.h"

#include "layers.h"

namespace weft::tool {

CheckReply CheckSearch::Compare(const Graph& g, const Tensors& got, const Tensors& want,
                                CheckQuestion* question) const {
  CheckReply reply;
  const CheckOutcome tried = TryCheck([&] {
    for (size_t i = 0; i < want.size() && !reply.differs(); ++i) {
      if (drawn_[g.outputs[i].node->id()]) continue;
      reply.detail =
          DescribeDifference(*got[i], *want[i],
                             engines_.has_reference() ? question->OthersFor(i)
                                                      : OtherAnswers([] { return Tensors(); }));
      if (!reply.detail.empty()) reply.result = i;
    }
    return Tensors();
  });
  if (tried.gave_none()) reply.detail = tried.refusal;  // the reference could not be asked again
  return reply;
}

CheckReply CheckSearch::CompareOnce(const Graph& g, const Engine& e, const NamedTensors& in,
                                    const StateMap& state) const {
  CheckQuestion question(engines_, g, in, state);
  const CheckOutcome got = TryCheck([&] { return engines_.RunOnce(g, e, in, state); });
  if (got.code == ErrorCode::kInternal) return {0, got.refusal};
  const CheckOutcome want = TryCheck([&] {
    return engines_.has_reference() ? question.Answer()
                                    : engines_.RunOnce(g, engines_.list().back(), in, state);
  });
  if (want.gave_none()) return {std::nullopt, want.refusal};
  if (got.gave_none()) return {IsExhausted(got) ? std::optional<size_t>() : 0, got.refusal};
  return Compare(g, got.results, want.results, &question);
}

std::string CheckSearch::FirstNode(const Engine& e, const NodeEntry& output, const NamedTensors& in,
                                   const StateMap& state, std::string* detail) const {
  std::vector<std::string> names;
  const Graph exposed =
      ExposeAll(graph_, &names, [&](const NodeEntry& x) { return !drawn_[x.node->id()]; });
  if (!names.empty()) {
    const CheckReply reply = CompareOnce(exposed, e, in, state);
    if (reply.differs()) {
      *detail = reply.detail;
      return names[*reply.result];
    }
  }
  constexpr int kMostPrograms = 64;  // each is compiled
  NodePtr node = output.node;
  int programs = 0;
  for (bool deeper = true; deeper;) {
    deeper = false;
    for (const NodeEntry& x : node->inputs) {
      if (!x.node || x.node->is_variable() || Graph::ConstantOf(x) || drawn_[x.node->id()] ||
          ++programs > kMostPrograms)
        continue;
      Graph part = graph_;
      part.outputs = {part.at(x)};
      const CheckReply reply = CompareOnce(part, e, in, state);
      if (!reply.differs()) continue;
      *detail = reply.detail;
      node = x.node;
      deeper = true;
      break;
    }
  }
  return node->Describe();
}

}  // namespace weft::tool
