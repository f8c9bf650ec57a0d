/// byte_channels.h: convolutions of bytes whose channels have one filter each.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "byte_kernel.h"
#include "quantised_call.h"

namespace weft::cpu {

/// A window that moves over images whose channels lie innermost, over three spatial axes.
struct ChannelWindow {
  using Axes = std::array<int64_t, 3>;
  const uint8_t* x = nullptr;
  int64_t images = 0, channels = 0;
  Axes in{}, out{}, kernel{}, stride{}, dilation{}, begin{};

  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t positions() const { return images * out[0] * out[1] * out[2]; }
};

class ByteChannels {
 public:
  /// Packs the weights [channels, taps] of the operands.
  ByteChannels(const QuantisedFinish& finish, int64_t taps, const void* const* inputs,
               const ByteKernel& kernel = BestByteKernel());
  /// `memory`: bytes_of_run.
  void Run(const void* const* inputs, const ChannelWindow& window, uint8_t* y, void* memory,
           int threads) const;
  static int64_t bytes_of_run(int64_t channels);
  int64_t bytes() const { return int64_t(weights_.size()) * 2 + int64_t(quads_.size()); }

 private:
  const QuantisedFinish finish_;
  const ByteKernel& kernel_;
  bool by_quads_;
  std::vector<int16_t> weights_;  ///< [taps, padded channels], or
  std::vector<int8_t> quads_;     ///< in quads, in the order of the kernel's blocks
  std::vector<int32_t> sums_;
};

}  // namespace weft::cpu
