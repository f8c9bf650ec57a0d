/// plan_parts.h: which blocks may lie in others, where the sizes of a run allow it.
#pragma once

#include <vector>

#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/plan/storage.h"

namespace weft {

/// What a node's FAlias, or that of the only operator that a kernel is made of, says of the blocks
/// of the plan. Empty where one of its tensors has no block of its own in the arena, or does not
/// lie in row-major order. `layouts`: null where all do.
std::vector<StoragePart> CopiedParts(const Graph& g, const NodePtr& node, const StoragePlan& plan,
                                     const LayoutMap& layouts);

}  // namespace weft
