/// double_conv.cc: what is convolved is first laid into an image that has its padding, so that no
/// sum asks what is outside; sums of some filters and positions stay in registers.
///
///   y[f, o] = sum over c, k of W[f, c, k] image[c, o stride + k dilation]
///
/// dx is that as well: of dy with zeros between its elements where the stride is not 1, and of the
/// weights from the last to the first. dW multiplies rows of dy by rows of the image.
#include "double_conv.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/threads.h"
#include "backends/cpu/util/wide.h"
#include "weft/core/op/node_attrs.h"
#include "weft/support/request.h"

namespace weft::cpu {
namespace {

using Dims = std::vector<int64_t>;

/// Filters and positions whose sums are made at once: eight registers of AVX-512.
constexpr int64_t kFilters = 4, kLanes = 8, kVectors = 2, kPositions = kLanes * kVectors;
/// Products below which a second thread costs more than it helps.
constexpr double kAlone = 65536;

using Lanes = double __attribute__((vector_size(kLanes * sizeof(double))));

/// Row-major steps of the extents.
Dims StepsOf(const Dims& extents) {
  Dims steps(extents.size(), 1);
  for (size_t k = extents.size(); k-- > 1;) steps[k - 1] = CheckedMul(steps[k], extents[k]);
  return steps;
}
/// The sum of (index times step) for every index of the extents, in order.
std::vector<int64_t> OffsetsOf(const Dims& extents, const Dims& steps) {
  std::vector<int64_t> offsets{0};
  for (size_t k = 0; k < extents.size(); ++k) {
    std::vector<int64_t> more;
    more.reserve(offsets.size() * size_t(extents[k]));
    for (const int64_t o : offsets)
      for (int64_t i = 0; i < extents[k]; ++i) more.push_back(o + i * steps[k]);
    offsets = std::move(more);
  }
  return offsets;
}

/// The image that is read: element p of an axis of the source lies at p * step + shift, if that is
/// inside.
struct PaddedImage {
  Dims source, extents, step, shift;
  int64_t elements() const { return CheckedProduct(extents); }

  /// One channel.
  void Fill(const double* from, double* to) const {
    std::fill_n(to, elements(), 0.);
    const size_t last = source.size() - 1;
    const Dims steps = StepsOf(extents);
    const int64_t rows = CheckedProduct(source) / std::max<int64_t>(source[last], 1);
    Dims at(last, 0);
    for (int64_t r = 0; r < rows; ++r, from += source[last]) {
      int64_t row = 0;
      bool inside = true;
      for (size_t k = 0; k < last; ++k) {
        const int64_t j = at[k] * step[k] + shift[k];
        inside = inside && j >= 0 && j < extents[k];
        row += j * steps[k];
      }
      for (int64_t i = 0; inside && i < source[last]; ++i) {
        const int64_t j = i * step[last] + shift[last];
        if (j >= 0 && j < extents[last]) to[row + j] = from[i];
      }
      for (size_t k = last; k-- > 0;) {
        if (++at[k] < source[k]) break;
        at[k] = 0;
      }
    }
  }
};

/// What is read for one result: rows of positions, each `count` long, `step` apart in the image.
struct Reads {
  std::vector<int64_t> rows;  ///< where a row of results begins in a channel
  std::vector<int64_t> taps;  ///< in the order of the weights
  int64_t count, step;
};

/// Where weights lie: W[f * filter + c * channel + k].
struct Weights {
  const double* at;
  int64_t filter, channel;
};

/// Sums of kCount filters at up to kPositions positions. With a step of 1, `count` is kPositions.
template <int kCount, bool kDense>
inline __attribute__((always_inline)) void SumBlock(const double* image, int64_t channels,
                                                    int64_t plane, const Reads& r, Weights w,
                                                    const double* bias, double* y, int64_t y_filter,
                                                    int64_t count) {
  Lanes sums[kCount][kVectors];
  // Unrolled, all of them stay in registers.
#pragma GCC unroll 4
  for (int f = 0; f < kCount; ++f)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sums[f][v] = Lanes{} + (bias ? bias[f] : 0.);
  for (int64_t c = 0; c < channels; ++c, image += plane, w.at += w.channel)
    for (size_t k = 0; k < r.taps.size(); ++k) {
      const double* from = image + r.taps[k];
      Lanes x[kVectors]{};
      if constexpr (kDense) {
        std::memcpy(x, from, sizeof(x));
      } else {
        double some[kPositions] = {};
        for (int64_t i = 0; i < count; ++i) some[i] = from[i * r.step];
        std::memcpy(x, some, sizeof(x));
      }
#pragma GCC unroll 4
      for (int f = 0; f < kCount; ++f)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sums[f][v] += x[v] * w.at[f * w.filter + int64_t(k)];
    }
#pragma GCC unroll 4
  for (int f = 0; f < kCount; ++f) {
    if constexpr (kDense) {
      std::memcpy(y + f * y_filter, sums[f], sizeof(sums[f]));
    } else {
      double some[kPositions];
      std::memcpy(some, sums[f], sizeof(some));
      std::copy_n(some, count, y + f * y_filter);
    }
  }
}
/// One row of positions.
template <int kCount>
inline __attribute__((always_inline)) void SumRow(const double* image, int64_t channels,
                                                  int64_t plane, const Reads& r, Weights w,
                                                  const double* bias, double* y, int64_t y_filter) {
  const bool dense = r.step == 1 && r.count >= kPositions;
  for (int64_t i = 0; i < r.count; i += kPositions) {
    // The last ones of a dense row lie over those before them.
    const int64_t at = dense ? std::min(i, r.count - kPositions) : i;
    if (dense)
      SumBlock<kCount, true>(image + at, channels, plane, r, w, bias, y + at, y_filter, kPositions);
    else
      SumBlock<kCount, false>(image + at * r.step, channels, plane, r, w, bias, y + at, y_filter,
                              std::min(kPositions, r.count - at));
  }
}
inline __attribute__((always_inline)) void SumFilters(int64_t filters, const double* image,
                                                      int64_t channels, int64_t plane,
                                                      const Reads& r, Weights w, const double* bias,
                                                      double* y, int64_t y_filter) {
  if (filters == kFilters) return SumRow<kFilters>(image, channels, plane, r, w, bias, y, y_filter);
  for (int64_t f = 0; f < filters; ++f)
    SumRow<1>(image, channels, plane, r, {w.at + f * w.filter, w.filter, w.channel},
              bias ? bias + f : nullptr, y + f * y_filter, y_filter);
}
/// sum of a[i] b[i * step].
inline __attribute__((always_inline)) double DotRow(const double* a, const double* b, int64_t step,
                                                    int64_t count) {
  double sum = 0;
  if (step == 1) {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
    return sum;
  }
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i * step];
  return sum;
}

#if defined(__x86_64__)
WEFT_WIDE void SumFiltersWide(int64_t filters, const double* image, int64_t channels, int64_t plane,
                              const Reads& r, Weights w, const double* bias, double* y,
                              int64_t y_filter) {
  SumFilters(filters, image, channels, plane, r, w, bias, y, y_filter);
}
WEFT_WIDE double DotRowWide(const double* a, const double* b, int64_t step, int64_t count) {
  return DotRow(a, b, step, count);
}
#endif
void SumAnyFilters(int64_t filters, const double* image, int64_t channels, int64_t plane,
                   const Reads& r, Weights w, const double* bias, double* y, int64_t y_filter) {
#if defined(__x86_64__)
  if (HasWide()) return SumFiltersWide(filters, image, channels, plane, r, w, bias, y, y_filter);
#endif
  SumFilters(filters, image, channels, plane, r, w, bias, y, y_filter);
}
double DotAnyRow(const double* a, const double* b, int64_t step, int64_t count) {
#if defined(__x86_64__)
  if (HasWide()) return DotRowWide(a, b, step, count);
#endif
  return DotRow(a, b, step, count);
}

/// What all of them are made of. `read` has the channels of the image, `other` those of the result;
/// of one group.
struct Parts {
  int64_t images, groups, read, other;
  PaddedImage image;
  Reads reads;
  int64_t positions;  ///< of a channel of the result, or of dy
  int threads;

  int64_t taps() const { return int64_t(reads.taps.size()); }
  double products() const {
    return double(read) * double(other) * double(positions) * double(taps());
  }
  int64_t image_bytes() const {
    return CheckedMul(CheckedMul(image.elements(), read), int64_t(sizeof(double)));
  }
  /// The channels that group `g` of image `n` reads.
  void Pad(const double* from, int64_t n, int64_t g, double* to) const {
    const int64_t plane = image.elements(), source = CheckedProduct(image.source);
#pragma omp parallel for schedule(static) if (plane * read > 16384)
    for (int64_t c = 0; c < read; ++c)
      image.Fill(from + ((n * groups + g) * read + c) * source, to + c * plane);
  }
};

void ReadTaps(const WindowShape& w, bool backward, Parts* p) {
  const Dims steps = StepsOf(p->image.extents);
  Dims tap_steps(w.rank());
  for (size_t k = 0; k < w.rank(); ++k) tap_steps[k] = w.dilations[k] * steps[k];
  p->reads.taps = OffsetsOf(w.kernel, tap_steps);
  if (backward) std::reverse(p->reads.taps.begin(), p->reads.taps.end());
}
/// Rows of results at `out`, whose positions are `strides` apart in the image.
void ReadRows(const Dims& out, const Dims& strides, Parts* p) {
  const Dims steps = StepsOf(p->image.extents);
  Dims row_steps(out.size());
  for (size_t k = 0; k < out.size(); ++k) row_steps[k] = strides[k] * steps[k];
  p->reads.step = row_steps.back();
  p->reads.count = out.back();
  p->reads.rows = OffsetsOf({out.begin(), out.end() - 1}, {row_steps.begin(), row_steps.end() - 1});
  p->positions = CheckedProduct(out);
}
/// The image of x with its padding.
Parts PartsOfSource(const ConvShape& c, int threads) {
  const WindowShape& w = c.window;
  Parts p{c.images, c.groups, c.channels / c.groups, c.filters / c.groups, {}, {}, 0, threads};
  p.image = {w.in, {}, Dims(w.rank(), 1), w.begin};
  for (size_t k = 0; k < w.rank(); ++k) p.image.extents.push_back(w.covered(k));
  ReadTaps(w, /*backward=*/false, &p);
  ReadRows(w.out, w.strides, &p);
  return p;
}
/// The image of dy, spread by the strides.
Parts PartsOfResult(const ConvShape& c, int threads) {
  const WindowShape& w = c.window;
  Parts p{c.images, c.groups, c.filters / c.groups, c.channels / c.groups, {}, {}, 0, threads};
  p.image = {w.out, {}, w.strides, {}};
  for (size_t k = 0; k < w.rank(); ++k) {
    p.image.extents.push_back(w.in[k] + w.reach(k) - 1);
    p.image.shift.push_back(w.reach(k) - 1 - w.begin[k]);
  }
  ReadTaps(w, /*backward=*/true, &p);
  ReadRows(w.in, Dims(w.rank(), 1), &p);
  return p;
}

/// y from x, and dx from dy.
class DoubleSums final : public LibraryCall {
 public:
  DoubleSums(Parts parts, bool transposed, bool has_bias, std::string description)
      : p_(std::move(parts)),
        transposed_(transposed),
        has_bias_(has_bias),
        description_(std::move(description)) {}
  std::string description() const override { return description_; }
  int64_t scratch_bytes() const override { return p_.image_bytes(); }

  void Run(const void* const* in, void* const* out, void* scratch) const override {
    const auto* x = static_cast<const double*>(in[0]);
    const auto* w = static_cast<const double*>(in[1]);
    const auto* bias = has_bias_ ? static_cast<const double*>(in[2]) : nullptr;
    auto* y = static_cast<double*>(out[0]);
    auto* image = static_cast<double*>(scratch);
    const int64_t plane = p_.image.elements(), of_group = p_.read * p_.other * p_.taps(),
                  blocks = (p_.other + kFilters - 1) / kFilters,
                  rows = int64_t(p_.reads.rows.size()), work = blocks * rows;
    const ScopedThreads scoped(p_.threads);
    for (int64_t n = 0; n < p_.images; ++n)
      for (int64_t g = 0; g < p_.groups; ++g) {
        RequestScope::Poll();
        p_.Pad(x, n, g, image);
        const double* const of_bias = bias ? bias + g * p_.other : nullptr;
        double* const result = y + (n * p_.groups + g) * p_.other * p_.positions;
#pragma omp parallel for schedule(static) if (p_.products() > kAlone)
        for (int64_t k = 0; k < work; ++k) {
          const int64_t f = k / rows * kFilters, row = k % rows;
          Weights own{w + g * of_group, p_.read * p_.taps(), p_.taps()};
          // W is [what dy has, what dx has, taps].
          if (transposed_) own = {own.at, p_.taps(), p_.other * p_.taps()};
          own.at += f * own.filter;
          SumAnyFilters(std::min(kFilters, p_.other - f), image + p_.reads.rows[size_t(row)],
                        p_.read, plane, p_.reads, own, of_bias ? of_bias + f : nullptr,
                        result + f * p_.positions + row * p_.reads.count, p_.positions);
        }
      }
  }

 private:
  const Parts p_;
  const bool transposed_, has_bias_;
  const std::string description_;
};

class DoubleGradWeight final : public LibraryCall {
 public:
  explicit DoubleGradWeight(Parts parts) : p_(std::move(parts)) {}
  std::string description() const override { return "conv dW of doubles"; }
  int64_t scratch_bytes() const override { return p_.image_bytes(); }

  void Run(const void* const* in, void* const* out, void* scratch) const override {
    const auto* dy = static_cast<const double*>(in[0]);
    const auto* x = static_cast<const double*>(in[1]);
    auto* dw = static_cast<double*>(out[0]);
    auto* image = static_cast<double*>(scratch);
    const int64_t plane = p_.image.elements(), of_group = p_.read * p_.other * p_.taps();
    std::fill_n(dw, p_.groups * of_group, 0.);
    const ScopedThreads scoped(p_.threads);
    for (int64_t n = 0; n < p_.images; ++n)
      for (int64_t g = 0; g < p_.groups; ++g) {
        RequestScope::Poll();
        p_.Pad(x, n, g, image);
#pragma omp parallel for schedule(static) if (p_.products() > kAlone)
        for (int64_t k = 0; k < p_.other * p_.read; ++k) {
          const int64_t f = k / p_.read, c = k % p_.read;
          const double* own = dy + ((n * p_.groups + g) * p_.other + f) * p_.positions;
          double* to = dw + g * of_group + k * p_.taps();
          for (const int64_t row : p_.reads.rows) {
            const double* from = image + c * plane + row;
            for (int64_t t = 0; t < p_.taps(); ++t)
              to[t] +=
                  DotAnyRow(own, from + p_.reads.taps[size_t(t)], p_.reads.step, p_.reads.count);
            own += p_.reads.count;
          }
        }
      }
  }

 private:
  const Parts p_;
};

/// Extents of x, W and y of a Conv; nothing where they are not those of one.
std::optional<ConvShape> ShapeOf(const NodePtr& n, const Dims& x, const Dims& w, const Dims& y) {
  if (x.size() < 3 || w.size() != x.size() || y.size() != x.size()) return std::nullopt;
  ConvShape c{x[0], IntAttr(n, "group", 1), x[1], w[0], {}};
  if (c.groups < 1 || w[0] % c.groups != 0 || x[1] != w[1] * c.groups || y[1] != w[0] ||
      y[0] != x[0])
    return std::nullopt;
  const auto window = WindowShapeOf(n, {x.begin() + 2, x.end()}, {w.begin() + 2, w.end()},
                                    {y.begin() + 2, y.end()});
  if (!window) return std::nullopt;
  c.window = *window;
  return c;
}
bool IsEmpty(const Dims& d) { return CheckedProduct(d) == 0; }

/// Of no products, but a bias.
class BiasOnly final : public LibraryCall {
 public:
  BiasOnly(const Dims& y, bool has_bias)
      : has_bias_(has_bias),
        images_(y[0]),
        channels_(y[1]),
        positions_(CheckedProduct(Dims(y.begin() + 2, y.end()))) {}
  std::string description() const override { return "bias"; }
  void Run(const void* const* in, void* const* out, void*) const override {
    const auto* bias = has_bias_ ? static_cast<const double*>(in[2]) : nullptr;
    auto* y = static_cast<double*>(out[0]);
    for (int64_t p = 0; p < images_ * channels_; ++p, y += positions_)
      std::fill_n(y, positions_, bias ? bias[p % channels_] : 0.);
  }

 private:
  bool has_bias_;
  int64_t images_, channels_, positions_;
};

}  // namespace

bool AreDoubles(const ComputeRequest& q) {
  return q.input_types.size() >= 2 && q.output_types[0] == DType::kF64 &&
         q.input_types[0] == DType::kF64 && q.input_types[1] == DType::kF64;
}

std::unique_ptr<LibraryCall> MakeDoubleConv(const ComputeRequest& q) {
  const Dims &x = q.input_dims[0], &w = q.input_dims[1], &y = q.output_dims[0];
  if (!q.epilogue.empty()) return nullptr;
  const auto c = ShapeOf(q.node, x, w, y);
  if (!c) return nullptr;
  if (IsEmpty(x) || IsEmpty(w) || IsEmpty(y)) return std::make_unique<BiasOnly>(y, HasInput(q, 2));
  return std::make_unique<DoubleSums>(PartsOfSource(*c, q.threads), false, HasInput(q, 2),
                                      "conv of doubles");
}
std::unique_ptr<LibraryCall> MakeDoubleGradData(const ComputeRequest& q) {
  const Dims &dy = q.input_dims[0], &w = q.input_dims[1], &x = q.output_dims[0];
  const auto c = ShapeOf(q.node, x, w, dy);
  if (!c) return nullptr;
  if (IsEmpty(x) || IsEmpty(w) || IsEmpty(dy)) return std::make_unique<BiasOnly>(x, false);
  return std::make_unique<DoubleSums>(PartsOfResult(*c, q.threads), true, false,
                                      "conv dx of doubles");
}
std::unique_ptr<LibraryCall> MakeDoubleGradWeight(const ComputeRequest& q) {
  const Dims &dy = q.input_dims[0], &x = q.input_dims[1], &w = q.output_dims[0];
  const auto c = ShapeOf(q.node, x, w, dy);
  if (!c) return nullptr;
  if (IsEmpty(x) || IsEmpty(w) || IsEmpty(dy)) return std::make_unique<BiasOnly>(w, false);
  return std::make_unique<DoubleGradWeight>(PartsOfSource(*c, q.threads));
}
std::unique_ptr<LibraryCall> MakeDoubleConvTranspose(const ComputeRequest& q,
                                                     const WindowShape& window) {
  const Dims &x = q.input_dims[0], &w = q.input_dims[1], &y = q.output_dims[0];
  if (IsEmpty(x) || IsEmpty(w) || IsEmpty(y)) return std::make_unique<BiasOnly>(y, HasInput(q, 2));
  const ConvShape c{x[0], IntAttr(q.node, "group", 1), y[1], x[1], window};
  return std::make_unique<DoubleSums>(PartsOfResult(c, q.threads), true, HasInput(q, 2),
                                      "deconv of doubles");
}

}  // namespace weft::cpu
