/// plain_pool.cc: poolings by plain loops (plain_pool.h).
#include "plain_pool.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/util/threads.h"
#include "weft/support/checked.h"

namespace weft::cpu {
namespace {

constexpr size_t kAxes = 3;

/// The window with leading axes of extent 1, so that there are three.
struct Box {
  int64_t in[kAxes], out[kAxes], kernel[kAxes], stride[kAxes], dilation[kAxes], begin[kAxes];
  size_t lead;
  explicit Box(const WindowShape& w) : lead(kAxes - w.rank()) {
    for (size_t k = 0; k < kAxes; ++k) {
      const bool own = k >= lead;
      const size_t i = own ? k - lead : 0;
      in[k] = own ? w.in[i] : 1;
      out[k] = own ? w.out[i] : 1;
      kernel[k] = own ? w.kernel[i] : 1;
      stride[k] = own ? w.strides[i] : 1;
      dilation[k] = own ? w.dilations[i] : 1;
      begin[k] = own ? w.begin[i] : 0;
    }
  }
  int64_t plane() const { return in[0] * in[1] * in[2]; }
  int64_t windows() const { return out[0] * out[1] * out[2]; }
};

/// Offsets of a window along one axis that lie inside: positions first, first + dilation .. < last.
struct Span {
  int64_t first, last, counted;
};
/// `high`: offsets in [low, high) count.
Span SpanOf(const Box& b, size_t k, int64_t o, int64_t low, int64_t high) {
  const int64_t start = o * b.stride[k] - b.begin[k], d = b.dilation[k];
  const auto from = [&](int64_t limit) {  // the first offset at or behind `limit`
    return start >= limit ? 0 : std::min(b.kernel[k], (limit - start + d - 1) / d);
  };
  const int64_t first = from(0), end = from(b.in[k]);
  return {start + first * d, start + end * d, from(high) - from(low)};
}

template <class F>
void ForPlanes(int64_t planes, const Box& b, int threads, F f) {
  const ScopedThreads team(threads);
#pragma omp parallel for schedule(static) if (planes * b.windows() > 1024)
  for (int64_t p = 0; p < planes; ++p)
    for (int64_t i = 0; i < b.windows(); ++i) {
      const int64_t o[kAxes] = {i / (b.out[1] * b.out[2]), i / b.out[2] % b.out[1], i % b.out[2]};
      f(p, i, o);
    }
}

}  // namespace

void MaxPoolIndices(const float* x, float* y, int64_t* index, int64_t planes, const WindowShape& w,
                    bool column_major, int threads) {
  const Box b(w);
  ForPlanes(planes, b, threads, [&](int64_t p, int64_t i, const int64_t* o) {
    const float* from = x + p * b.plane();
    Span s[kAxes];
    for (size_t k = 0; k < kAxes; ++k) s[k] = SpanOf(b, k, o[k], 0, b.in[k]);
    float best = -std::numeric_limits<float>::infinity();
    int64_t at[kAxes] = {s[0].first, s[1].first, s[2].first};
    bool any = false;
    for (int64_t d = s[0].first; d < s[0].last; d += b.dilation[0])
      for (int64_t h = s[1].first; h < s[1].last; h += b.dilation[1])
        for (int64_t v = s[2].first; v < s[2].last; v += b.dilation[2]) {
          const float e = from[(d * b.in[1] + h) * b.in[2] + v];
          if (any && !(e > best) && !(e != e && best == best)) continue;
          any = true;
          best = e;
          at[0] = d, at[1] = h, at[2] = v;
        }
    y[p * b.windows() + i] = best;
    const int64_t flat = column_major ? (at[2] * b.in[1] + at[1]) * b.in[0] + at[0]
                                      : (at[0] * b.in[1] + at[1]) * b.in[2] + at[2];
    index[p * b.windows() + i] = p * b.plane() + flat;
  });
}

void AveragePlain(const float* x, float* y, int64_t planes, const WindowShape& w,
                  const std::vector<int64_t>& padded, int threads) {
  const Box b(w);
  ForPlanes(planes, b, threads, [&](int64_t p, int64_t i, const int64_t* o) {
    const float* from = x + p * b.plane();
    Span s[kAxes];
    int64_t count = 1;
    for (size_t k = 0; k < kAxes; ++k) {
      const bool counts = !padded.empty() && k >= b.lead;
      s[k] = SpanOf(b, k, o[k], counts ? -b.begin[k] : 0, counts ? padded[k - b.lead] : b.in[k]);
      count *= s[k].counted;
    }
    float sum = 0;
    for (int64_t d = s[0].first; d < s[0].last; d += b.dilation[0])
      for (int64_t h = s[1].first; h < s[1].last; h += b.dilation[1])
        for (int64_t v = s[2].first; v < s[2].last; v += b.dilation[2])
          sum += from[(d * b.in[1] + h) * b.in[2] + v];
    y[p * b.windows() + i] = count > 0 ? sum / float(count) : 0;
  });
}

}  // namespace weft::cpu
