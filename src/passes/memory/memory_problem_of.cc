/// memory_problem_of.cc: see memory_problem_of.h.
#include "memory_problem_of.h"

#include <algorithm>
#include <map>

#include "plan_inplace.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/op/flops.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/plan/layout.h"
#include "weft/core/plan/scratch.h"
#include "weft/core/plan/storage.h"
#include "weft/support/error.h"

namespace weft {
namespace {

constexpr int64_t kMost = int64_t{1} << 48;

class ProblemBuilder {
 public:
  ProblemBuilder(const Graph& g, const std::vector<NodePtr>& order, bool costs, int64_t assumed)
      : g_(g),
        order_(order),
        costs_(costs),
        guess_(g, assumed),
        shapes_(g.GetAttr<ShapeMap>("shape")),
        types_(g.GetAttr<TypeMap>("dtype")),
        kernels_(g.HasAttr("kernel") ? &g.GetAttr<KernelMap>("kernel") : nullptr),
        layouts_(g.AttrOr<LayoutMap>("layout")),
        scratch_(g.AttrOr<ScratchMap>("scratch")) {}

  GraphMemory Run() {
    MemoryProblem& p = out_.problem;
    p.nodes.resize(order_.size());
    step_.assign(g_.id_bound(), -1);
    for (size_t k = 0; k < order_.size(); ++k) {
      step_[order_[k]->id()] = int(k);
      AddNode(order_[k], int(k));
    }
    AddEffects();
    PutOutputsOutside();
    return std::move(out_);
  }

 private:
  bool HoldsFromTheStart(NodePtr n) const {
    return n->is_variable() || Graph::ConstantOf(NodeEntry(n)) || ReorderedConstant(n);
  }
  static int64_t Aligned(int64_t bytes) {
    return (std::min(bytes, kMost) + kArenaAlign - 1) / kArenaAlign * kArenaAlign;
  }
  SymInt Bytes(const NodeEntry& e) const { return ArenaBytes(types_[e], shapes_[e]); }
  /// In the arena.
  int64_t Room(const NodeEntry& e) {
    if (!HasArenaPlace(types_[e])) return 0;
    return Aligned(std::max<int64_t>(guess_.Of(Bytes(e)), 1));
  }
  void AddNode(NodePtr n, int k) {
    MemoryNode& node = out_.problem.nodes[size_t(k)];
    for (Node* d : n->control_deps) node.after.push_back(step_[d->id()]);
    const bool group = IsOp(n, builtin::kGroup);
    const bool outside = group || HoldsFromTheStart(n);
    std::vector<int> position(n->num_inputs(), -1);  // among node.inputs
    for (size_t i = 0; i < n->num_inputs(); ++i) {
      const NodeEntry& e = n->inputs[i];
      if (!e.node) continue;
      if (group) {
        node.after.push_back(step_[e.node->id()]);
        continue;
      }
      position[i] = int(node.inputs.size());
      node.inputs.push_back(*value_.find(e));
    }
    const bool shows = !outside && n->num_inputs() > 0 && n->inputs[0].node &&
                       (view_.get(n->op(), false) || IsOp(n, builtin::kRead));
    for (uint32_t o = 0; o < n->num_outputs(); ++o) {
      const NodeEntry e(n, o);
      MemoryValue value;
      value.producer = k;
      value.shows = shows && o == 0 ? node.inputs[0] : -1;
      value.bytes = outside || value.shows >= 0 ? 0 : Room(e);
      const int id = int(out_.problem.values.size());
      value_.set(e, id);
      node.outputs.push_back(id);
      out_.problem.values.push_back(value);
      out_.entries.push_back(e);
    }
    // A new content lies where the variable does.
    for (auto [i, o] : WrittenInputs(n))
      if (o >= 0) out_.problem.values[size_t(node.outputs[size_t(o)])].bytes = 0;
    if (outside) return;
    AddPairs(n, position, &node);
    node.recompute = !HasEffect(n);
    if (const int64_t* bytes = scratch_.find(n)) node.scratch = Aligned(*bytes);
    if (costs_) node.cost = CostOf(n);
  }
  void AddPairs(NodePtr n, const std::vector<int>& position, MemoryNode* node) const {
    for (auto [i, o] : InplacePairs(n, kernels_)) {
      if (size_t(i) >= n->num_inputs() || size_t(o) >= n->num_outputs() || position[size_t(i)] < 0)
        continue;
      const NodeEntry &in = n->inputs[size_t(i)], out(n, uint32_t(o));
      const SymInt bytes = Bytes(in);
      if (bytes.known() && bytes == Bytes(out) && layouts_[in] == layouts_[out])
        node->inplace.emplace_back(position[size_t(i)], o);
    }
  }

  /// Operations of the node, or of its body, and bytes of its operands and results.
  int64_t CostOf(NodePtr n) {
    int64_t cost = 0;
    for (const SymInt flops : FlopsOfAll(n, shapes_)) cost += std::min(guess_.Of(flops), kMost);
    for (const NodeEntry& e : n->inputs)
      if (e.node) cost += guess_.Of(Bytes(e));
    for (uint32_t o = 0; o < n->num_outputs(); ++o) cost += guess_.Of(Bytes(NodeEntry(n, o)));
    return std::min(cost, kMost);
  }
  /// Control edges of OrderMutation say most of it; a graph that was made without is held as it
  /// stands.
  void AddEffects() {
    struct State {
      int write = -1;
      std::vector<int> reads;  // since then
    };
    std::map<NodeId, State> states;  // of variables that are written
    for (NodePtr n : order_)
      for (auto [i, o] : WrittenInputs(n)) states[n->inputs[size_t(i)].node->id()];
    int hidden = -1;  // the last effect that is no variable's
    for (size_t k = 0; k < order_.size(); ++k) {
      const NodePtr n = order_[k];
      std::vector<int>& after = out_.problem.nodes[k].after;
      const auto put_after = [&](int other) {
        if (other >= 0 && other != int(k)) after.push_back(other);
      };
      const auto written = WrittenInputs(n);
      if (written.empty() && !n->is_variable() && HasEffect(n)) {
        put_after(hidden);
        hidden = int(k);
      }
      if (states.empty()) continue;
      for (const NodeEntry& e : n->inputs) {
        const auto it = e.node ? states.find(e.node->id()) : states.end();
        if (it == states.end()) continue;
        put_after(it->second.write);
        it->second.reads.push_back(int(k));
      }
      for (auto [i, o] : written) {
        State& s = states.at(n->inputs[size_t(i)].node->id());
        for (const int r : s.reads) put_after(r);
        s = {int(k), {}};
      }
    }
  }

  /// Results lie in blocks of the caller.
  void PutOutputsOutside() {
    MemoryProblem& p = out_.problem;
    for (const NodeEntry& e : g_.outputs) {
      int v = *value_.find(e);
      while (p.values[size_t(v)].shows >= 0) v = p.values[size_t(v)].shows;
      p.values[size_t(v)].bytes = 0;
    }
    // Nothing in the arena is held up by a result that took its place.
    for (MemoryNode& n : p.nodes)
      n.inplace.erase(std::remove_if(n.inplace.begin(), n.inplace.end(),
                                     [&](const std::pair<int, int>& pair) {
                                       const int out = n.outputs[size_t(pair.second)];
                                       return p.values[size_t(out)].bytes == 0;
                                     }),
                      n.inplace.end());
  }

  const Graph& g_;
  const std::vector<NodePtr>& order_;
  const bool costs_;
  SizeGuess guess_;
  const ShapeMap& shapes_;
  const TypeMap& types_;
  const KernelMap* kernels_;
  const LayoutMap layouts_;
  const ScratchMap scratch_;
  const OpMap<TIsView>& view_ = Op::GetAttr<TIsView>("TIsView");
  GraphMemory out_;
  std::vector<int> step_;  // by node id
  EntryMap<int> value_;
};

}  // namespace

SizeGuess::SizeGuess(const Graph& graph, int64_t assumed)
    : assumed_(assumed),
      hints_(graph.AttrOr<SizeHints>("hint")),
      facts_(graph.AttrOr<Facts>("facts")) {}

int64_t SizeGuess::Of(SymInt size) {
  if (!size.known()) return assumed_;
  if (size.is_const()) return std::clamp<int64_t>(size.value(), 0, kMost);
  const auto [it, fresh] = guesses_.try_emplace(size, assumed_);
  if (!fresh) return it->second;
  try {
    const SymInt simple = facts_.Simplify(size);
    for (SymInt s : simple.Symbols()) symbols_.try_emplace(s.symbol_name(), OfSymbol(s));
    it->second = std::clamp<int64_t>(Evaluate(simple, symbols_), 0, kMost);
  } catch (const Error&) {
    it->second = kMost;  // it leaves 64 bits
  }
  return it->second;
}

int64_t SizeGuess::OfSymbol(SymInt symbol) {
  const auto hint = hints_.values.find(symbol.symbol_name());
  const Range range = facts_.RangeOf(symbol);
  const int64_t low = std::max<int64_t>(range.lo, 0);
  return std::clamp(hint == hints_.values.end() ? assumed_ : hint->second, low,
                    std::max(low, range.hi));
}

GraphMemory MemoryProblemOf(const Graph& graph, const std::vector<NodePtr>& order, bool costs,
                            int64_t assumed) {
  return ProblemBuilder(graph, order, costs, assumed).Run();
}

}  // namespace weft
