/// window.h: sliding windows of convolutions and pooling: padding and output extents, resolved from
/// the attributes. One arithmetic for operators, whose extents may be symbolic, and for libraries,
/// which are called at fixed ones.
///
/// Along one axis, with reach = (kernel - 1) dilation + 1:
///
///   padding given     out = floor or ceil((in + begin + end - reach) / stride) + 1
///   auto_pad SAME_*   out = ceil(in / stride), total = max(0, (out - 1) stride + reach - in)
///
/// In ceil mode a window that would start in the end padding is dropped, and the first one may be
/// larger than the padded input. The window of a ConvTranspose is that of the Conv which it is the
/// transpose of: `in` are the extents of its result, `out` those of its input, and with
/// full = (out - 1) stride + output_padding + reach
///
///   padding given     in = full - begin - end
///   auto_pad SAME_*   in = out stride    \  total = max(0, full - in)
///   output_shape      in = that          /
///
/// Of a total, SAME_UPPER puts the larger half at the end, everything else at the begin. VALID
/// means no padding.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

/// The attributes that windows share, as given.
struct WindowAttrs {
  std::string auto_pad = "NOTSET";
  std::vector<int64_t> strides = {}, dilations = {}, pads = {};
  bool ceil_mode = false;
  std::vector<int64_t> output_padding = {}, output_shape = {};  ///< of a ConvTranspose

  bool is_same() const { return auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER"; }
};
/// Of a node, by their names; the defaults of the ONNX standard where they are not set.
WEFT_API WindowAttrs WindowAttrsOf(const NodePtr& n);
/// Gives lists that are absent their defaults for so many axes. What is wrong with the attributes,
/// for a message; nothing where they are right.
WEFT_API std::optional<std::string> CompleteWindowAttrs(WindowAttrs* attrs, size_t rank);

/// A window at extents that may be symbolic or unknown, one value a spatial axis.
struct SymWindow {
  std::vector<SymInt> in, kernel, out;
  std::vector<int64_t> strides, dilations;
  std::vector<SymInt> begin, end;  ///< padding before and after
  /// What must not be negative for a first window to exist: in + padding - reach, in ceil mode
  /// stride - 1 more, as the last window may hang over the end; empty for auto_pad SAME_* and
  /// for a ConvTranspose, where one always does.
  std::vector<SymInt> room;
  int rank() const { return int(kernel.size()); }
  SymInt reach(size_t k) const { return (kernel[k] - 1) * dilations[k] + 1; }
};
/// `attrs` are complete. Unknown extents give unknown ones; `facts` may be null.
WEFT_API SymWindow ResolveWindow(const WindowAttrs& attrs, const std::vector<SymInt>& in,
                                 const std::vector<SymInt>& kernel, const Facts* facts);
/// Of a ConvTranspose.
WEFT_API SymWindow ResolveTransposedWindow(const WindowAttrs& attrs, const std::vector<SymInt>& out,
                                           const std::vector<SymInt>& kernel, const Facts* facts);

/// A window at fixed extents, one value a spatial axis.
struct WEFT_API WindowShape {
  std::vector<int64_t> in, kernel, out, strides, dilations, begin, end;
  /// How much of `end` is there only for the last window of ceil mode; empty: nothing of it.
  std::vector<int64_t> overhang = {};

  size_t rank() const { return in.size(); }
  /// Extent of the dilated kernel.
  int64_t reach(size_t k) const { return (kernel[k] - 1) * dilations[k] + 1; }
  /// Extent of the input that the windows cover, padding included.
  int64_t covered(size_t k) const { return (out[k] - 1) * strides[k] + reach(k); }
  /// Does a window hang over the end that the attributes give?
  bool hangs_over() const;
  /// Some window may lie in the padding alone, also with the input between two of its elements:
  /// an average over nothing.
  bool may_miss() const;
};
/// Window of a Conv, a pooling or a gradient of them; `end` is what the output extents need.
/// Nothing where the attributes are wrong.
WEFT_API std::optional<WindowShape> WindowShapeOf(const NodePtr& n, std::vector<int64_t> in,
                                                  std::vector<int64_t> kernel,
                                                  std::vector<int64_t> out);
/// Window of a ConvTranspose from `x` to `y`, so `in` is `y`; `end` is less than 0 where the result
/// is padded.
WEFT_API std::optional<WindowShape> TransposedWindowShapeOf(const NodePtr& n,
                                                            std::vector<int64_t> x,
                                                            std::vector<int64_t> kernel,
                                                            std::vector<int64_t> y);

}  // namespace weft
