/// sides.h: which engine takes which node, by what nodes and borders cost.
#pragma once

#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/module/delegate.h"

namespace weft {

/// By node of `order`: an engine, or -1 for our own kernels and calls. `candidates`: the engines
/// that may take each. Minimises the time of all nodes and of the borders between them: one engine
/// after another takes from the others what makes the whole cheaper, by a least cut, until nothing
/// moves. What nodes cost is the attribute "delegate_costs" of the graph where it has one, else a
/// guess that is the same for all, with which nothing is given away.
std::vector<int> CheapestSides(const Graph& graph, const std::vector<NodePtr>& order,
                               const std::vector<std::vector<int>>& candidates,
                               const std::vector<DelegateSpec>& engines);

}  // namespace weft
