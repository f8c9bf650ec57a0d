/// node_attrs.h: attributes of library operators, with the defaults of the ONNX
/// standard; for every backend.
///
/// The structs that declare them live with the operators; here only names are known.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

inline int64_t IntAttr(const NodePtr& n, std::string_view name, int64_t otherwise) {
  return n->has_attr(name) ? n->attr<int64_t>(name) : otherwise;
}
inline double FloatAttr(const NodePtr& n, std::string_view name, double otherwise) {
  return n->has_attr(name) ? n->attr<double>(name) : otherwise;
}
/// Empty where it is not set.
inline std::vector<int64_t> IntsAttr(const NodePtr& n, std::string_view name) {
  return n->has_attr(name) ? std::vector<int64_t>(n->attr<Ints>(name)) : std::vector<int64_t>();
}

/// A sliding window at fixed extents, one value a spatial axis.
struct WindowShape {
  std::vector<int64_t> in, kernel, out, strides, dilations, begin, end;
  size_t rank() const { return in.size(); }
  /// Extent of the dilated kernel.
  int64_t reach(size_t k) const { return (kernel[k] - 1) * dilations[k] + 1; }
  /// Some window may lie in the padding alone, also with the input between two of its elements:
  /// an average over nothing.
  bool may_miss() const {
    for (size_t k = 0; k < rank(); ++k)
      if (begin[k] >= reach(k) || end[k] >= reach(k) || (begin[k] > 0 && in[k] < dilations[k]))
        return true;
    return false;
  }
};

/// Window of a Conv, a pooling or a gradient of them from attributes and extents; `end` is what the
/// output extent needs (in ceil mode more than the attribute says, `grown` tells). Nothing where a
/// library cannot express it: negative pads.
inline std::optional<WindowShape> MakeWindow(const NodePtr& n, std::vector<int64_t> in,
                                             std::vector<int64_t> kernel, std::vector<int64_t> out,
                                             bool* grown = nullptr) {
  WindowShape w{std::move(in),
                std::move(kernel),
                std::move(out),
                IntsAttr(n, "strides"),
                IntsAttr(n, "dilations"),
                {},
                {}};
  const size_t rank = w.in.size();
  if (w.kernel.size() != rank || w.out.size() != rank || rank == 0) return std::nullopt;
  if (w.strides.empty()) w.strides.assign(rank, 1);
  if (w.dilations.empty()) w.dilations.assign(rank, 1);
  const std::vector<int64_t> pads = IntsAttr(n, "pads");
  const std::string auto_pad =
      n->has_attr("auto_pad") ? n->attr<std::string>("auto_pad") : "NOTSET";
  if (w.strides.size() != rank || w.dilations.size() != rank ||
      (!pads.empty() && pads.size() != 2 * rank))
    return std::nullopt;
  for (size_t k = 0; k < rank; ++k) {
    const int64_t covered = (w.out[k] - 1) * w.strides[k] + w.reach(k);
    int64_t begin = 0, end = 0;
    if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
      const int64_t total = covered > w.in[k] ? covered - w.in[k] : 0;
      begin = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      end = total - begin;
    } else if (auto_pad != "VALID" && !pads.empty()) {
      begin = pads[k];
      end = pads[rank + k];
    }
    if (begin < 0 || end < 0) return std::nullopt;
    if (covered > w.in[k] + begin + end) {  // ceil mode
      if (grown) *grown = true;
      end = covered - w.in[k] - begin;
    }
    w.begin.push_back(begin);
    w.end.push_back(end);
  }
  return w;
}

/// Window of the Conv that a ConvTranspose is the transpose of: `in` are the extents of its result,
/// `out` those of `x`, its source; `end` is less than 0 where the result is padded.
inline std::optional<WindowShape> MakeTransposedWindow(const NodePtr& n,
                                                       const std::vector<int64_t>& x,
                                                       const std::vector<int64_t>& kernel,
                                                       const std::vector<int64_t>& y) {
  WindowShape w{y, kernel, x, IntsAttr(n, "strides"), IntsAttr(n, "dilations"), {}, {}};
  const size_t rank = y.size();
  if (w.strides.empty()) w.strides.assign(rank, 1);
  if (w.dilations.empty()) w.dilations.assign(rank, 1);
  std::vector<int64_t> pads = IntsAttr(n, "pads"), extra = IntsAttr(n, "output_padding");
  if (pads.empty()) pads.assign(2 * rank, 0);
  if (extra.empty()) extra.assign(rank, 0);
  if (w.strides.size() != rank || w.dilations.size() != rank || pads.size() != 2 * rank ||
      extra.size() != rank)
    return std::nullopt;
  const std::string mode = n->has_attr("auto_pad") ? n->attr<std::string>("auto_pad") : "NOTSET";
  const bool upper = mode == "SAME_UPPER", same = upper || mode == "SAME_LOWER";
  const bool derived = same || !IntsAttr(n, "output_shape").empty();
  for (size_t k = 0; k < rank; ++k) {
    const int64_t covered = (x[k] - 1) * w.strides[k] + w.reach(k);
    int64_t begin = mode == "VALID" ? 0 : pads[k];
    if (derived) {
      const int64_t total = std::max<int64_t>(0, covered + extra[k] - y[k]);
      begin = upper ? total / 2 : total - total / 2;
    }
    w.begin.push_back(begin);
    w.end.push_back(covered - begin - y[k]);
  }
  return w;
}

}  // namespace weft
