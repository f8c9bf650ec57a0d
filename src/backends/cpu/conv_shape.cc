/// conv_shape.cc: extents of convolutions.
#ifdef WEFT_HAVE_ONEDNN

#include "backends/cpu/conv_shape.h"

#include "weft/support/checked.h"

namespace weft::cpu {
namespace {

constexpr int64_t kChunkBytes = int64_t{4} << 20;
constexpr double kChunkFlopsPerThread = 20e6;

std::vector<int64_t> Tail(const std::vector<int64_t>& dims) {
  return {dims.begin() + 2, dims.end()};
}

void DropIdleAxes(WindowShape* w) {
  for (size_t k = w->rank(); k-- > 0 && w->rank() > 1;) {
    if (w->in[k] != 1 || w->kernel[k] != 1 || w->out[k] != 1 || w->begin[k] != 0 || w->end[k] != 0)
      continue;
    for (auto* list : {&w->in, &w->kernel, &w->out, &w->strides, &w->dilations, &w->begin, &w->end})
      list->erase(list->begin() + std::ptrdiff_t(k));
  }
}

}  // namespace

Dims ConvShape::With(int64_t n, int64_t c, const std::vector<int64_t>& spatial) {
  Dims d{n, c};
  d.insert(d.end(), spatial.begin(), spatial.end());
  return d;
}

Dims ConvShape::weights() const {
  Dims d =
      groups == 1 ? Dims{filters, channels} : Dims{groups, filters / groups, channels / groups};
  d.insert(d.end(), window.kernel.begin(), window.kernel.end());
  return d;
}

double ConvShape::flops(int64_t n) const {
  double f = 2.0 * double(n) * double(filters) * double(channels / groups);
  for (size_t k = 0; k < window.rank(); ++k) f *= double(window.out[k]) * double(window.kernel[k]);
  return f;
}

std::optional<ConvShape> ReadConv(const NodePtr& n, const std::vector<int64_t>& x,
                                  const std::vector<int64_t>& w, const std::vector<int64_t>& y) {
  if (x.size() < 3 || w.size() != x.size() || y.size() != x.size()) return std::nullopt;
  ConvShape c;
  c.images = x[0];
  c.channels = x[1];
  c.filters = w[0];
  c.groups = IntAttr(n, "group", 1);
  if (c.groups < 1 || c.channels % c.groups != 0 || c.filters % c.groups != 0 ||
      w[1] != c.channels / c.groups)
    return std::nullopt;
  auto window = MakeWindow(n, Tail(x), Tail(w), Tail(y));
  if (!window) return std::nullopt;
  c.window = std::move(*window);
  DropIdleAxes(&c.window);
  if (c.window.rank() > 3) return std::nullopt;
  return c;
}

int64_t ChunkOf(const ConvShape& c, int64_t staged_bytes_per_image, int threads) {
  if (staged_bytes_per_image == 0) return c.images;
  int64_t best = 0;
  for (int64_t d = 1; d <= c.images; ++d) {
    if (c.images % d != 0) continue;
    const bool enough = d >= threads || c.flops(d) >= kChunkFlopsPerThread * threads;
    if (enough && (best == 0 || d * staged_bytes_per_image <= kChunkBytes)) best = d;
  }
  return best == 0 ? c.images : best;
}

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
