/// views_pass.cc: HsimdViews. Views of operands and of results leave fused nodes: inside they would
/// hold axes in one place, outside nothing runs for them.
///   needs      shape, dtype
///   provides   -
///   preserves  -
///   never      changes what the graph computes; takes out a view between two operators of a body
///   cost       a copy of every body that a view leaves
///   source     rules/rule.h (IsView)
///
///   f = Fused(x) {Reshape, Relu}   ->   r = Reshape(x); f = Fused(r) {Relu}
#include <algorithm>
#include <vector>

#include "../rules/rule.h"
#include "l3.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/pass/pass.h"

namespace hsimd {
namespace {

using namespace weft;

/// One fused node on its way to another.
class Body {
 public:
  Body(Graph& graph, const NodePtr& fused)
      : g_(graph), fused_(fused), body_(*FusedBody(fused)), inputs_(fused->inputs) {}

  /// False: no view could leave.
  bool TakeViewsOut() {
    if (OnlyViews()) return false;
    bool changed = false;
    for (const NodePtr& n : body_.TopoOrder()) {
      if (!CanLeave(n) || NumberOf(n->inputs[0].node) < 0 || body_.is_output(n)) continue;
      const NodeEntry view = Outside(n, inputs_[size_t(NumberOf(n->inputs[0].node))]);
      const Type type = body_.GetAttr<TypeMap>("dtype")[NodeEntry(n)];
      const Shape shape = body_.GetAttr<ShapeMap>("shape")[NodeEntry(n)];
      const NodeEntry now(body_.AddInput("", type, shape));
      body_.MutableAttr<TypeMap>("dtype").set(now, type);
      body_.MutableAttr<ShapeMap>("shape").set(now, shape);
      body_.ReplaceUses(NodeEntry(n), now);
      inputs_.push_back(view);
      changed = true;
    }
    std::vector<NodePtr> views(body_.outputs.size());
    for (size_t k = 0; k < views.size(); ++k) {
      const NodePtr n = body_.outputs[k].node;
      if (!CanLeave(n) || n->inputs[0].node->is_variable()) continue;
      views[k] = n;
      changed = true;
    }
    if (!changed) return false;
    // Views stay where they are until they have been copied.
    Graph whole = body_;
    for (size_t k = 0; k < views.size(); ++k)
      if (views[k]) body_.outputs.set(k, views[k]->inputs[0]);
    std::vector<NodeEntry> given = inputs_;
    const NodePtr twin = FuseAgain();
    body_ = std::move(whole);
    inputs_ = std::move(given);
    std::vector<NodeEntry> results;
    for (size_t k = 0; k < views.size(); ++k) {
      const NodeEntry y(twin, uint32_t(k));
      results.push_back(views[k] ? Outside(body_.outputs[k].node, y) : y);
    }
    g_.ReplaceNode(fused_, results);
    return true;
  }

 private:
  /// Then it costs nothing as it is.
  bool OnlyViews() const {
    for (const NodePtr& n : body_.TopoOrder())
      if (!LiesOffChip(n) && !IsView(n)) return false;
    return true;
  }
  /// Which input of the body; -1: none.
  int NumberOf(const NodePtr& n) const {
    const std::vector<NodePtr>& given = body_.inputs();
    const auto it = std::find(given.begin(), given.end(), n);
    return it == given.end() ? -1 : int(it - given.begin());
  }
  /// A view whose shape is known outside.
  bool CanLeave(const NodePtr& n) const {
    if (n->is_variable() || !IsView(n)) return false;
    for (size_t i = 1; i < n->num_inputs(); ++i) {
      const NodeEntry& e = n->inputs[i];
      if (e.node && NumberOf(e.node) < 0 && !Graph::ConstantOf(e)) return false;
    }
    return true;
  }
  /// A copy of it, of `operand`.
  NodeEntry Outside(const NodePtr& view, const NodeEntry& operand) {
    std::vector<NodeEntry> inputs{operand};
    for (size_t i = 1; i < view->num_inputs(); ++i) {
      const NodeEntry& e = view->inputs[i];
      if (!e.node)
        inputs.emplace_back();
      else if (const int k = NumberOf(e.node); k >= 0)
        inputs.push_back(inputs_[size_t(k)]);
      else
        inputs.push_back(g_.AddConstant(Graph::ConstantOf(e)));
    }
    return NodeEntry(g_.AddCopy(view, inputs));
  }
  /// The body without inputs that nothing reads, as a new node.
  NodePtr FuseAgain() {
    body_.EraseDead();
    std::vector<NodePtr> kept;
    std::vector<NodeEntry> entries;
    const std::vector<NodePtr> given = body_.inputs();
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i]->uses().empty() && !body_.is_output(given[i])) continue;
      kept.push_back(given[i]);
      entries.push_back(inputs_[i]);
    }
    body_.SetInputs(kept);
    body_.EraseDead();
    const NodePtr twin =
        g_.AddNode(builtin::kFused, entries,
                   {{"body", AttrValue(std::make_shared<const Graph>(std::move(body_)))}});
    g_.SetOrigin(twin, fused_->origin());
    return twin;
  }

  Graph& g_;
  NodePtr fused_;
  Graph body_;
  std::vector<NodeEntry> inputs_;  ///< outside, of the body's inputs
};

Graph Views(Graph g, PassContext& ctx) {
  for (const NodePtr& n : g.TopoOrder()) {
    if (n->is_variable() || !IsOp(n, builtin::kFused)) continue;
    if (!ctx.Fuel("views", n)) break;
    if (Body(g, n).TakeViewsOut()) ctx.Count("views");
  }
  g.EraseDead();
  return g;
}

WEFT_REGISTER_PASS(HsimdViews)
    .describe("takes views of operands and of results out of fused nodes")
    .set_body(Views)
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .statistic("views", "fused nodes that views have left")
    .rewrite("views", "one fused node");

}  // namespace
}  // namespace hsimd
