/// make_node.h: a node of a known operator, for builders that make many of one. Private to core.
#pragma once

#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

/// As MakeNode by name, without the look-up and without a name for the node.
NodeEntry MakeNode(const Op* op, const std::vector<NodeEntry>& inputs);

}  // namespace weft
