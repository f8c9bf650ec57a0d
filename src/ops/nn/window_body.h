/// window_body.h: windows in bodies in ONNX's operators (FOnnxBody): they ask for constant spatial
/// extents.
#pragma once

#include "ops/util/onnx_body_util.h"
#include "ops/util/window.h"

namespace weft::ops {

/// A window at constant extents, one value a spatial axis.
struct ConstantWindow {
  std::vector<int64_t> in, kernel, out, strides, dilations, begin, end;
  size_t rank() const { return kernel.size(); }
  /// Extent of the dilated kernel.
  int64_t reach(size_t k) const { return (kernel[k] - 1) * dilations[k] + 1; }
  /// All begins, then all ends.
  std::vector<int64_t> pads() const;
};

/// The spatial extents of a tensor [n, c, spatial...]; kUnsupported where one is no constant.
std::vector<int64_t> ConstantSpatial(const Shape& s, const char* what);
/// The window that `attrs` put over x, with the result y.
ConstantWindow MakeConstantWindow(const NodePtr& n, const WindowAttrs& attrs, const Shape& x,
                                  const std::vector<int64_t>& kernel, const Shape& y);
/// `result` = ConvTranspose from extents `out` back to extents `in`.
std::string TransposedConvText(const ConstantWindow& w, int64_t group, const std::string& result,
                               const std::string& operands);

}  // namespace weft::ops
