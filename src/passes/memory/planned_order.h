/// planned_order.h: the order that Checkpoint hands to Schedule, as the attribute "planned_order".
#pragma once

#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

/// The nodes in the order that was planned, while it has all of them; else as TopoOrder.
std::vector<NodePtr> PlannedNodes(const Graph& graph);

}  // namespace weft
