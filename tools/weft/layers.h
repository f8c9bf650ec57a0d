/// layers.h: the results of every node of a graph, as outputs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft::tool {

/// The graph with every result whose type and shape are known as an output, producers first, but
/// for those that `wanted` (null: all are) leaves out; and what they are called. A result of a node
/// of `g` keeps its id.
Graph ExposeAll(Graph g, std::vector<std::string>* names,
                const std::function<bool(const NodeEntry&)>& wanted = nullptr);

}  // namespace weft::tool
