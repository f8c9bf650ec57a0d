/// demand.h: what operators demand of extents that only a run knows, kept as facts. Compiled code
/// relies on them: it reads at positions that follow from extents and checks none, so every binding
/// is held against them (Facts::CheckHolds).
///   throws  kShapeMismatch where what is known already excludes it
#pragma once

#include "weft/core/tensor/shape.h"

namespace weft {

/// Extent `from` broadcasts one way: it is 1 or `to`. Unknown extents demand nothing.
WEFT_API void DemandBroadcast(SymInt from, SymInt to, Facts* facts);
/// BroadcastShapes of two shapes that a run broadcasts. An extent that the result does not show is
/// demanded: x[m] + y[5] has 5 elements, and m is 1 or 5. Without facts: BroadcastShapes.
WEFT_API Shape BroadcastDemanded(const Shape& a, const Shape& b, Facts* facts);

/// Operator attribute "TBroadcasts": the operands broadcast against each other and the result has
/// the shape that comes of it, so that an operand may be replaced by one that broadcasts to it
/// wherever the others give the extents. An element-wise operator without FInferShape does as well.
/// False for operators whose operands broadcast one way (PRelu's slope to x).
using TBroadcasts = bool;

}  // namespace weft
