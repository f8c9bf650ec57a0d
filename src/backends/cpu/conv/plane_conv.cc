/// plane_conv.cc: sums of shifted planes.
#ifdef WEFT_HAVE_ONEDNN

#include "plane_conv.h"

#include <algorithm>

#include "backends/cpu/util/compute_util.h"
#include "conv_primitives.h"
#include "plane_sums.h"
#include "weft/support/checked.h"

namespace weft::cpu {

PlaneConv::PlaneConv(const ConvShape& c, int threads)
    : threads_(threads),
      images_(c.images),
      groups_(c.groups),
      channels_(c.channels / c.groups),
      maps_(c.filters / c.groups) {
  const WindowShape& w = c.window;
  const size_t missing = 3 - w.rank();
  int64_t dilations[3], reach[3];
  for (size_t k = 0; k < 3; ++k) {
    const bool is = k >= missing;
    const size_t i = k - missing;
    in_[k] = is ? w.in[i] : 1;
    out_[k] = is ? w.out[i] : 1;
    kernel_[k] = is ? w.kernel[i] : 1;
    strides_[k] = is ? w.strides[i] : 1;
    begin_[k] = is ? w.begin[i] : 0;
    dilations[k] = is ? w.dilations[i] : 1;
    reach[k] = is ? w.reach(i) : 1;
  }
  phase_ = CheckedAdd(Vectors(out_[2]) * kLanes, (reach[2] - 1) / strides_[2]);
  row_ = CheckedMul(phase_, strides_[2]);
  height_ = (out_[1] - 1) * strides_[1] + reach[1];
  const int64_t rows = CheckedMul(height_, (out_[0] - 1) * strides_[0] + reach[0]);
  // An odd number of cache lines, so that planes do not meet in one set.
  plane_ = CheckedMul(Vectors(CheckedMul(rows, row_)) | 1, kLanes);
  own_planes_ = threads_ == 1 || images_ * groups_ >= 2 * threads_;
  for (int64_t ch = 0; ch < channels_; ++ch)
    for (int64_t d = 0; d < kernel_[0]; ++d)
      for (int64_t h = 0; h < kernel_[1]; ++h)
        for (int64_t i = 0; i < kernel_[2]; ++i) {
          const int64_t column = i * dilations[2];
          taps_.push_back(ch * plane_ + (d * dilations[0] * height_ + h * dilations[1]) * row_ +
                          column % strides_[2] * phase_ + column / strides_[2]);
        }
}

int64_t PlaneConv::scratch_floats() const {
  return CheckedMul(plane_, CheckedMul(channels_, own_planes_ ? threads_ : groups_));
}

/// Rows [first, last) of the copy of one plane.
void PlaneConv::CopyRows(const float* plane, int64_t first, int64_t last, float* to) const {
  const int64_t step = strides_[2];
  for (int64_t r = first; r < last; ++r) {
    const int64_t d = r / height_ - begin_[0], h = r % height_ - begin_[1];
    float* row = to + r * row_;
    if (d < 0 || d >= in_[0] || h < 0 || h >= in_[1]) {
      std::fill_n(row, row_, 0.f);
      continue;
    }
    const float* from = plane + (d * in_[1] + h) * in_[2];
    for (int64_t p = 0; p < step; ++p, row += phase_) {
      // Place i has column i step + shift.
      const int64_t shift = p - begin_[2];
      const int64_t low =
          std::clamp<int64_t>(shift >= 0 ? 0 : (-shift + step - 1) / step, 0, phase_);
      const int64_t high = std::clamp<int64_t>(
          in_[2] <= shift ? 0 : (in_[2] - shift + step - 1) / step, low, phase_);
      std::fill_n(row, low, 0.f);
      if (step == 1)
        std::copy_n(from + low + shift, high - low, row + low);
      else if (step == 2)
        TakeEverySecond(from + low * step + shift, row + low, high - low);
      else
        for (int64_t i = low; i < high; ++i) row[i] = from[i * step + shift];
      std::fill_n(row + high, phase_ - high, 0.f);
    }
  }
}

/// Rows [first, last) at one depth of the results of a group.
void PlaneConv::Rows(const float* padded, const float* w, const float* bias, float* y,
                     int64_t depth, int64_t first, int64_t last) const {
  const int64_t all = Vectors(out_[2]), count = int64_t(taps_.size()),
                plane = out_[0] * out_[1] * out_[2];
  for (int64_t m = 0; m < maps_; m += 4) {
    const int64_t maps = std::min<int64_t>(4, maps_ - m);
    for (int64_t v = 0; v < all; v += 4) {
      const int64_t vectors = std::min<int64_t>(4, all - v), step = RowsOf(int(maps), int(vectors));
      const BlockFn many = BlockOf(maps, vectors, true), one = BlockOf(maps, vectors, false);
      Sums s{nullptr,       strides_[1] * row_,
             taps_.data(),  count,
             w + m * count, bias ? bias + m : nullptr,
             nullptr,       plane,
             out_[2],       std::min(kLanes, out_[2] - (v + vectors - 1) * kLanes)};
      for (int64_t h = first; h < last;) {
        s.from = padded + (depth * strides_[0] * height_ + h * strides_[1]) * row_ + v * kLanes;
        s.to = y + m * plane + (depth * out_[1] + h) * out_[2] + v * kLanes;
        const bool full = h + step <= last;
        (full ? many : one)(s);
        h += full ? step : 1;
      }
    }
  }
}

void PlaneConv::Run(const float* x, const float* w, const float* bias, float* y,
                    float* scratch) const {
  const int64_t in = in_[0] * in_[1] * in_[2], out = out_[0] * out_[1] * out_[2],
                rows = plane_ / row_, weights = int64_t(taps_.size()) * maps_;
  const auto bias_of = [&](int64_t g) { return bias ? bias + g * maps_ : nullptr; };
  if (own_planes_) {
#pragma omp parallel for schedule(static) num_threads(threads_) if (threads_ > 1)
    for (int64_t i = 0; i < images_ * groups_; ++i) {
      float* mine = scratch + ThisThread() * channels_ * plane_;
      for (int64_t c = 0; c < channels_; ++c)
        CopyRows(x + (i * channels_ + c) * in, 0, rows, mine + c * plane_);
      const int64_t g = i % groups_;
      for (int64_t d = 0; d < out_[0]; ++d)
        Rows(mine, w + g * weights, bias_of(g), y + i * maps_ * out, d, 0, out_[1]);
    }
    return;
  }
  const int64_t wanted = std::max<int64_t>(1, 4 * threads_ / (groups_ * out_[0])),
                height = std::max<int64_t>(4, (out_[1] + wanted - 1) / wanted),
                parts = (out_[1] + height - 1) / height;
  const int64_t copy_parts = std::max<int64_t>(1, 4 * threads_ / (groups_ * channels_));
  for (int64_t n = 0; n < images_; ++n) {
#pragma omp parallel num_threads(threads_)
    {
#pragma omp for schedule(static) collapse(2)
      for (int64_t c = 0; c < groups_ * channels_; ++c)
        for (int64_t p = 0; p < copy_parts; ++p)
          CopyRows(x + (n * groups_ * channels_ + c) * in, rows * p / copy_parts,
                   rows * (p + 1) / copy_parts, scratch + c * plane_);
#pragma omp for schedule(static) collapse(3)
      for (int64_t g = 0; g < groups_; ++g)
        for (int64_t d = 0; d < out_[0]; ++d)
          for (int64_t p = 0; p < parts; ++p)
            Rows(scratch + g * channels_ * plane_, w + g * weights, bias_of(g),
                 y + (n * groups_ + g) * maps_ * out, d, p * height,
                 std::min(out_[1], (p + 1) * height));
    }
  }
}

bool PlaneConv::Possible() { return HasPlaneSums(); }

bool PlaneConv::Pays(const ConvShape& c, Layout x_layout, Layout y_layout) {
  const WindowShape& w = c.window;
  const bool x_plain = x_layout == Layout::kPlain, y_plain = y_layout == Layout::kPlain;
  if (!Possible() || (x_plain && y_plain && IsPlainProduct(c))) return false;
  const int64_t channels = c.channels / c.groups, maps = c.filters / c.groups;
  // Between other convolutions, where oneDNN would have to multiply matrices.
  if (!(x_plain && y_plain) && (channels != 1 || c.groups == 1)) return false;
  // Nanoseconds of one thread, from what the convolutions of bench/ops_peers.py take on a Xeon with
  // AVX-512 at 3 GHz.
  constexpr double kCopied = 0.3,
                   kSpread = 0.5;  // a float that is copied; one of a row that falls into two
  double x = double(c.images) * double(c.channels), y = double(c.images) * double(c.filters);
  for (size_t k = 0; k < w.rank(); ++k) {
    x *= double(w.in[k]);
    y *= double(w.out[k]);
  }
  const int64_t width = w.out.back(), stride = w.strides.back();
  const double flops = c.flops(c.images), lanes = double(width) / double(Vectors(width) * kLanes),
               own_rate = (maps > 2    ? 110
                           : maps == 2 ? 80
                                       : 40) *
                          lanes,
               own = flops / own_rate + x * (stride == 1   ? kCopied
                                             : stride == 2 ? kSpread
                                                           : 1);
  double rate;
  if (channels == 1 && maps == 1 && c.groups > 1)
    rate = w.rank() == 2 && w.dilations[0] == 1 && w.dilations[1] == 1 ? 50 : 10;
  else
    rate = 170 * double(maps) / double(Vectors(maps) * kLanes) * (channels < 4 ? 0.6 : 1);
  const double copied_for_own = (x_plain ? 0 : x) + (y_plain ? 0 : y),
               copied_for_library = (x_plain ? x : 0) + (y_plain ? y : 0);
  return own + kCopied * copied_for_own < 0.9 * (flops / rate + kCopied * copied_for_library);
}

std::unique_ptr<LibraryCall> MakePlaneConv(const ComputeRequest& q, const ConvShape& c,
                                           const PostOps& post) {
  if (!PlaneConv::Possible()) return nullptr;
  auto conv = std::make_shared<const PlaneConv>(c, q.threads);
  const Dims x_dims = c.source(c.images), y_dims = c.result(c.images);
  Recipe r(q.threads);
  const Buffer x =
      r.Reordered(r.Input(0, Lying(x_dims, LayoutOf(q.input_layouts, 0))), Plain(x_dims));
  const Buffer y = r.Output(0, Lying(y_dims, LayoutOf(q.output_layouts, 0)));
  Buffer addend;
  if (const CallStep* s = post.addend())
    addend = r.Input(s->operand, Lying(y_dims, s->operand_layout));
  // What follows still needs the addend, which may be in the place of the result.
  const Buffer made = addend ? r.Temporary(Plain(y_dims)) : r.Staged(y, Plain(y_dims));
  r.AddHost(
      [conv](void* const* at) {
        conv->Run(static_cast<const float*>(at[0]), static_cast<const float*>(at[1]),
                  static_cast<const float*>(at[2]), static_cast<float*>(at[3]),
                  static_cast<float*>(at[4]));
      },
      {x, r.Input(1, Plain(c.weights())),
       HasInput(q, 2) ? r.Input(2, Plain({c.filters})) : Buffer(), made,
       r.Temporary(Plain({conv->scratch_floats()}))});
  post.AddSteps(&r, made, addend);
  r.WriteBack(made, y);
  return r.Finish("conv of planes" + post.description());
}

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
