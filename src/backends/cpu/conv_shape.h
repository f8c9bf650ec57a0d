/// conv_shape.h: the extents of a convolution, read off a node, and how its tensors lie in memory.
#pragma once

#ifdef WEFT_HAVE_ONEDNN

#include <optional>
#include <vector>

#include "backends/cpu/node_attrs.h"
#include "backends/cpu/onednn_adapter.h"
#include "weft/core/layout.h"

namespace weft::cpu {

/// Extents of one convolution, whichever of its three tensors is the result.
struct ConvShape {
  int64_t images = 0, groups = 1, channels = 0, filters = 0;
  WindowShape window;
  Dims source(int64_t n) const { return With(n, channels, window.in); }
  Dims result(int64_t n) const { return With(n, filters, window.out); }
  Dims weights() const;
  double flops(int64_t n) const;

 private:
  static Dims With(int64_t n, int64_t c, const std::vector<int64_t>& spatial);
};

/// Extents of x, W and y with the attributes of `n`. Axes on which nothing happens (extent 1, kernel
/// 1, no padding) are dropped: oneDNN blocks over the last axis, and a last axis of extent 1 costs it
/// a factor of four. Nothing where the library cannot express it.
std::optional<ConvShape> ReadConv(const NodePtr& n, const std::vector<int64_t>& x,
                                  const std::vector<int64_t>& w, const std::vector<int64_t>& y);

inline Desc Lying(const Dims& dims, Layout layout) {
  return layout == Layout::kChannelsLast ? ChannelsLast(dims) : Plain(dims);
}
inline Layout LayoutOf(const std::vector<Layout>& given, size_t i) {
  return i < given.size() ? given[i] : Layout::kPlain;
}

/// What a copy in the layout `wanted` takes for each image, where the tensor does not lie so.
inline int64_t StagedBytes(const Desc& wanted, const Desc& given, int64_t images) {
  return LieAlike(wanted, given) ? 0 : int64_t(wanted.get_size()) / images;
}
/// Images of one repetition, a divisor of the batch: what is copied for them should stay in the caches
/// between the copy and the convolution, and every thread should find work in them.
int64_t ChunkOf(const ConvShape& c, int64_t staged_bytes_per_image, int threads);

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
