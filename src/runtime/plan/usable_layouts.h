/// usable_layouts.h: whether tensors may lie as the attribute "layout" says.
/// Private to the runtime.
#pragma once

#include "weft/core/graph/graph.h"
#include "weft/core/target.h"

namespace weft {

/// Every kernel was made for the layouts of its operands, every library call takes them, and what
/// the caller sees, what a node shows of another and what variables hold is plain. False after an
/// edit that broke this (and for files that lie): all tensors are plain then.
bool UsableLayouts(const Graph& graph, const Target& target);

}  // namespace weft
