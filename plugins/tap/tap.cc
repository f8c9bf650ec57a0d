/// tap.cc: a pass and a rewrite rule.
///
/// Tap. Makes the results of all nodes of one operator outputs of the graph, to look at them.
///   needs      -
///   provides   -
///   preserves  everything: no node changes
///   never      removes, renames or reorders an output that was there
///   cost       linear
///
/// abs-of-neg, a rule of Simplify:   Abs(Neg(x))   ->   Abs(x)
/// Exact for every value: Abs only clears a sign. For the smallest integer, Neg and Abs
/// both wrap to it.
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/rewrite_rule.h"
#include "weft/core/pass/pass.h"

namespace demo {
namespace {

using namespace weft;

Graph Tap(Graph g, PassContext& ctx) {
  const std::string op = ctx.option<std::string>("op");
  for (NodePtr n : g.TopoOrder()) {
    if (!IsOp(n, op) || g.is_output(n)) continue;
    if (!ctx.Fuel("tap", n)) break;
    g.outputs.push_back(NodeEntry(n));
    ctx.Count("taps");
  }
  return g;
}

WEFT_REGISTER_PASS(Tap)
    .describe("makes the results of all nodes of one operator outputs of the graph")
    .set_body(Tap)
    .set_change_graph(true)
    .preserve_graph_attr("shape")
    .preserve_graph_attr("dtype")
    .result(PassResult::kAppends)
    .option("op", "Relu", "the operator")
    .statistic("taps", "outputs added")
    .rewrite("tap", "one output added");

std::vector<NodeEntry> AbsOfNeg(RewriteContext& ctx, const NodePtr& n) {
  if (!IsOp(n->inputs[0].node, "Neg")) return {};
  return {NodeEntry(ctx.graph().AddNode("Abs", {n->inputs[0].node->inputs[0]}))};
}

WEFT_REGISTER_REWRITE_RULE("abs-of-neg")
    .group("signs")
    .root("Abs")
    .describe("Abs(Neg(x)) made Abs(x)")
    .apply(AbsOfNeg);

}  // namespace
}  // namespace demo
