/// window.h: sliding windows: kernel extents, strides, dilations, padding and output extents,
/// shared by Conv, pooling and their gradients. Everything may be symbolic but strides, dilations
/// and given pads.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shape_util.h"

namespace weft::ops {

/// The attributes that windows share, as given.
struct WindowAttrs {
  std::string auto_pad = "NOTSET";
  std::vector<int64_t> strides, dilations, pads;
  bool ceil_mode = false;
};

struct Window {
  std::vector<SymInt> in, kernel, out;  ///< spatial extents
  std::vector<int64_t> strides, dilations;
  std::vector<SymInt> begin, end;  ///< padding before and after
  /// What must not be negative for a first window to exist: in + padding - reach, in ceil mode
  /// stride - 1 more, as the last window may hang over the end; empty for auto_pad SAME_*,
  /// where one always does.
  std::vector<SymInt> room;
  int rank() const { return int(kernel.size()); }
};

/// Checks the attributes (kBadAttribute) and computes padding and output extents:
///   out = floor or ceil((in + begin + end - ((kernel - 1) dilation + 1)) / stride) + 1
///   out = ceil(in / stride) for auto_pad SAME_*
/// In ceil mode a window that would start in the end padding is dropped, and the first one may be
/// larger than the padded input. Unknown extents give unknown ones.
Window MakeWindow(const NodePtr& n, const WindowAttrs& attrs, const std::vector<SymInt>& in,
                  const std::vector<SymInt>& kernel, const Facts* facts);
/// Does auto_pad derive the padding (SAME_*)? kBadAttribute for a word that it does not know.
bool HasSamePadding(const NodePtr& n, const std::string& auto_pad);
/// `total` elements of padding as {begin, end}: SAME_UPPER puts the larger half at the end,
/// everything else at the begin.
std::pair<SymInt, SymInt> SplitPadding(SymInt total, const std::string& auto_pad);
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
/// Windows that read input position `i` at offset `k`, and whether such windows exist.
std::pair<Indices, Expr> WindowScatter(const Window& w, const Indices& i, const Indices& k);
/// dims[from:].
std::vector<SymInt> Tail(const Shape& s, int from);
inline Indices Tail(const Indices& at, int from) { return Indices(at.begin() + from, at.end()); }
/// {n, c, spatial...}.
inline Indices At(const Expr& n, const Expr& c, const Indices& spatial) {
  Indices at{n, c};
  at.insert(at.end(), spatial.begin(), spatial.end());
  return at;
}

}  // namespace weft::ops
