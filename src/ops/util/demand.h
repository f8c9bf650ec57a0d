/// demand.h: what an operator demands of the extents of its operands, beside that
/// two are equal (UnifyDims).
///
/// A kernel reads its operands at positions that follow from extents, and has no bounds to check.
/// What makes those positions valid is said here: where inference sees that it cannot hold,
/// kShapeMismatch; where only a run can tell, a fact of the graph, which every binding is held
/// against (core/tensor/demand.h). `what` names the demand in the message. Unknown extents demand
/// nothing: a later compilation infers anew when they are known.
#pragma once

#include "shape_util.h"

namespace weft::ops {

/// r.lo <= e <= r.hi.
void DemandRange(InferShapeContext& ctx, SymInt e, Range r, const char* what);
inline void DemandAtLeast(InferShapeContext& ctx, SymInt e, int64_t least, const char* what) {
  DemandRange(ctx, e, {least, INT64_MAX}, what);
}
/// a <= b.
void DemandAtMost(InferShapeContext& ctx, SymInt a, SymInt b, const char* what);
/// e is a multiple of d > 0.
void DemandMultiple(InferShapeContext& ctx, SymInt e, int64_t d, const char* what);
/// An axis of extent `to` is read from one of extent `from` at positions that are cut at its ends:
/// where the one has an element, so has the other.
void DemandElement(InferShapeContext& ctx, SymInt from, SymInt to, const char* what);
/// Input i has the shape `s`.
void DemandShape(InferShapeContext& ctx, int i, const Shape& s);
/// Input i broadcasts to `to`, one way.
void DemandBroadcastTo(InferShapeContext& ctx, int i, const Shape& to);

}  // namespace weft::ops
