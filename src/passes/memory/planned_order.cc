/// planned_order.cc: see planned_order.h.
#include "planned_order.h"

#include "weft/core/graph/graph_attr_types.h"

namespace weft {

std::vector<NodePtr> PlannedNodes(const Graph& graph) {
  std::vector<NodePtr> nodes = graph.TopoOrder();
  if (!graph.HasAttr("planned_order")) return nodes;
  // What nothing reads any more is gone from both.
  std::vector<char> lives(graph.id_bound(), 0);
  for (const NodePtr n : nodes) lives[n->id()] = 1;
  std::vector<NodePtr> planned;
  for (const NodeId id : graph.GetAttr<Order>("planned_order").nodes)
    if (id < lives.size() && lives[id]) planned.push_back(graph.node(id));
  return planned.size() == nodes.size() ? planned : nodes;
}

WEFT_REGISTER_GRAPH_ATTR(planned_order, kDerived, Order)
    .describe("an order of nodes that was planned for its peak of memory, by node id")
    .hidden()
    .remap([](Order& o, const std::vector<NodeId>& map) {
      for (NodeId& id : o.nodes) id = map[id];
    });

}  // namespace weft
