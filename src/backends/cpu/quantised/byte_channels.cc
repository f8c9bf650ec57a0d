/// byte_channels.cc: see byte_channels.h.
#include "byte_channels.h"

#include <algorithm>

#include "weft/support/checked.h"

namespace weft::cpu {

ByteChannels::ByteChannels(const QuantisedFinish& finish, int64_t taps, const void* const* inputs,
                           const ByteKernel& kernel)
    : finish_(finish),
      kernel_(kernel),
      by_quads_(kernel.run_quads && finish.is_plain() && !finish.has_w_zero) {
  const int64_t n = finish.columns;
  const auto* from = static_cast<const uint8_t*>(inputs[kQW]);
  const uint8_t flip = finish.w_signed ? 0 : 0x80;
  const int64_t wide = CheckedRoundUp(n, by_quads_ ? kernel.block : kByteLanes);
  sums_.assign(size_t(n), 0);
  if (by_quads_)
    quads_.assign(size_t(CheckedMul(CheckedRoundUp(taps, kQuad), wide)), 0);
  else
    weights_.assign(size_t(CheckedMul(taps, wide)), 0);
  for (int64_t c = 0; c < n; ++c) {
    const int32_t zero = finish.has_w_zero ? finish.w_zero(inputs, c) : 0;
    const int64_t place = by_quads_ ? kernel.place(c) : c;
    for (int64_t t = 0; t < taps; ++t) {
      const int32_t w = int8_t(from[c * taps + t] ^ flip) - zero;
      sums_[size_t(c)] += w;
      if (by_quads_)
        quads_[size_t((t / kQuad * wide + place) * kQuad + t % kQuad)] = int8_t(w);
      else
        weights_[size_t(t * wide + c)] = int16_t(w);
    }
  }
}

namespace {

/// Where the taps of positions lie; in the padding it is a row of zeros.
class TapFinder {
 public:
  TapFinder(const ChannelWindow& w, const uint8_t* outside, int64_t num_taps)
      : w_(w),
        outside_(outside),
        num_taps_(num_taps),
        line_(w.in[2] * w.channels),
        plane_(w.in[1] * line_) {
    for (int64_t d = 0; d < w.kernel[0]; ++d)
      for (int64_t h = 0; h < w.kernel[1]; ++h)
        for (int64_t l = 0; l < w.kernel[2]; ++l)
          behind_.push_back(d * w.dilation[0] * plane_ + h * w.dilation[1] * line_ +
                            l * w.dilation[2] * w.channels);
    behind_.resize(size_t(num_taps), 0);  // what fills quads has no weight
  }
  /// Of `count` positions from one on.
  void Find(int64_t position, int64_t count, const uint8_t** taps) const {
    std::array<int64_t, 3> at{};
    int64_t image = position;
    for (size_t k = 3; k-- > 0; image /= w_.out[k]) at[k] = image % w_.out[k];
    for (; count > 0; --count, taps += num_taps_) {
      FindOne(image, at, taps);
      size_t k = 3;
      while (k > 0 && ++at[k - 1] == w_.out[k - 1]) at[--k] = 0;
      if (k == 0) ++image;
    }
  }

 private:
  void FindOne(int64_t number, const std::array<int64_t, 3>& at, const uint8_t** taps) const {
    std::array<int64_t, 3> from{};
    bool inside = true;
    for (size_t k = 0; k < 3; ++k) {
      from[k] = at[k] * w_.stride[k] - w_.begin[k];
      inside = inside && from[k] >= 0 && from[k] + (w_.kernel[k] - 1) * w_.dilation[k] < w_.in[k];
    }
    const uint8_t* const image = w_.x + number * w_.in[0] * plane_;
    if (inside) {
      const uint8_t* const first =
          image + from[0] * plane_ + from[1] * line_ + from[2] * w_.channels;
      for (int64_t t = 0; t < num_taps_; ++t) taps[t] = first + behind_[size_t(t)];
      return;
    }
    const uint8_t** const end = taps + num_taps_;
    for (int64_t d = 0; d < w_.kernel[0]; ++d)
      for (int64_t h = 0; h < w_.kernel[1]; ++h)
        for (int64_t l = 0; l < w_.kernel[2]; ++l) {
          const int64_t z = from[0] + d * w_.dilation[0], y = from[1] + h * w_.dilation[1],
                        x = from[2] + l * w_.dilation[2];
          const bool there =
              z >= 0 && z < w_.in[0] && y >= 0 && y < w_.in[1] && x >= 0 && x < w_.in[2];
          *taps++ = there ? image + z * plane_ + y * line_ + x * w_.channels : outside_;
        }
    while (taps != end) *taps++ = outside_;
  }

  const ChannelWindow& w_;
  const uint8_t* const outside_;
  const int64_t num_taps_, line_, plane_;
  std::vector<int64_t> behind_;
};

}  // namespace

int64_t ByteChannels::bytes_of_run(int64_t channels) {
  return CheckedAdd(QuantisedFinish::bytes(1, channels), PaddedChannels(channels));
}

void ByteChannels::Run(const void* const* inputs, const ChannelWindow& window, uint8_t* y,
                       void* memory, int threads) const {
  constexpr int64_t kTeamTerms = 1 << 19;  // that a team is worth waking for
  const int64_t n = finish_.columns, rows = window.positions(), taps = window.taps(),
                num_taps = by_quads_ ? CheckedRoundUp(taps, kQuad) : taps;
  const ByteFinish finish =
      finish_.MakeAlone(inputs, sums_.data(), by_quads_ ? &kernel_ : nullptr, memory);
  const uint8_t flip = finish_.x_signed ? 0x80 : 0;
  auto* const outside = static_cast<uint8_t*>(memory) + QuantisedFinish::bytes(1, n);
  std::fill_n(outside, n, uint8_t(finish_.x_zero(inputs)) ^ flip);
  const TapFinder finder(window, outside, num_taps);
  const int64_t step = n * finish_.result_bytes();
  // Pieces of about as many terms.
  const int64_t chunk = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, n * taps)) * kByteRows,
                chunks = (rows + chunk - 1) / chunk;
  const bool team = threads > 1 && rows * n * taps > kTeamTerms;
#pragma omp parallel num_threads(threads) if (team)
  {
    std::vector<const uint8_t*> at(size_t(kByteRows * num_taps));
    ChannelTile t;
    t.taps = at.data();
    t.num_taps = num_taps;
    t.flip = flip;
    t.weights = weights_.data();
    t.quads = quads_.data();
    t.channels = n;
    t.y_step = step;
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < chunks; ++i) {
      const int64_t end = std::min(rows, (i + 1) * chunk);
      for (int64_t row = i * chunk; row < end; row += kByteRows) {
        t.count = std::min(kByteRows, end - row);
        finder.Find(row, t.count, at.data());
        t.y = y + row * step;
        if (by_quads_)
          kernel_.run_quads(t, finish);
        else
          kernel_.run_channels(t, finish);
      }
    }
  }
}

}  // namespace weft::cpu
