/// fold_negation.cc: FoldNegation. Takes a negated second operand into the operator that reads it.
///   needs      shape, dtype
///   provides   -
///   preserves  shape, dtype
///   never      changes a bit of a result: a - (-b) = a + b and a + (-b) = a - b hold for every
///              integer and float, signed zeros included
///   cost       linear
///
///   %n = Neg(%b)  %y = Sub(%a, %n)   ->   %y = Add(%a, %b)
///   %n = Neg(%b)  %y = Add(%a, %n)   ->   %y = Sub(%a, %b)
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {
Graph FoldNegation(Graph g, PassContext& ctx) {
  const bool add_too = ctx.option<bool>("add");
  ShapeMap shapes = g.GetAttr<ShapeMap>("shape");
  TypeMap types = g.GetAttr<TypeMap>("dtype");
  for (NodePtr n : g.TopoOrder()) {
    const bool sub = IsOp(n, "Sub");
    if (!sub && !(add_too && IsOp(n, "Add"))) continue;
    const NodePtr negation = n->inputs[1].node;
    if (!IsOp(negation, "Neg")) continue;
    if (!ctx.Fuel("negation", n)) break;

    const std::vector<NodeEntry> operands = {n->inputs[0], negation->inputs[0]};
    const NodeEntry to(g.AddNode(sub ? "Add" : "Sub", operands));
    shapes.set(to, shapes[n]);
    types.set(to, types[n]);
    g.ReplaceNode(n, {to});
    ctx.Count(sub ? "sub" : "add");
  }
  g.SetAttr("shape", std::move(shapes));
  g.SetAttr("dtype", std::move(types));
  ctx.Count("dead", g.EraseDead());
  return g;
}
WEFT_REGISTER_PASS(FoldNegation)
    .describe("takes a negated second operand into the Sub or Add that reads it")
    .set_body(FoldNegation)
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .preserve_graph_attr("shape")
    .preserve_graph_attr("dtype")
    .option("add", true, "also Add, not only Sub")
    .statistic("sub", "Sub that became Add")
    .statistic("add", "Add that became Sub")
    .rewrite("negation", "one of either")
    .statistic("dead", "nodes that nothing uses any more");

}  // namespace
}  // namespace weft
