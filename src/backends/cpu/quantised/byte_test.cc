/// byte_test.cc: the loops of bytes of every instruction set of this machine against plain sums.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "byte_channels.h"
#include "byte_kernel.h"
#include "byte_rows.h"

namespace weft::cpu {
namespace {

class Numbers {
 public:
  explicit Numbers(uint32_t seed) : random_(seed) {}
  int64_t In(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  template <class T>
  std::vector<T> Bytes(size_t n) {
    std::vector<T> v(n);
    // Extremes are as frequent as all others together: sums that saturate would show.
    for (T& b : v) b = T(In(0, 1) ? In(0, 255) : In(0, 1) ? 255 : 128);
    return v;
  }

 private:
  std::mt19937 random_;
};

/// What becomes of a sum, by the words of byte_kernel.h alone.
struct Finisher {
  explicit Finisher(Numbers& random, int64_t columns, bool rest) {
    for (int64_t j = 0; j < columns; ++j) {
      bias.push_back(int32_t(random.In(-100000, 100000)));
      scale.push_back(float(random.In(1, 1000)) * 1e-5f);
      offset.push_back(float(random.In(-1000, 1000)) * 0.173f);
      zeros.push_back(int32_t(random.In(-255, 255)));
    }
    f.bias = bias.data();
    f.scale = scale.data();
    if (rest) f.offset = offset.data();
    if (rest) f.zeros = zeros.data();
    f.is_signed = random.In(0, 1) != 0;
    f.zero = int32_t(f.is_signed ? random.In(-128, 127) : random.In(0, 255));
    const int64_t least = f.is_signed ? -128 : 0, low = random.In(least, least + 200);
    f.low = float(low - f.zero);
    f.high = float(random.In(low, least + 255) - f.zero);
  }
  /// As the bytes of the result.
  std::vector<uint8_t> Of(int64_t sum, int64_t j, int64_t row_sum) const {
    const auto c = size_t(j);
    auto s = int32_t(sum + bias[c]);
    if (f.zeros) s -= zeros[c] * int32_t(row_sum);
    std::vector<uint8_t> bytes(4);
    if (f.as == ByteResult::kI32) {
      std::memcpy(bytes.data(), &s, 4);
      return bytes;
    }
    volatile float y = float(s);
    y = y * scale[c];
    if (f.offset) y = y + offset[c];
    const float value = y;
    if (f.as == ByteResult::kF32) {
      std::memcpy(bytes.data(), &value, 4);
      return bytes;
    }
    const double whole = std::nearbyint(value);
    return {uint8_t(int64_t(std::min(std::max(whole, double(f.low)), double(f.high))) + f.zero)};
  }
  ByteFinish f;
  std::vector<int32_t> bias, zeros;
  std::vector<float> scale, offset;
};

/// Runs f(kernel) for each of this machine.
template <class F>
void ForKernels(F&& f) {
  for (int i = 0; const ByteKernel* kernel = ByteKernelNumber(i); ++i) {
    CAPTURE(kernel->name);
    f(*kernel);
  }
}

void CheckTile(const ByteKernel& kernel, uint32_t seed) {
  Numbers random(seed);
  const int64_t columns = random.In(1, kByteColumns), rows = random.In(1, kByteRows),
                runs = random.In(1, 3), quads = random.In(1, 9), length = quads * kQuad;
  const int64_t wide = (columns + kByteLanes - 1) / kByteLanes * kByteLanes;
  Finisher finish(random, kByteColumns, random.In(0, 1) != 0);
  finish.f.as = ByteResult(random.In(0, 2));
  const auto x = random.Bytes<uint8_t>(size_t(rows * runs * length));
  const auto w = random.Bytes<int8_t>(size_t(runs * length * wide));
  std::vector<const uint8_t*> begin;
  std::vector<int32_t> sums;
  std::vector<int64_t> at;
  for (int64_t r = 0; r < runs; ++r) at.push_back((runs - 1 - r) * length);
  for (int64_t i = 0; i < rows; ++i) {
    begin.push_back(x.data() + i * runs * length);
    sums.push_back(int32_t(random.In(-1000, 1000)));
  }
  const int64_t each = finish.f.as == ByteResult::kByte ? 1 : 4, step = columns * each + 3;
  std::vector<uint8_t> y(size_t(rows * step), 77), want = y;
  ByteTile t;
  t.rows = begin.data();
  t.count = rows;
  t.runs = at.data();
  t.num_runs = runs;
  t.flips = random.In(0, 1) != 0;
  t.run_quads = quads;
  t.panel = w.data();
  t.columns = columns;
  t.row_sums = sums.data();
  t.y = y.data();
  t.y_step = step;
  kernel.run(t, finish.f);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      int64_t sum = 0;
      for (int64_t r = 0; r < runs; ++r)
        for (int64_t k = 0; k < length; ++k)
          sum += int64_t(begin[size_t(i)][at[size_t(r)] + k] ^ (t.flips ? 0x80 : 0)) *
                 w[size_t(((r * quads + k / kQuad) * wide + j) * kQuad + k % kQuad)];
      const auto bytes = finish.Of(sum, j, sums[size_t(i)]);
      std::memcpy(want.data() + i * step + j * each, bytes.data(), size_t(each));
    }
  CHECK(y == want);
}

TEST_CASE("tiles of bytes are exact for every instruction set") {
  ForKernels([](const ByteKernel& kernel) {
    for (uint32_t seed = 0; seed < 300; ++seed) CheckTile(kernel, seed);
  });
}

/// Channels with a filter each, by both ways to pack them.
void CheckChannels(const ByteKernel& kernel, uint32_t seed) {
  Numbers random(seed);
  const int64_t channels = random.In(1, 150), taps = random.In(1, 12), rows = random.In(1, 30);
  QuantisedFinish q;
  q.columns = channels;
  q.x_signed = random.In(0, 1) != 0;
  q.w_signed = random.In(0, 1) != 0;
  q.has_w_zero = random.In(0, 1) != 0;
  q.one_w_zero = true;
  q.has_scale = q.has_bias = q.gives_x_zero = q.gives_w_zero = true;
  q.has_offset = random.In(0, 3) == 0;
  Finisher finish(random, channels, q.has_offset);
  finish.f.zeros = nullptr;
  finish.f.as = random.In(0, 2) ? ByteResult::kByte : ByteResult::kF32;
  q.as = finish.f.as;
  q.low = finish.f.low;
  q.high = finish.f.high;
  q.zero = finish.f.zero;
  q.y_signed = finish.f.is_signed;
  const int64_t pad = random.In(0, 1) * random.In(0, taps - 1), lines = rows + taps - 1 - pad;
  const auto x = random.Bytes<uint8_t>(size_t(std::max<int64_t>(lines, 1) * channels));
  const auto w = random.Bytes<uint8_t>(size_t(channels * taps));
  const auto x_zero = uint8_t(random.In(0, 255));
  const auto w_zero = uint8_t(q.has_w_zero ? random.In(0, 255) : q.w_signed ? 0 : 128);
  const void* inputs[kQOffset + 1]{};
  inputs[kQW] = w.data();
  inputs[kQScale] = finish.scale.data();
  inputs[kQXZero] = &x_zero;
  inputs[kQWZero] = &w_zero;
  inputs[kQBias] = finish.bias.data();
  inputs[kQOffset] = finish.offset.data();
  const int64_t each = q.result_bytes();
  std::vector<uint8_t> y(size_t(rows * channels * each), 77), want = y;
  std::vector<uint8_t> memory(size_t(ByteChannels::bytes_of_run(channels)));
  const ChannelWindow window{x.data(),     1,         channels,  {1, 1, lines}, {1, 1, rows},
                             {1, 1, taps}, {1, 1, 1}, {1, 1, 1}, {0, 0, pad}};
  ByteChannels(q, taps, inputs, kernel).Run(inputs, window, y.data(), memory.data(), 2);
  const int64_t zero = q.w_signed ? int8_t(w_zero) : w_zero;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t c = 0; c < channels; ++c) {
      int64_t sum = 0;
      for (int64_t t = 0; t < taps; ++t) {
        const uint8_t b = w[size_t(c * taps + t)];
        if (i + t < pad || i + t - pad >= lines) continue;
        const uint8_t a = x[size_t((i + t - pad) * channels + c)];
        sum += (q.x_signed ? int8_t(a) - int8_t(x_zero) : a - x_zero) *
               ((q.w_signed ? int8_t(b) : int64_t(b)) - zero);
      }
      const auto bytes = finish.Of(sum, c, 0);
      std::memcpy(want.data() + (i * channels + c) * each, bytes.data(), size_t(each));
    }
  CHECK(y == want);
}

TEST_CASE("channels of bytes with a filter each are exact for every instruction set") {
  ForKernels([](const ByteKernel& kernel) {
    for (uint32_t seed = 0; seed < 200; ++seed) CheckChannels(kernel, seed);
  });
}

}  // namespace
}  // namespace weft::cpu
