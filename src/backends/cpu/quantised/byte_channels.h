/// byte_channels.h: convolutions of bytes whose channels have one filter each.
#pragma once

#include <cstdint>
#include <vector>

#include "byte_rows.h"

namespace weft::cpu {

/// Bytes behind an image, or channels that a pixel is a multiple of, for blocks that read on.
constexpr int64_t kChannelSlack = 64;

class ByteChannels {
 public:
  /// Packs the weights [channels, taps] of the operands.
  ByteChannels(const QuantisedFinish& finish, int64_t taps, const void* const* inputs,
               const ByteKernel& kernel = BestByteKernel());
  /// `memory`: QuantisedFinish::bytes(1, channels).
  void Run(const void* const* inputs, const ByteSource& x, const std::vector<int64_t>& taps,
           uint8_t* y, void* memory, int threads) const;
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
