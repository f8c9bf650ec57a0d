/// channel_util.h: small graphs over the channels and the spatial axes of [n, c, spatial...] whose
/// rank is known when the graph runs only; for gradients.
#pragma once

#include "shape_util.h"

namespace weft::ops {

/// The spatial axes of x, as a tensor: range(2, rank).
inline NodeEntry SpatialAxes(const NodeEntry& x) {
  return ApplyOp("Range",
                 {ConstantLike(x, Tensor::Scalar(DType::kI64, 2)), ApplyOp("Size", {ShapeOf(x)}),
                  ConstantLike(x, Tensor::Scalar(DType::kI64, 1))});
}
/// v[c] as [c, 1, 1 ...], which broadcasts over x.
inline NodeEntry ChannelColumn(const NodeEntry& v, const NodeEntry& x) {
  const NodeEntry spatial = ApplyOp("Shape", {ApplyOp("Shape", {x}, {{"start", 2}})});
  const NodeEntry ones = ApplyOp("ConstantOfShape", {spatial}, {{"value", Tensor::Ints({1})}});
  const NodeEntry shape = ApplyOp("Concat", {ShapeOf(v), ones}, {{"axis", 0}});
  return ApplyOp("Reshape", {v, shape}, {{"allowzero", 1}});
}
inline NodeEntry CastTo(const NodeEntry& e, const NodeEntry& like) {
  return ApplyOp("CastLike", {e, like});
}

}  // namespace weft::ops
