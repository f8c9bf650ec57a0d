/// flops.h: how much arithmetic a node asks for, by the attribute FFlops of its operator.
#pragma once

#include <optional>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/graph/graph_attr.h"

namespace weft {

/// Nothing where the operator does not say; unknown where the extents it would say it of are.
WEFT_API std::optional<SymInt> FlopsOf(const NodePtr& node, const ShapeMap& shapes);
/// What is known of that, of each operator that the node runs: itself, or those of the body of a
/// weft::Fused.
WEFT_API std::vector<SymInt> FlopsOfAll(const NodePtr& node, const ShapeMap& shapes);

}  // namespace weft
