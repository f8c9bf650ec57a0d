/// inline_body.h: the body of an operator among the nodes around it.
#pragma once

#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

/// What is copied stays what it is: no effect, and no variable but inputs and constants.
bool CanInline(const Graph& body);
/// Copies of the nodes of `body` in `g`, its inputs being `operands` (null: absent); its outputs.
/// Requires CanInline.
std::vector<NodeEntry> InlineBody(Graph& g, const Graph& body,
                                  const std::vector<NodeEntry>& operands);

}  // namespace weft
