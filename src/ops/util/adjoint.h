/// adjoint.h: shape inference of adjoints, by that of the operators they belong to.
///
/// An adjoint takes dy, which lies over the results of an operator, and as a value the extents of
/// the operand whose gradient it gives. It reads dy where the operator would have written. That the
/// two belong together is not guaranteed: so the operator's own inference is asked what it gives
/// for these operands, with all that it demands of them, and dy must be that.
#pragma once

#include <vector>

#include "demand.h"

namespace weft::ops {

/// Operands that an adjoint has no input for.
constexpr int kSought = -1;  ///< the one whose extents are given as a value
constexpr int kAbsent = -2;

/// Output 0 has the extents in input `shape`. operands[k] says which input of the adjoint is
/// operand k of the operator that `forward` infers; both have the same attributes. Inputs 0 ..
/// results - 1 have the shape of its result.
FInferShape AdjointShape(FInferShape forward, int shape, std::vector<int> operands,
                         int results = 1);

/// FInferType: output 0 has the common float dtype of inputs 0 and 1; input 2 holds i64 extents.
void AdjointType(InferTypeContext& ctx);

}  // namespace weft::ops
