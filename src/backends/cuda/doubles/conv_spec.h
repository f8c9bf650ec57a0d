/// conv_spec.h: a convolution as the tests ask a library for it.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cuda/libraries/libraries.h"

namespace weft::e2e {

/// `x`, `w`, `y`: extents of its tensors, which all lie so. Neither strides nor pads.
inline cuda::ConvSpec Spec(cuda::ConvSpec::Pass pass, DType type, Layout layout,
                           const std::vector<int64_t>& x, const std::vector<int64_t>& w,
                           const std::vector<int64_t>& y, int64_t groups = 1) {
  cuda::ConvSpec s;
  s.pass = pass;
  s.type = type;
  s.x_layout = s.w_layout = s.y_layout = layout;
  s.shape.images = x[0];
  s.shape.channels = x[1];
  s.shape.filters = w[0];
  s.shape.groups = groups;
  WindowShape& v = s.shape.window;
  v.in.assign(x.begin() + 2, x.end());
  v.kernel.assign(w.begin() + 2, w.end());
  v.out.assign(y.begin() + 2, y.end());
  v.strides = v.dilations = std::vector<int64_t>(v.in.size(), 1);
  v.begin = v.end = std::vector<int64_t>(v.in.size(), 0);
  return s;
}

}  // namespace weft::e2e
