/// byte_kernel.h: the inner loops of products and convolutions of bytes, compiled for each
/// instruction set: rows of bytes by a panel of packed weights, and channels by filters of their
/// own.
///
/// Sums are exact in i32 on every machine: no set multiplies in pairs that saturate (vpmaddubsw).
/// What becomes of a sum is one arithmetic for all sets, without fused multiply-add, so that
/// results are equal to the last bit: that of weft::QuantizedConv
/// (src/ops/quant/quantized_call.cc).
#pragma once

#include <cstdint>

namespace weft::cpu {

/// Rows of a tile, and columns of a panel; the last panel is padded to a multiple of 16.
constexpr int64_t kByteRows = 6, kByteColumns = 64, kByteLanes = 16;
/// Terms that lie side by side: four bytes of a row by four of a column.
constexpr int64_t kQuad = 4;

enum class ByteResult : uint8_t { kI32, kF32, kByte };

/// What becomes of the sums of some columns.
struct ByteFinish {
  ByteResult as = ByteResult::kI32;
  const int32_t* bias = nullptr;   ///< [columns], added to the sums
  const float* scale = nullptr;    ///< [columns]; not for kI32
  const float* offset = nullptr;   ///< [columns], added behind the scale; null: none
  const int32_t* zeros = nullptr;  ///< [columns], times the row's sum taken away; null: none
  float low = 0, high = 0;         ///< kByte: of the number before the zero is added
  int32_t zero = 0;                ///< kByte
  bool is_signed = false;          ///< kByte: i8, else u8
};

/// Up to kByteRows rows by a panel.
struct ByteTile {
  const uint8_t* const* rows = nullptr;  ///< where each begins
  int64_t count = 0;                     ///< of the rows
  const int64_t* runs = nullptr;         ///< where the pieces of a row lie behind its beginning
  int64_t num_runs = 0, run_quads = 0;   ///< each of as many quads
  bool flips = false;                    ///< bytes of rows have signs, and are 128 more
  const int8_t* panel = nullptr;         ///< [quads of all runs, padded columns, kQuad]
  int64_t columns = 0;
  const int32_t* row_sums = nullptr;  ///< [count], where there are `zeros`
  uint8_t* y = nullptr;
  int64_t y_step = 0;  ///< bytes from one row to the next
};

/// Up to kByteRows positions of channels that each have one filter.
struct ChannelTile {
  /// [count, num_taps]: where the bytes of each tap lie. Nothing behind the channels is read.
  const uint8_t* const* taps = nullptr;
  int64_t count = 0, num_taps = 0;   ///< taps: a multiple of kQuad for `quads`
  uint8_t flip = 0;                  ///< what bytes of x are changed by
  const int16_t* weights = nullptr;  ///< [taps, padded channels], less their zeros
  /// Bytes whose zero is 0, [taps / kQuad, blocks of channels, kQuad], in the order of the blocks.
  const int8_t* quads = nullptr;
  int64_t channels = 0;
  uint8_t* y = nullptr;
  int64_t y_step = 0;
};

struct ByteKernel {
  const char* name;
  void (*run)(const ByteTile& tile, const ByteFinish& finish);
  /// By `weights`.
  void (*run_channels)(const ChannelTile& tile, const ByteFinish& finish);
  /// By `quads`, for results that are bytes, without offset and zeros; the numbers of `finish` are
  /// in the order of the blocks. Null: there is none.
  void (*run_quads)(const ChannelTile& tile, const ByteFinish& finish);
  int64_t block;  ///< channels of a block; 0 without run_quads

  /// The place of a channel in the order of the blocks: that of bytes that are interleaved four by
  /// four within the 16 bytes of a lane.
  int64_t place(int64_t channel) const {
    const int64_t within = channel % block, lane = within / 16, four = within % 16 / 4;
    return channel - within + four * (block / 4) + lane * 4 + within % 4;
  }
};

/// By instruction set, the plainest first; null: there is none, or not for this machine.
const ByteKernel* ByteKernelNumber(int i);
const ByteKernel& BestByteKernel();

}  // namespace weft::cpu
