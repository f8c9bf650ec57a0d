/// resolve_if.cc: ResolveIf. Where the branches of an If give tensors of different ranks, what
/// reads them is computed in the branches, in each of which the rank is known.
///   needs      dtype, shape, value
///   provides   -
///   preserves  -
///   never      moves a node with an effect, or one whose shape stays unknown in both branches
///   cost       nodes behind such an If, once for each branch, and their inference
///   source     tail duplication of compilers that make traces (Fisher 1981)
///
///   y = If(c) {then: Squeeze(x, [-1]); else: x};  z = MatMul(y, w)
///     ->  z = If(c) {then: MatMul(Squeeze(x, [-1]), w); else: MatMul(x, w)}
///
/// Exporters write such an If for every squeeze of an extent that they do not know, and behind it
/// nothing has a shape. Mostly one of the branches fits what stands behind: the other one is an
/// error that a run meets where it takes it. A condition that is known is none of this: its If has
/// the shapes of one branch, which takes its place (Simplify).
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/body_types.h"
#include "weft/core/pass/pass.h"
#include "weft/core/pass/provide.h"

namespace weft {
namespace {

constexpr const char* kBranches[] = {"then_branch", "else_branch"};

bool IsGiven(const NodePtr& n) { return n->is_variable() || Graph::ConstantOf(NodeEntry(n)); }

/// A tensor of which the rank or an extent is not known, not even by a name.
bool IsOpen(const Graph& g, const NodeEntry& e) {
  return g.GetAttr<TypeMap>("dtype")[e].is_tensor() &&
         !g.GetAttr<ShapeMap>("shape")[e].fully_known();
}
bool IsOpen(const Graph& g, const NodePtr& n) {
  for (uint32_t k = 0; k < n->num_outputs(); ++k)
    if (IsOpen(g, NodeEntry(n, k))) return true;
  return false;
}

/// The nodes behind an If that read what has no shape, and those between.
class Tail {
 public:
  Tail(const Graph& g, const NodePtr& branching) {
    std::unordered_set<NodeId> behind{branching->id()};
    std::vector<NodePtr> all;
    for (const NodePtr& n : g.TopoOrder()) {
      bool reads = false;
      for (const NodeEntry& e : n->inputs) reads = reads || (e.node && behind.count(e.node->id()));
      if (!reads) continue;
      behind.insert(n->id());
      all.push_back(n);
    }
    std::unordered_set<NodeId> leads_in;
    for (auto n = all.rbegin(); n != all.rend(); ++n) {
      bool in = leads_in.count((*n)->id()) != 0;
      for (const NodeEntry& e : (*n)->inputs)
        in = in || (e.node && behind.count(e.node->id()) && IsOpen(g, e));
      if (!in) continue;
      ids_.insert((*n)->id());
      nodes_.push_back(*n);
      for (const NodeEntry& e : (*n)->inputs)
        if (e.node && behind.count(e.node->id())) leads_in.insert(e.node->id());
    }
    std::reverse(nodes_.begin(), nodes_.end());
  }
  /// In order.
  const std::vector<NodePtr>& nodes() const { return nodes_; }
  bool has(const NodePtr& n) const { return ids_.count(n->id()) != 0; }
  int64_t num_open(const Graph& g) const {
    return std::count_if(nodes_.begin(), nodes_.end(),
                         [&](const NodePtr& n) { return IsOpen(g, n); });
  }

 private:
  std::vector<NodePtr> nodes_;
  std::unordered_set<NodeId> ids_;
};

bool CanMove(const NodePtr& n) {
  return !HasEffect(n) && n->control_deps.empty() &&
         std::none_of(n->uses().begin(), n->uses().end(), [](const Use& u) { return u.control; });
}

class Resolver {
 public:
  Resolver(PassContext& ctx, int64_t most_nodes) : ctx_(ctx), nodes_left_(most_nodes) {}

  /// `g` with its bodies, deepest first: what they give may have a shape then.
  Graph Resolve(Graph g) {
    bool any = false;
    for (const NodePtr& n : g.TopoOrder()) {
      if (!HasControlBodies(n)) continue;
      for (const std::string& name : BodyNames(n)) {
        std::optional<Graph> body = TypedOf(g, n, name);
        if (!body || !HasBodies(*body)) continue;
        const int64_t before = moved_;
        Graph resolved = Resolve(*std::move(body));
        if (moved_ == before) continue;
        g.SetAttr(n, name, std::make_shared<const Graph>(std::move(resolved)));
        any = true;
      }
    }
    if (any) g = Typed(std::move(g));
    // An If that was made is of interest no more: its branches are resolved.
    std::unordered_set<NodeId> seen;
    for (bool again = true; again;) {
      again = false;
      for (const NodePtr& n : g.TopoOrder()) {
        if (!IsOp(n, "If") || !IsOpen(g, n) || !seen.insert(n->id()).second) continue;
        if (!Move(g, n, &seen)) continue;
        g = Typed(std::move(g));
        again = true;
        break;
      }
    }
    return g;
  }

 private:
  static PassOptions Plain() {
    PassOptions plain;
    plain.verify = false;
    return plain;
  }
  static Graph Typed(Graph g) {
    return ProvideAttrs(std::move(g), {"dtype", "shape", "value"}, Plain());
  }
  static std::optional<Graph> TypedOf(const Graph& g, const NodePtr& n, const std::string& name) {
    const Facts facts = g.AttrOr<Facts>("facts");
    std::optional<Graph> body =
        FittingBody(n, name, g.GetAttr<ShapeMap>("shape"), g.GetAttr<TypeMap>("dtype"),
                    &g.GetAttr<ValueMap>("value"), &facts);
    if (body) body = Typed(*std::move(body));
    return body;
  }
  static bool HasBodies(const Graph& g) {
    const std::vector<NodePtr> order = g.TopoOrder();
    return std::any_of(order.begin(), order.end(), HasControlBodies);
  }

  /// Takes what stands behind the If into it, if that tells a shape.
  bool Move(Graph& g, const NodePtr& n, std::unordered_set<NodeId>* seen) {
    const Tail tail(g, n);
    const int64_t copies = 2 * int64_t(tail.nodes().size());
    if (tail.nodes().empty() || copies > nodes_left_ || !CanMove(n) ||
        !std::all_of(tail.nodes().begin(), tail.nodes().end(), CanMove))
      return false;
    nodes_left_ -= copies;
    std::vector<NodeEntry> given;
    for (const NodePtr& m : tail.nodes()) AddGiven(g, m, tail, &given);
    AddGiven(g, n, tail, &given);
    std::vector<NodeEntry> operands(n->inputs.begin(), n->inputs.end());
    const size_t old = operands.size();
    AddCaptures(g, n, tail, &operands);
    AttrDict attrs = n->attrs.dict;
    attrs["num_captures"] = int64_t(operands.size() - 1);
    for (const char* name : kBranches) attrs[name] = Branch(n, name, tail, operands, old, given);
    const NodePtr made = g.AddNode(n->op(), operands, attrs, n->attrs.name);
    seen->insert(made->id());
    if (!Helps(g, made, tail) || !ctx_.Fuel("moved", n)) {
      g.Erase(made);
      return false;
    }
    for (size_t k = 0; k < given.size(); ++k) g.ReplaceUses(given[k], NodeEntry(made, uint32_t(k)));
    for (auto m = tail.nodes().rbegin(); m != tail.nodes().rend(); ++m) g.Erase(*m);
    g.Erase(n);
    ctx_.Count("moved", int64_t(tail.nodes().size()));
    ++moved_;
    return true;
  }
  static void AddGiven(const Graph& g, const NodePtr& n, const Tail& tail,
                       std::vector<NodeEntry>* given) {
    for (uint32_t k = 0; k < n->num_outputs(); ++k) {
      const NodeEntry e(n, k);
      bool read = std::count(g.outputs.begin(), g.outputs.end(), e) > 0;
      for (const Use& u : n->uses())
        read = read || (u.user->inputs[u.slot] == e && !tail.has(u.user));
      if (read) given->push_back(e);
    }
  }
  /// What the tail reads of the graph, and what has the sizes that it mentions as dimensions.
  static void AddCaptures(const Graph& g, const NodePtr& n, const Tail& tail,
                          std::vector<NodeEntry>* operands) {
    const auto add = [&](const NodeEntry& e) {
      if (std::find(operands->begin() + 1, operands->end(), e) == operands->end())
        operands->push_back(e);
    };
    for (const NodePtr& m : tail.nodes())
      for (const NodeEntry& e : m->inputs)
        if (e.node && e.node != n && !tail.has(e.node) && !Graph::ConstantOf(e)) add(e);
    const auto& shapes = g.GetAttr<ShapeMap>("shape");
    std::vector<SymInt> told, mentioned;
    for (size_t i = 1; i < operands->size(); ++i) {
      if (!(*operands)[i].node) continue;
      for (SymInt d : shapes[(*operands)[i]].dims()) {
        if (!d.known() || d.is_const()) continue;
        if (d.is_symbol()) told.push_back(d);
        for (SymInt s : d.Symbols()) mentioned.push_back(s);
      }
    }
    for (SymInt s : mentioned) {
      if (std::find(told.begin(), told.end(), s) != told.end()) continue;
      told.push_back(s);
      for (const NodePtr& input : g.AllInputs()) {
        const auto& dims = shapes[NodeEntry(input)].dims();
        if (std::find(dims.begin(), dims.end(), s) == dims.end()) continue;
        add(NodeEntry(input));
        break;
      }
    }
  }
  /// The branch with the tail behind it.
  GraphPtr Branch(const NodePtr& n, const char* name, const Tail& tail,
                  const std::vector<NodeEntry>& operands, size_t old,
                  const std::vector<NodeEntry>& given) {
    Graph body = *n->attr<GraphPtr>(name);
    std::unordered_map<EntryKey, NodeEntry> here;
    for (uint32_t k = 0; k < n->num_outputs(); ++k) here[NodeEntry(n, k).key()] = body.outputs[k];
    for (size_t i = 1; i < old; ++i)
      if (operands[i].node) here[operands[i].key()] = NodeEntry(body.inputs()[i - 1]);
    for (size_t i = old; i < operands.size(); ++i)
      here[operands[i].key()] = NodeEntry(body.AddInput(fmt::format("x:{}", i)));
    for (const NodePtr& m : tail.nodes()) {
      std::vector<NodeEntry> inputs;
      for (const NodeEntry& e : m->inputs) {
        if (!e.node) {
          inputs.emplace_back();
          continue;
        }
        NodeEntry& in = here[e.key()];
        if (!in.node) in = body.AddConstant(Graph::ConstantOf(e), e.node->attrs.name);
        inputs.push_back(in);
      }
      const NodePtr copy = body.AddCopy(m, inputs);
      for (uint32_t k = 0; k < m->num_outputs(); ++k)
        here[NodeEntry(m, k).key()] = NodeEntry(copy, k);
    }
    body.outputs.clear();
    for (const NodeEntry& e : given) body.outputs.push_back(here.at(e.key()));
    body.EraseDead();
    return std::make_shared<const Graph>(std::move(body));
  }
  /// Resolves the branches of `made`. Is more known in one of them than was in the tail?
  bool Helps(Graph& g, const NodePtr& made, const Tail& tail) {
    const int64_t before = tail.num_open(g);
    bool helps = false;
    for (const char* name : kBranches) {
      std::optional<Graph> body = TypedOf(g, made, name);
      if (!body) continue;
      Graph resolved = Resolve(*std::move(body));
      int64_t open = 0;
      for (const NodePtr& m : resolved.TopoOrder()) open += !IsGiven(m) && IsOpen(resolved, m);
      helps = helps || open < before;
      g.SetAttr(made, name, std::make_shared<const Graph>(std::move(resolved)));
    }
    return helps;
  }

  PassContext& ctx_;
  int64_t nodes_left_;
  int64_t moved_ = 0;
};

Graph ResolveIf(Graph g, PassContext& ctx) {
  return Resolver(ctx, ctx.option<int64_t>("most_nodes")).Resolve(std::move(g));
}

WEFT_REGISTER_PASS(ResolveIf)
    .describe("computes in the branches of an If what has a shape only there")
    .set_body(ResolveIf)
    .set_change_graph(true)
    .depend_graph_attr("dtype")
    .depend_graph_attr("shape")
    .depend_graph_attr("value")
    .keeps_onnx()
    .option("most_nodes", int64_t{20000}, "copies of nodes that it makes, those it drops included")
    .statistic("moved", "nodes that went into branches");

}  // namespace
}  // namespace weft
