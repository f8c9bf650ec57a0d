/// check_engines.cc: see check_engines.h.
#include "check_engines.h"

#include <algorithm>
#include <cmath>

#include "weft/support/request.h"

namespace weft::tool {
namespace {

NamedTensors MoveInputs(const NamedTensors& in, int which) {
  NamedTensors out;
  for (const auto& [name, t] : in) out[name] = MoveLastBits(t, which);
  return out;
}
/// With its parameters moved, too: a difference of equal numbers is exact only where they are.
Graph MoveParameters(const Graph& g, int which) {
  Graph out = g;
  for (const NodePtr& n : out.TopoOrder())
    if (const TensorPtr t = Graph::ConstantOf(NodeEntry(n)))
      if (const TensorPtr moved = MoveLastBits(t, which); moved != t)
        out.SetAttr(n, "value", moved);
  return out;
}

Tensors RunIn(Session* session, const NamedTensors& in, const StateMap& state) {
  for (const auto& [name, t] : state) session->store()->Set(name, t);
  return session->Run(OrderInputs(session->program(), in));
}

}  // namespace

TensorPtr MoveLastBits(const TensorPtr& t, int which) {
  constexpr int64_t kMostScales = 16;
  if (!IsFloat(t->dtype()) || (t->rank() <= 1 && t->num_elements() <= kMostScales)) return t;
  const double bits = IsNarrowFloat(t->dtype())   ? 2 * LimitsOf(t->dtype()).roundoff
                      : t->dtype() == DType::kF64 ? 0x1p-48
                                                  : 0x1p-20;
  auto moved = std::make_shared<Tensor>(t->dtype(), t->dims());
  for (int64_t i = 0; i < t->num_elements(); ++i) {
    const bool up = ((uint64_t(i) * 0x9e3779b97f4a7c15u >> 40) + uint64_t(which)) & 1;
    moved->set(i, t->at(i) * (1 + (up ? bits : -bits)));
    if (!std::isfinite(moved->at(i))) moved->set(i, t->at(i));  // the largest values stay finite
  }
  return moved;
}

bool IsExhausted(const CheckOutcome& o) {
  return o.code && (*o.code == ErrorCode::kLimit || *o.code == ErrorCode::kOutOfMemory);
}

std::vector<std::string> CheckEngines::Names() const {
  std::vector<std::string> names;
  for (const Engine& e : engines_) names.push_back(e.backend);
  return names;
}

double CheckEngines::SecondsLeft() const {
  return seconds_ -
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void CheckEngines::Compile(const Graph& graph) {
  for (const Engine& e : engines_)
    sessions_.push_back(std::make_unique<Session>(CompileProgram(graph, e, 0, limits_)));
}

Tensors CheckEngines::RunSession(size_t engine, const NamedTensors& in,
                                 const StateMap& state) const {
  return RunIn(sessions_[engine].get(), in, state);
}

Tensors CheckEngines::RunOnce(const Graph& g, const Engine& e, const NamedTensors& in,
                              const StateMap& state) const {
  Session session(CompileProgram(g, e, 0, limits_));
  return RunIn(&session, in, state);
}

Tensors CheckEngines::Evaluate(const Graph& g, const NamedTensors& in, StateMap state,
                               bool typed) const {
  // No run of the interpreter may eat more than a quarter of the time.
  Limits limits = limits_;
  limits.deadline_s = std::max(0.1, std::min(seconds_ / 4, SecondsLeft()));
  if (limits_.deadline_s > 0) limits.deadline_s = std::min(limits.deadline_s, limits_.deadline_s);
  const RequestScope scope(limits);
  EvalOptions options;
  options.typed = typed;
  options.state = &state;
  Tensors ordered;
  for (const NodePtr& p : g.AllInputs()) ordered.push_back(in.at(p->attrs.name));
  return GetEvaluator()->Eval(g, ordered, options);
}

OtherAnswers CheckQuestion::OthersFor(size_t result) {
  return [this, result] {
    if (others_.empty()) {
      others_.push_back(engines_.Evaluate(g_, in_, state_, false));
      for (int which : {0, 1})
        others_.push_back(
            engines_.Evaluate(MoveParameters(g_, which), MoveInputs(in_, which), state_, true));
    }
    Tensors of_result;
    for (const Tensors& all : others_) of_result.push_back(all[result]);
    return of_result;
  };
}

}  // namespace weft::tool
