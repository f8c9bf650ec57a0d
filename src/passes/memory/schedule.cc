/// schedule.cc: Schedule. Fixes the execution order: topological, ties by the
/// traversal from the outputs.
///   needs      shape, dtype
///   provides   order
///   preserves  everything
///   cost       linear
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

Graph Schedule(Graph g, PassContext&) {
  Order order;
  for (NodePtr n : g.TopoOrder()) order.nodes.push_back(n->id());
  g.SetAttr("order", std::move(order));
  return g;
}

WEFT_REGISTER_PASS(Schedule)
    .describe("fixes the execution order: deterministic topological")
    .set_body(Schedule)
    .enters_bodies()
    .set_change_graph(false)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .provide_graph_attr("order")
    .preserve_all();

}  // namespace
}  // namespace weft
