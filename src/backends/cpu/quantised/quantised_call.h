/// quantised_call.h: what weft::QuantizedConv and weft::QuantizedMatMul share on the CPU: their
/// operands, and what becomes of sums, made ready for a kernel.
#pragma once

#include <optional>

#include "byte_kernel.h"
#include "weft/runtime/backend/compute.h"

namespace weft::cpu {

/// The operands of both operators (src/ops/quant/quantized_call.cc).
enum QuantisedOperand : size_t { kQX, kQW, kQScale, kQXZero, kQWZero, kQBias, kQOffset };

/// Results, and numbers that belong to a column (filter), as a request has them.
struct QuantisedFinish {
  ByteResult as = ByteResult::kI32;
  int32_t zero = 0;
  float low = 0, high = 0;
  bool y_signed = false;
  bool x_signed = false, w_signed = false;
  int64_t columns = 0;
  /// Which operands there are, and which are one for all columns.
  bool has_scale = false, has_bias = false, has_offset = false;
  bool gives_x_zero = false, gives_w_zero = false;
  bool one_scale = false, one_bias = false, one_offset = false, one_w_zero = false;
  /// Some weight's zero may not be that of the packed bytes.
  bool has_w_zero = false;

  int64_t result_bytes() const { return as == ByteResult::kByte ? 1 : 4; }
  /// The zero of x as an unsigned byte.
  int32_t x_zero(const void* const* inputs) const;
  /// Of column j, less what packing takes away.
  int32_t w_zero(const void* const* inputs, int64_t j) const;
  /// The finish of all columns in `memory` of bytes(); `groups` times `columns` of them, each group
  /// padded. `sums`: of the packed weights of each column, padded; `terms`: of a sum.
  ByteFinish Make(const void* const* inputs, int64_t groups, const int32_t* sums, int64_t terms,
                  void* memory) const;
  /// The same of channels that have one filter each, whose weights have lost their zeros already;
  /// in the order of the blocks of a kernel, or, null, in their own.
  ByteFinish MakeAlone(const void* const* inputs, const int32_t* sums, const ByteKernel* blocks,
                       void* memory) const;
  /// What the kernel's `run_quads` asks for, beside weights whose zero is 0.
  bool is_plain() const { return as == ByteResult::kByte && !has_offset; }
  static int64_t bytes(int64_t groups, int64_t columns_of_group);
  /// From a column on, padding counted.
  static ByteFinish At(const ByteFinish& f, int64_t place);
};

/// Nothing where a call cannot take it: other dtypes, or a scale that is absent.
std::optional<QuantisedFinish> ReadFinish(const ComputeRequest& q, int64_t columns);

/// Channels in whole blocks of every kernel.
int64_t PaddedChannels(int64_t channels);

/// Signed bytes as unsigned ones, 128 more, and the reverse.
void FlipBytes(const uint8_t* from, uint8_t* to, int64_t n);

/// Offsets of parts of a call's scratch memory, one behind the other.
class ScratchParts {
 public:
  int64_t Add(int64_t bytes);
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

}  // namespace weft::cpu
