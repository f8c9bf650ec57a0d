/// plane_deconv.cc: a transposed convolution as one convolution for each remainder of the strides:
///   y[q s + r - begin] = sum over the taps k with k d = r (mod s) of W[k] x[q - (k d - r) / s]
#ifdef WEFT_HAVE_ONEDNN

#include "plane_deconv.h"

#include <algorithm>

#include "backends/cpu/util/threads.h"
#include "plane_sums.h"
#include "weft/support/checked.h"

namespace weft::cpu {

PlaneDeconv::PlaneDeconv(const std::vector<int64_t>& x, const std::vector<int64_t>& w,
                         int64_t groups, const WindowShape& window, bool bias,
                         const TensorPtr& fixed, int threads)
    : threads_(threads),
      images_(x[0]),
      groups_(groups),
      channels_(x[1] / groups),
      maps_(w[1]),
      bias_(bias) {
  const size_t missing = 3 - window.rank();
  int64_t kernel[3], dilations[3];
  for (size_t k = 0; k < 3; ++k) {
    const bool is = k >= missing;
    const size_t i = k - missing;
    in_[k] = is ? window.out[i] : 1;
    out_[k] = is ? window.in[i] : 1;
    kernel[k] = is ? window.kernel[i] : 1;
    strides_[k] = is ? window.strides[i] : 1;
    begin_[k] = is ? window.begin[i] : 0;
    dilations[k] = is ? window.dilations[i] : 1;
    margin_[k] = (kernel[k] - 1) * dilations[k] / strides_[k];
    const int64_t last = (out_[k] - 1 + begin_[k]) / strides_[k];
    padded_[k] = CheckedAdd(margin_[k], std::max(in_[k], last + 1));
  }
  count_ = (out_[2] + strides_[2] - 1) / strides_[2];
  const int64_t furthest = (strides_[2] - 1 + begin_[2]) / strides_[2];
  padded_[2] = std::max(padded_[2], CheckedAdd(margin_[2] + furthest, Vectors(count_) * kLanes));
  // An odd number of cache lines, so that planes do not meet in one set.
  plane_ =
      CheckedMul(Vectors(CheckedMul(CheckedMul(padded_[0], padded_[1]), padded_[2])) | 1, kLanes);
  own_planes_ = threads_ == 1 || images_ * groups_ >= 2 * threads_;
  kernel_floats_ = kernel[0] * kernel[1] * kernel[2];

  phases_.resize(size_t(CheckedMul(CheckedMul(strides_[0], strides_[1]), strides_[2])));
  for (int64_t ch = 0; ch < channels_; ++ch)
    for (int64_t f = 0; f < kernel_floats_; ++f) {
      const int64_t at[3] = {f / (kernel[1] * kernel[2]), f / kernel[2] % kernel[1], f % kernel[2]};
      int64_t phase = 0, place = 0;
      for (size_t k = 0; k < 3; ++k) {
        const int64_t reach = at[k] * dilations[k];
        phase = phase * strides_[k] + reach % strides_[k];
        place = place * padded_[k] + margin_[k] - reach / strides_[k];
      }
      phases_[size_t(phase)].taps.push_back(ch * plane_ + place);
      phases_[size_t(phase)].offsets.push_back(ch * maps_ * kernel_floats_ + f);
    }
  int64_t weights = 0;
  for (Phase& p : phases_) {
    p.weights = weights;
    weights += groups_ * maps_ * int64_t(p.taps.size());
  }
  if (fixed) {
    packed_.resize(size_t(weights));
    Pack(fixed->data_as<float>(), packed_.data());
  }
}

void PlaneDeconv::Pack(const float* w, float* to) const {
  for (const Phase& p : phases_)
    for (int64_t g = 0; g < groups_; ++g)
      for (int64_t m = 0; m < maps_; ++m) {
        const float* from = w + (g * channels_ * maps_ + m) * kernel_floats_;
        for (const int64_t offset : p.offsets) *to++ = from[offset];
      }
}

int64_t PlaneDeconv::scratch_bytes() const {
  const int64_t planes = CheckedMul(channels_, own_planes_ ? threads_ : groups_),
                blocks = CheckedMul(threads_, kFloatsOfBlock * strides_[2]),
                weights = packed_.empty() ? groups_ * channels_ * maps_ * kernel_floats_ : 0;
  return CheckedMul(CheckedAdd(CheckedAdd(CheckedMul(plane_, planes), blocks), weights),
                    int64_t{sizeof(float)});
}

void PlaneDeconv::CopyPlane(const float* plane, float* to) const {
  for (int64_t d = 0; d < padded_[0]; ++d)
    for (int64_t h = 0; h < padded_[1]; ++h, to += padded_[2]) {
      const int64_t id = d - margin_[0], ih = h - margin_[1];
      if (id < 0 || id >= in_[0] || ih < 0 || ih >= in_[1]) {
        std::fill_n(to, padded_[2], 0.f);
        continue;
      }
      std::fill_n(to, margin_[2], 0.f);
      std::copy_n(plane + (id * in_[1] + ih) * in_[2], in_[2], to + margin_[2]);
      std::fill_n(to + margin_[2] + in_[2], padded_[2] - margin_[2] - in_[2], 0.f);
    }
}

/// Rows at one depth of some of the results of a group.
void PlaneDeconv::Rows(const float* padded, const float* w, int64_t group, const float* bias,
                       float* y, int64_t depth, Range lines, Range filters, float* block) const {
  const int64_t all = Vectors(count_), plane = out_[0] * out_[1] * out_[2], step = strides_[2];
  const int64_t qd = (depth + begin_[0]) / strides_[0], rd = (depth + begin_[0]) % strides_[0];
  const auto sum_rows = [&](int64_t m, int64_t v, int64_t h, int64_t rows) {
    const int64_t maps = std::min(kMapsOfBlock, maps_ - m),
                  vectors = std::min(kVectorsOfBlock, all - v), width = vectors * kLanes;
    const int64_t qh = (h + begin_[1]) / strides_[1], rh = (h + begin_[1]) % strides_[1];
    for (int64_t t = 0; t < step; ++t) {  // results t, t + step, ..
      const int64_t qw = (t + begin_[2]) / step, rw = (t + begin_[2]) % step;
      const Phase& p = phases_[size_t((rd * strides_[1] + rh) * step + rw)];
      const int64_t taps = int64_t(p.taps.size());
      const Sums s{padded + (qd * padded_[1] + qh) * padded_[2] + qw + v * kLanes,
                   padded_[2],
                   p.taps.data(),
                   taps,
                   w + p.weights + (group * maps_ + m) * taps,
                   bias ? bias + m : nullptr,
                   block + t * kFloatsOfBlock,
                   rows * width,
                   width,
                   kLanes};
      BlockOf(maps, vectors, rows > 1)(s);
    }
    const int64_t left = out_[2] - v * kLanes * step, whole = std::min(width, left / step);
    for (int64_t k = 0; k < maps * rows; ++k) {
      const float* sums = block + k * width;
      float* to = y + (m + k / rows) * plane +
                  (depth * out_[1] + h + k % rows * strides_[1]) * out_[2] + v * kLanes * step;
      if (step == 1)
        std::copy_n(sums, whole, to);
      else if (step == 2)
        Interleave(sums, sums + kFloatsOfBlock, to, whole);
      else
        for (int64_t t = 0; t < step; ++t)
          for (int64_t i = 0; i < whole; ++i) to[i * step + t] = sums[t * kFloatsOfBlock + i];
      for (int64_t o = whole * step; o < std::min(left, width * step); ++o)
        to[o] = sums[o % step * kFloatsOfBlock + o / step];
    }
  };
  const auto [first, last] = lines;
  for (int64_t m = filters.first; m < filters.last; m += kMapsOfBlock)
    for (int64_t v = 0; v < all; v += kVectorsOfBlock) {
      const int64_t many =
          RowsOf(std::min(kMapsOfBlock, maps_ - m), std::min(kVectorsOfBlock, all - v));
      // Rows of one remainder together.
      for (int64_t start = first; start < std::min(last, first + strides_[1]); ++start)
        for (int64_t h = start; h < last;) {
          const int64_t rows = h + (many - 1) * strides_[1] < last ? many : 1;
          sum_rows(m, v, h, rows);
          h += rows * strides_[1];
        }
    }
}

void PlaneDeconv::Run(const void* const* inputs, void* const* outputs, void* scratch) const {
  const ScopedThreads team(threads_);
  const auto* x = static_cast<const float*>(inputs[0]);
  const auto* bias = bias_ ? static_cast<const float*>(inputs[2]) : nullptr;
  auto* y = static_cast<float*>(outputs[0]);
  auto* planes = static_cast<float*>(scratch);
  float* blocks = planes + plane_ * channels_ * (own_planes_ ? threads_ : groups_);
  const float* w = packed_.data();
  if (packed_.empty()) {
    float* mine = blocks + threads_ * kFloatsOfBlock * strides_[2];
    Pack(static_cast<const float*>(inputs[1]), mine);
    w = mine;
  }
  const int64_t in = in_[0] * in_[1] * in_[2], out = out_[0] * out_[1] * out_[2];
  const auto rows = [&](const float* padded, int64_t i, int64_t d, Range lines, Range filters) {
    const int64_t g = i % groups_;
    Rows(padded, w, g, bias ? bias + g * maps_ : nullptr, y + i * maps_ * out, d, lines, filters,
         blocks + ThisThread() * kFloatsOfBlock * strides_[2]);
  };
  if (own_planes_) {
#pragma omp parallel for schedule(static) if (threads_ > 1)
    for (int64_t i = 0; i < images_ * groups_; ++i) {
      float* mine = planes + ThisThread() * channels_ * plane_;
      for (int64_t c = 0; c < channels_; ++c)
        CopyPlane(x + (i * channels_ + c) * in, mine + c * plane_);
      for (int64_t d = 0; d < out_[0]; ++d) rows(mine, i, d, {0, out_[1]}, {0, maps_});
    }
    return;
  }
  // Parts of whole strides; four for each thread.
  const int64_t wanted = std::max<int64_t>(1, 4 * threads_ / (groups_ * out_[0])),
                height = std::max<int64_t>(
                             1, (out_[1] + wanted * strides_[1] - 1) / (wanted * strides_[1])) *
                         strides_[1],
                parts = (out_[1] + height - 1) / height;
  // Where rows are few, threads share filters.
  const int64_t split = parts * groups_ * out_[0] < 2 * threads_ ? kMapsOfBlock : maps_,
                shares = (maps_ + split - 1) / split;
  for (int64_t n = 0; n < images_; ++n) {
#pragma omp parallel
    {
#pragma omp for schedule(static)
      for (int64_t c = 0; c < groups_ * channels_; ++c)
        CopyPlane(x + (n * groups_ * channels_ + c) * in, planes + c * plane_);
#pragma omp for schedule(static) collapse(4)
      for (int64_t g = 0; g < groups_; ++g)
        for (int64_t d = 0; d < out_[0]; ++d)
          for (int64_t p = 0; p < parts; ++p)
            for (int64_t m = 0; m < shares; ++m)
              rows(planes + g * channels_ * plane_, n * groups_ + g, d,
                   {p * height, std::min(out_[1], (p + 1) * height)},
                   {m * split, std::min(maps_, (m + 1) * split)});
    }
  }
}

bool PlaneDeconv::Pays(const std::vector<int64_t>& x, const std::vector<int64_t>& w, int64_t groups,
                       const WindowShape& window) {
  if (!HasPlaneSums() || window.rank() > 3) return false;
  const int64_t channels = x[1] / groups, maps = w[1];
  // Nanoseconds of one thread, from what the cases of bench/ops_peers.py take on a Xeon with
  // AVX-512 at 3 GHz.
  constexpr double kCopied = 0.3;
  double moved = double(x[0] * x[1]), made = double(x[0] * maps * groups), taps = 1;
  bool strided = false;
  for (size_t k = 0; k < window.rank(); ++k) {
    moved *= double(window.out[k]);
    made *= double(window.in[k]);
    taps *= double(window.kernel[k]);
    strided |= window.strides[k] > 1;
  }
  const int64_t width = window.in.back() / window.strides.back();
  const double flops = 2 * moved * double(maps) * taps,
               lanes = double(width) / double(Vectors(std::max<int64_t>(width, 1)) * kLanes),
               own = flops / ((maps > 2    ? 120
                               : maps == 2 ? 80
                                           : 40) *
                              lanes);
  double rate = strided ? 75 : 115;
  if (groups > 1 && channels == 1 && maps == 1)
    rate = 2;
  else if (maps > 1)
    rate *= double(maps) / double(Vectors(maps) * kLanes);
  else
    rate *= std::min(1.0, double(channels) / 32);  // by a product of matrices
  const double copies = kCopied * (moved + made);
  return own + copies < 0.9 * (flops / rate + copies);
}

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
