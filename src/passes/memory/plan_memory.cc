/// plan_memory.cc: PlanMemory. Decides which entries share a block of memory, and how
/// long each block lives.
///   needs      order, shape, dtype
///   provides   storage
///   preserves  everything
///   never      gives an offset: sizes may be symbolic, so offsets are
///              found per binding (core/plan/offset_planner.h), and with them whether a block lies
///              in another one: what may is listed here (plan_parts.h)
///   cost       linear in entries and edges
///   source     NNVM PlanMemory for the idea of in-place pairs; true dtype sizes and views are ours
///
/// Views (Reshape, Squeeze ...) alias their input. A result takes over the block of an operand when
/// the op says that it may (FInplace, or a kernel that reads the operand only where it writes), the
/// operand dies there, no view of it lives on, and the sizes are provably equal. State variables
/// lie in storage of their own (plan_variables.h).
#include <algorithm>
#include <map>
#include <set>

#include "plan_inplace.h"
#include "plan_parts.h"
#include "plan_storage.h"
#include "plan_variables.h"
#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/pass/pass.h"
#include "weft/core/plan/layout.h"
#include "weft/core/plan/storage.h"
#include "weft/support/check.h"

namespace weft {
namespace {

class Planner {
 public:
  Planner(const Graph& g)
      : g_(g),
        shapes_(g.GetAttr<ShapeMap>("shape")),
        types_(g.GetAttr<TypeMap>("dtype")),
        kernels_(g.HasAttr("kernel") ? &g.GetAttr<KernelMap>("kernel") : nullptr),
        layouts_(g.AttrOr<LayoutMap>("layout")) {}

  StoragePlan Run(const Order& order) {
    const int steps = int(order.nodes.size());
    FindReads(order);
    variables_ = PlanVariables(g_, order, kernels_, [this](const NodeEntry& a, const NodeEntry& b) {
      const Type s = types_[a], t = types_[b];
      return s.known() && s == t && Bytes(a).known() && Bytes(a) == Bytes(b);
    });
    const std::vector<NodePtr> inputs = g_.AllInputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const NodeEntry e(inputs[i]);
      Give(e, New(StorageKind::kInput, int64_t(i), e, 0, steps));
    }
    // Something may be written into a variable before the order comes to its node.
    for (NodePtr v : StateVariables(g_))
      Give(NodeEntry(v), New(StorageKind::kVariable, v->id(), NodeEntry(v), 0, steps));
    for (int step = 0; step < steps; ++step) {
      NodePtr n = g_.node(order.nodes[size_t(step)]);
      if (n->is_variable()) {
        if (n->has_attr("value") && !IsState(n))
          Give(NodeEntry(n), New(StorageKind::kConstant, n->id(), NodeEntry(n), 0, steps));
      } else if (Graph::ConstantOf(NodeEntry(n)) || ReorderedConstant(n)) {
        Give(NodeEntry(n), New(StorageKind::kConstant, n->id(), NodeEntry(n), 0, steps));
      } else if (IsAlias(n)) {
        Give(NodeEntry(n), *plan_.of.find(n->inputs[0]));
        ++plan_.aliased;
      } else if (!IsOp(n, builtin::kGroup)) {
        PlaceOutputs(n, step);
      } else if (g_.is_output(n)) {
        Give(NodeEntry(n), New(StorageKind::kArena, 0, NodeEntry(n), step, step + 1));
      }
      if (IsOp(n, builtin::kGroup)) continue;
      for (const NodeEntry& e : n->inputs)
        if (e.node) Extend(e, step + 1);
    }
    for (size_t i = 0; i < g_.outputs.size(); ++i) Extend(g_.outputs[i], steps);
    AssignOutputs(steps);
    FindParts(order);
    return std::move(plan_);
  }

 private:
  void FindReads(const Order& order) {
    last_read_.resize(g_.id_bound(), -1);
    for (size_t step = 0; step < order.nodes.size(); ++step) {
      const NodePtr n = g_.node(order.nodes[step]);
      if (IsOp(n, builtin::kGroup)) continue;  // reads nothing
      for (const NodeEntry& e : n->inputs)
        if (e.node) last_read_[e.node->id()] = int(step);
    }
    for (const NodeEntry& e : g_.outputs) last_read_[e.node->id()] = int(order.nodes.size());
  }
  int New(StorageKind kind, int64_t number, const NodeEntry& e, int begin, int end) {
    Storage s;
    s.kind = kind;
    s.number = number;
    s.bytes = Bytes(e);
    s.begin = begin;
    s.end = end;
    plan_.storages.push_back(s);
    live_until_.push_back(begin);
    return int(plan_.storages.size()) - 1;
  }
  SymInt Bytes(const NodeEntry& e) const { return ArenaBytes(types_[e], shapes_[e]); }
  void Give(const NodeEntry& e, int storage) {
    plan_.of.set(e, storage);
    live_until_[size_t(storage)] =
        std::max(live_until_[size_t(storage)], last_read_[e.node->id()] + 1);
  }
  void Extend(const NodeEntry& e, int end) {
    if (const int* s = plan_.of.find(e))
      plan_.storages[size_t(*s)].end = std::max(plan_.storages[size_t(*s)].end, end);
  }
  /// The result shows what lies in the block of the first operand.
  bool IsAlias(NodePtr n) const {
    const bool shows = view_.get(n->op(), false) || IsOp(n, builtin::kRead);
    return shows && !variables_.copied.find(n) && plan_.of.find(n->inputs[0]);
  }
  /// What one output of a node may be written into: the variable that it is the new content of,
  /// else the block of one of these inputs, in this order.
  struct Places {
    NodePtr variable;
    std::vector<int> inputs;
  };
  std::vector<Places> PlacesOf(NodePtr n) const {
    std::vector<Places> places(n->num_outputs());
    for (auto [i, k] : InplacePairs(n, kernels_))
      if (size_t(k) < places.size() && size_t(i) < n->num_inputs() && n->inputs[size_t(i)].node)
        places[size_t(k)].inputs.push_back(i);
    for (auto [i, k] : WrittenInputs(n))
      if (k >= 0 && size_t(k) < places.size() && !variables_.apart.find(NodeEntry(n, uint32_t(k))))
        places[size_t(k)].variable = n->inputs[size_t(i)].node;
    for (uint32_t k = 0; k < n->num_outputs(); ++k)
      if (const NodePtr* v = variables_.direct.find(NodeEntry(n, k))) places[k].variable = *v;
    return places;
  }
  void PlaceOutputs(NodePtr n, int step) {
    const std::vector<Places> places = PlacesOf(n);
    std::map<int, int> operands;  // that lie in each block
    for (const NodeEntry& e : n->inputs)
      if (const int* s = e.node ? plan_.of.find(e) : nullptr) ++operands[*s];
    std::set<int> taken;
    for (uint32_t k = 0; k < n->num_outputs(); ++k) {
      const NodeEntry out(n, k);
      int storage = -1, larger = -1;
      if (const NodePtr v = places[k].variable) {
        const int* s = plan_.of.find(NodeEntry(v));
        WEFT_CHECK(s && plan_.storages[size_t(*s)].kind == StorageKind::kVariable, kInvalidModel,
                   "{} writes {}, which is not a state variable", n->Describe(), v->Describe());
        Give(out, *s);
        ++plan_.in_place;
        continue;
      }
      for (int i : places[k].inputs) {
        const int* in = plan_.of.find(n->inputs[size_t(i)]);
        if (!in || plan_.storages[size_t(*in)].kind != StorageKind::kArena) continue;
        // Nothing may read the block after this step: neither the operand nor any view of it. Nor
        // may another operand lie there.
        if (live_until_[size_t(*in)] > step + 1 || operands.at(*in) > 1 || taken.count(*in) ||
            layouts_[n->inputs[size_t(i)]] != layouts_[out])
          continue;
        if (plan_.storages[size_t(*in)].bytes != Bytes(out)) {
          if (larger < 0) larger = *in;
          continue;
        }
        storage = *in;
        taken.insert(*in);
        ++plan_.in_place;
        break;
      }
      if (storage < 0) {
        storage = New(StorageKind::kArena, 0, out, step, step + 1);
        if (larger >= 0 && kernels_ && kernels_->find(n)) {
          taken.insert(larger);
          larger_[n->id()].push_back({n->id(), storage, larger, SymInt(0), SymInt(1), false});
        }
      }
      Give(out, storage);
    }
  }
  /// Results live in the caller's blocks where their arena block serves one output only;
  /// the others are copied.
  void AssignOutputs(int steps) {
    std::vector<int> owner(plan_.storages.size(), -1);
    for (size_t i = 0; i < g_.outputs.size(); ++i) {
      const int* s = plan_.of.find(g_.outputs[i]);
      WEFT_ICHECK(s, "output {} has no storage", i);
      Storage& block = plan_.storages[size_t(*s)];
      if (block.kind == StorageKind::kArena && block.bytes == Bytes(g_.outputs[i]) &&
          owner[size_t(*s)] < 0) {
        owner[size_t(*s)] = int(i);
        block.kind = StorageKind::kOutput;
        block.number = int64_t(i);
        block.end = steps;
      } else {
        plan_.copies.push_back(int(i));
      }
    }
  }

  /// What copies may lie where it is copied from or to, and what a kernel makes of a larger operand
  /// at the operand's place.
  void FindParts(const Order& order) {
    const auto in_arena = [&](int s) {
      return plan_.storages[size_t(s)].kind == StorageKind::kArena;
    };
    for (NodeId id : order.nodes) {
      const NodePtr n = g_.node(id);
      if (n->is_variable() || IsAlias(n) || IsOp(n, builtin::kGroup)) continue;
      std::vector<StoragePart> parts = CopiedParts(g_, n, plan_, layouts_);
      if (const auto it = larger_.find(id); parts.empty() && it != larger_.end())
        for (const StoragePart& p : it->second)
          if (in_arena(p.part) && in_arena(p.whole)) parts.push_back(p);
      plan_.parts.insert(plan_.parts.end(), parts.begin(), parts.end());
    }
  }

  const Graph& g_;
  const ShapeMap& shapes_;
  const TypeMap& types_;
  const KernelMap* kernels_;
  const LayoutMap layouts_;
  const OpMap<TIsView>& view_ = Op::GetAttr<TIsView>("TIsView");
  StoragePlan plan_;
  VariablePlan variables_;
  std::vector<int> last_read_, live_until_;
  std::map<NodeId, std::vector<StoragePart>> larger_;  ///< looked up only
};

}  // namespace

StoragePlan PlanStorage(const Graph& graph, const Order& order) {
  return Planner(graph).Run(order);
}

namespace {

Graph PlanMemory(Graph g, PassContext& ctx) {
  const Order& order = g.GetAttr<Order>("order");
  StoragePlan plan = PlanStorage(g, order);
  if (ctx.option<int64_t>("parts") == 0) plan.parts.clear();
  VerifyStorage(g, order.nodes, plan);
  ctx.Count("blocks",
            int64_t(std::count_if(plan.storages.begin(), plan.storages.end(),
                                  [](const Storage& s) { return s.kind == StorageKind::kArena; })));
  ctx.Count("views", plan.aliased);
  ctx.Count("in_place", plan.in_place);
  ctx.Count("parts", int64_t(plan.parts.size()));
  g.SetAttr("storage", std::move(plan));
  return g;
}

WEFT_REGISTER_GRAPH_ATTR(storage, kDerived, StoragePlan)
    .describe("which block of memory every entry lives in")
    .hidden();

WEFT_REGISTER_PASS(PlanMemory)
    .describe("decides which entries share a block of memory, and how long each block lives")
    .set_body(PlanMemory)
    .enters_bodies()
    .set_change_graph(false)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .depend_graph_attr("order")
    .provide_graph_attr("storage")
    .preserve_all()
    .option("parts", int64_t{1}, "0: no block is in another one, to compare with")
    .statistic("blocks", "blocks of the arena")
    .statistic("views", "entries that alias their input")
    .statistic("in_place", "results that take over an operand's block")
    .statistic("parts", "blocks that may be in others, at the sizes of a run");

}  // namespace
}  // namespace weft
