/// decompose.h: operators that others together compute, for the pass Decompose.
#pragma once

#include <functional>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

/// The results of the node by other operators on its operands, in its graph: one an output, null
/// for one that nothing uses. Throws what the operator's inference throws.
using FDecompose = std::function<std::vector<NodeEntry>(const NodePtr&)>;

}  // namespace weft
