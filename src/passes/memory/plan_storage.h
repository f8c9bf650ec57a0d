/// plan_storage.h: the storage plan of an order of steps: PlanMemory keeps it, and Schedule judges
/// orders by it.
#pragma once

#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/plan/storage.h"

namespace weft {

/// `graph` has the attributes that PlanMemory needs; `order` need not be its own.
StoragePlan PlanStorage(const Graph& graph, const Order& order);

}  // namespace weft
