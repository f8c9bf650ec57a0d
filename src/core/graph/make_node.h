/// make_node.h: a node of a known operator, for builders that make many of one. Private to core.
#pragma once

#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

/// As MakeNode by name, without the look-up.
NodeEntry MakeNode(const Op* op, const std::vector<NodeEntry>& inputs, AttrDict attrs = {},
                   std::string name = {});

}  // namespace weft
