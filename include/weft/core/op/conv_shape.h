/// conv_shape.h: the extents of a convolution, read off a node, for whoever computes it by a
/// library or a machine.
#pragma once

#include <optional>
#include <vector>

#include "weft/core/op/node_attrs.h"
#include "weft/core/op/window.h"
#include "weft/support/checked.h"

namespace weft {

/// Extents of one convolution, whichever of its three tensors is the result.
struct ConvShape {
  int64_t images = 0, groups = 1, channels = 0, filters = 0;
  WindowShape window;
  std::vector<int64_t> source(int64_t n) const { return With(n, channels, window.in); }
  std::vector<int64_t> result(int64_t n) const { return With(n, filters, window.out); }
  /// With the groups as an axis of their own, where there are several.
  std::vector<int64_t> weights() const {
    std::vector<int64_t> d{filters, channels};
    if (groups > 1) d = {groups, filters / groups, channels / groups};
    d.insert(d.end(), window.kernel.begin(), window.kernel.end());
    return d;
  }
  double flops(int64_t n) const {
    double f = 2.0 * double(n) * double(filters) * double(channels / groups);
    for (size_t k = 0; k < window.rank(); ++k)
      f *= double(window.out[k]) * double(window.kernel[k]);
    return f;
  }

 private:
  static std::vector<int64_t> With(int64_t n, int64_t c, const std::vector<int64_t>& spatial) {
    std::vector<int64_t> d{n, c};
    d.insert(d.end(), spatial.begin(), spatial.end());
    return d;
  }
};

/// Takes away axes on which nothing happens (extent 1, kernel 1, no padding), all but one:
/// libraries block over the last axis, and one of extent 1 costs oneDNN a factor of four.
inline void DropIdleAxes(WindowShape* w) {
  w->overhang.clear();  // convolutions have no ceil mode
  for (size_t k = w->rank(); k-- > 0 && w->rank() > 1;) {
    if (w->in[k] != 1 || w->kernel[k] != 1 || w->out[k] != 1 || w->begin[k] != 0 || w->end[k] != 0)
      continue;
    for (auto* list : {&w->in, &w->kernel, &w->out, &w->strides, &w->dilations, &w->begin, &w->end})
      list->erase(list->begin() + std::ptrdiff_t(k));
  }
}

/// Extents of x, W and y with the attributes of `n`, without idle axes. Nothing where a library
/// cannot express it: more than three axes, negative pads.
inline std::optional<ConvShape> ReadConv(const NodePtr& n, const std::vector<int64_t>& x,
                                         const std::vector<int64_t>& w,
                                         const std::vector<int64_t>& y) {
  const auto tail = [](const std::vector<int64_t>& dims) {
    return std::vector<int64_t>(dims.begin() + 2, dims.end());
  };
  if (x.size() < 3 || w.size() != x.size() || y.size() != x.size()) return std::nullopt;
  ConvShape c;
  c.images = x[0];
  c.channels = x[1];
  c.filters = w[0];
  c.groups = IntAttr(n, "group", 1);
  if (c.groups < 1 || c.channels % c.groups != 0 || c.filters % c.groups != 0 ||
      w[1] != c.channels / c.groups)
    return std::nullopt;
  auto window = WindowShapeOf(n, tail(x), tail(w), tail(y));
  if (!window) return std::nullopt;
  c.window = std::move(*window);
  DropIdleAxes(&c.window);
  if (c.window.rank() > 3) return std::nullopt;
  return c;
}

}  // namespace weft
