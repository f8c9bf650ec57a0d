/// moved_values.h: values of integer tensors through operators that only move elements.
#pragma once

#include "weft/core/op/op_attr_types.h"

namespace weft {

/// Sets the value of the one output of ctx.node(), an operator with TMovesElements whose result
/// has the shape `out`, as far as its FCodeGen tells at compile time which elements of its operands
/// stand where. Sets nothing where it tells of none.
void FollowMovedElements(InferShapeContext& ctx, const Shape& out);

}  // namespace weft
