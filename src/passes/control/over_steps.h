/// over_steps.h: operators of the body of a Scan that compute the same over all steps at once, the
/// steps on a new first axis.
#pragma once

#include <functional>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/graph/graph_attr_types.h"

namespace weft {

bool IsMatrixProduct(const NodePtr& n);
/// Does `n` compute over all steps what it computes of each? `is_stacked`: which of its operands
/// get the steps; the others are the same in all. `shapes` are those of the body.
bool CanRunOverSteps(const NodePtr& n, const ShapeMap& shapes,
                     const std::function<bool(const NodeEntry&)>& is_stacked);
/// That, for one that can, in `g`: of `operands`, stacked where they are.
NodeEntry RunOverSteps(Graph& g, const NodePtr& n, const std::vector<NodeEntry>& operands);

}  // namespace weft
