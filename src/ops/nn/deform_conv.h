/// deform_conv.h: what DeformConv and its gradients share: attributes, windows, where a position
/// of the kernel reads.
#pragma once

#include "ops/util/demand.h"
#include "ops/util/interpolation.h"
#include "ops/util/window.h"
#include "weft/support/check.h"

namespace weft::ops {

struct DeformConvParam : OpParam<DeformConvParam> {
  Ints dilations, kernel_shape, pads, strides;
  int64_t group, offset_group;
  WEFT_OP_PARAM(DeformConvParam) {
    WEFT_FIELD(dilations).set_default({}).describe("positive, one a spatial axis; default 1");
    WEFT_FIELD(group)
        .set_default(1)
        .set_range(1, INT32_MAX)
        .describe("channels and filters split into this many groups");
    WEFT_FIELD(kernel_shape).set_default({}).describe("must equal the dimensions of W where given");
    WEFT_FIELD(offset_group)
        .set_default(1)
        .set_range(1, INT32_MAX)
        .describe("channels that share offsets: this many groups");
    WEFT_FIELD(pads).set_default({}).describe("all begins, then all ends; default 0");
    WEFT_FIELD(strides).set_default({}).describe("positive, one a spatial axis; default 1");
  }
};

/// The gradient of DeformConv; deform_conv_grad.cc.
std::vector<NodeEntry> DeformConvGradient(const NodePtr& n, const std::vector<NodeEntry>& dys);

/// The windows over an image of extents x.
inline Window DeformWindow(const NodePtr& n, const std::vector<SymInt>& x,
                           const std::vector<SymInt>& kernel, const Facts* facts) {
  const auto& p = ParamOf<DeformConvParam>(n);
  return MakeWindow(n, {"NOTSET", p.strides, p.dilations, p.pads, false}, x, kernel, facts);
}

/// Demands that input i, the offsets or the mask, lies over the windows of an image x with
/// `rows` rows a position.
inline void DemandRows(InferShapeContext& ctx, int i, const Shape& x, SymInt rows,
                       const Window& w) {
  std::vector<SymInt> dims{x[0], rows};
  dims.insert(dims.end(), w.out.begin(), w.out.end());
  DemandShape(ctx, i, Shape(std::move(dims)));
}
/// Demands of an image that it fits the attributes, and of offsets (input `offset`) that
/// they fit the image.
inline Window DemandDeformed(InferShapeContext& ctx, const Shape& x,
                             const std::vector<SymInt>& kernel, int offset) {
  const NodePtr& n = ctx.node();
  const int64_t groups = ParamOf<DeformConvParam>(n).offset_group;
  DemandMultiple(ctx, x[1], groups, "channels by offset groups");
  const Window w = DeformWindow(n, Tail(x, 2), kernel, &ctx.facts());
  DemandFit(n, w, &ctx.facts());
  DemandRows(ctx, offset, x, Product(kernel) * groups * int64_t(w.rank()), w);
  return w;
}

/// Where DeformConv reads: a window, and the offsets.
struct DeformReads {
  Window window;
  TensorArg offset;  ///< T[n, G K r, o...]
  int64_t groups;    ///< G
  SymInt channels;   ///< of the image

  /// Row g K + k of the mask, for a channel and a position of the kernel.
  Expr Row(const Expr& channel, const Indices& k) const {
    const Expr shared = Expr::Dim(ExactDiv(channels, groups));
    const Expr g = groups == 1 ? Expr::Int(0) : FloorDivExpr(channel, shared);
    return g * Expr::Dim(Product(window.kernel)) + Linearize(k, window.kernel);
  }
  /// One position an axis, in dtype t.
  Exprs At(DType t, const Expr& batch, const Expr& row, const Indices& o, const Indices& k) const {
    const int axes = window.rank();
    const Indices grid = WindowRead(window, o, k).first;
    Exprs position;
    for (int d = 0; d < axes; ++d) {
      const Expr moved = offset(ops::At(batch, row * Expr::Int(axes) + Expr::Int(d), o));
      position.push_back(Expr::Cast(t, grid[size_t(d)]) + Expr::Cast(t, moved));
    }
    return position;
  }
};

/// x read linearly at `position` (floats, one a spatial axis), 0 outside; axes from k on. Along
/// axis `slope` the derivative by the position, at an element that of the interval above it.
inline Expr ReadBetween(const TensorArg& x, DType t, const Exprs& position, size_t k,
                        const Expr& inside, Indices* from, int slope = -1) {
  if (k == position.size()) return ReadWhere(inside, Expr::Cast(t, x(*from)), Zero(t));
  const Expr base = Expr::Unary(UnOp::kFloor, position[k]), f = position[k] - base;
  const Expr low = Expr::Cast(DType::kI64, base), extent = x.dim(int(k) + 2);
  const auto at = [&](const Expr& i, const Expr& weight) {
    (*from)[k + 2] = i;
    return ReadBetween(x, t, position, k + 1, And(inside, InRange(i, extent)), from, slope) *
           weight;
  };
  const bool sloped = int(k) == slope;
  const Expr below = at(low, sloped ? Expr::Const(t, -1) : 1.0 - f);
  return below + at(low + Expr::Int(1), sloped ? Expr::Const(t, 1) : f);
}

}  // namespace weft::ops
