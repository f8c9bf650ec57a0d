/// window.h: sliding windows (weft/core/op/window.h) in inference and code of Conv, pooling and
/// their gradients. Everything may be symbolic but strides, dilations and given pads.
#pragma once

#include <utility>
#include <vector>

#include "shape_util.h"
#include "weft/core/op/window.h"

namespace weft::ops {

using Window = SymWindow;

/// Checks the attributes (kBadAttribute), that a first window fits (kShapeMismatch), and resolves
/// them (weft/core/op/window.h).
Window MakeWindow(const NodePtr& n, WindowAttrs attrs, const std::vector<SymInt>& in,
                  const std::vector<SymInt>& kernel, const Facts* facts);
/// Of a ConvTranspose, over the extents of x.
Window MakeTransposedWindow(const NodePtr& n, WindowAttrs attrs, const std::vector<SymInt>& x,
                            const std::vector<SymInt>& kernel, const Facts* facts);
/// Demands of every binding that a window fits into each symbolic extent.
void DemandFit(const NodePtr& n, const Window& w, Facts* facts);
/// The windows of pooling, whose extents `kernel_shape` are attributes: positive (kBadAttribute),
/// at most 2^22 positions (kLimit), over the extents of x = [n, c, spatial...].
Window PoolingWindow(const NodePtr& n, const WindowAttrs& attrs,
                     const std::vector<int64_t>& kernel_shape, const Shape& x, const Facts* facts);
/// What pooling input 0 gives; throws as PoolingWindow, and kShapeMismatch for another rank.
Shape PooledShape(InferShapeContext& ctx, const WindowAttrs& attrs,
                  const std::vector<int64_t>& kernel_shape);
/// [n, c, 1, ...], what pooling over all of x = [n, c, spatial...] gives; kShapeMismatch for
/// a rank below 2.
void GlobalShape(InferShapeContext& ctx);
/// Input positions of window offsets `k` of the windows at `o`, and whether they lie inside the
/// input.
std::pair<Indices, Expr> WindowRead(const Window& w, const Indices& o, const Indices& k);
/// value where `inside`, else 0.
inline Expr ReadInside(const Expr& inside, const Expr& value) {
  return ReadWhere(inside, value, Zero(value->dtype()));
}
/// Windows that read input position `i` at offset `k`, and whether such windows exist.
std::pair<Indices, Expr> WindowScatter(const Window& w, const Indices& i, const Indices& k);
/// The windows that read input position `i`, counted by `t`, each of them over WindowTaps: fewer
/// than the offsets of a window where strides skip most of those.
struct WindowHit {
  Indices k, o;  ///< offset and window
  Expr hit;      ///< such a window exists
};
std::vector<SymInt> WindowTaps(const Window& w);
WindowHit WindowTap(const Window& w, const Indices& i, const Indices& t);
/// dims[from:].
std::vector<SymInt> Tail(const Shape& s, int from);
inline Indices Tail(const Indices& at, int from) { return Indices(at.begin() + from, at.end()); }
/// Of a convolution over X = [n, c, spatial...] (input 0) with filters W.
struct ConvOperands {
  int rank = 0;                ///< 0: neither is known, and output 0 is left so
  Shape x, w;                  ///< of that rank
  std::vector<SymInt> kernel;  ///< the spatial extents of W, equal to kernel_shape where given
};
/// Throws kShapeMismatch for a rank below 3 or two ranks, kBadAttribute for a kernel_shape of
/// another length.
ConvOperands ConvOperandsOf(InferShapeContext& ctx, const std::vector<int64_t>& kernel_shape,
                            int filters = 1);
/// {n, c, spatial...}.
inline Indices At(const Expr& n, const Expr& c, const Indices& spatial) {
  Indices at{n, c};
  at.insert(at.end(), spatial.begin(), spatial.end());
  return at;
}

}  // namespace weft::ops
