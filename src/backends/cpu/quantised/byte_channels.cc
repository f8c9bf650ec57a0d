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

void ByteChannels::Run(const void* const* inputs, const ByteSource& x,
                       const std::vector<int64_t>& taps, uint8_t* y, void* memory,
                       int threads) const {
  constexpr int64_t kTeamTerms = 1 << 18, kChunk = 4 * kByteRows;
  const ByteFinish finish =
      finish_.MakeAlone(inputs, sums_.data(), by_quads_ ? &kernel_ : nullptr, memory);
  std::vector<int64_t> at = taps;
  while (by_quads_ && at.size() % size_t(kQuad) != 0) at.push_back(at[0]);  // their weight is 0
  const int64_t n = finish_.columns, step = n * finish_.result_bytes(),
                chunks = (x.rows + kChunk - 1) / kChunk;
  const bool team = threads > 1 && x.rows * n * int64_t(at.size()) > kTeamTerms;
#pragma omp parallel for schedule(dynamic, 2) num_threads(threads) if (team)
  for (int64_t i = 0; i < chunks; ++i) {
    const uint8_t* rows[kByteRows];
    ChannelTile t;
    t.rows = rows;
    t.taps = at.data();
    t.num_taps = int64_t(at.size());
    t.weights = weights_.data();
    t.quads = quads_.data();
    t.channels = n;
    t.y_step = step;
    const int64_t end = std::min(x.rows, (i + 1) * kChunk);
    for (int64_t row = i * kChunk; row < end; row += kByteRows) {
      t.count = std::min(kByteRows, end - row);
      x.Rows(row, t.count, rows);
      t.y = y + row * step;
      if (by_quads_)
        kernel_.run_quads(t, finish);
      else
        kernel_.run_channels(t, finish);
    }
  }
}

}  // namespace weft::cpu
