/// byte_weights.h: weights of bytes as the panels that byte_kernel.h reads, and what their zeros
/// and sums are.
///
/// Packed are signed bytes: of unsigned ones, and of their zeros, 128 is taken away.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "byte_kernel.h"
#include "weft/core/tensor/dtype.h"
#include "weft/core/tensor/tensor.h"

namespace weft::cpu {

/// Where the weights of one matrix lie: element (run, k, column) at
/// base + run * run_step + (k / inner) * outer_step + (k % inner) * inner_step + column * step.
struct ByteMatrix {
  int64_t columns = 0, num_runs = 1, run_length = 0;  ///< terms of a run, before padding
  int64_t run_step = 0, column_step = 0;
  /// Terms of a run lie in two levels: `inner` of them, then the next ones.
  int64_t inner = 1, inner_step = 0, outer_step = 0;

  int64_t run_quads() const { return (run_length + kQuad - 1) / kQuad; }
  int64_t padded_columns() const { return (columns + kByteLanes - 1) / kByteLanes * kByteLanes; }
  int64_t panel_bytes() const { return padded_columns() * num_runs * run_quads() * kQuad; }
  /// Of the panel that begins with `column`.
  int64_t panel_at(int64_t column) const { return column * num_runs * run_quads() * kQuad; }
};

/// Panels [panel_bytes] and the sums [padded columns] of the packed weights of each column.
void PackBytes(const ByteMatrix& m, const void* weights, bool is_signed, int8_t* panels,
               int32_t* sums);

/// Of `groups` matrices of one constant, `group_step` elements apart; calls with the same constant
/// share it.
struct PackedBytes {
  TensorPtr source;  ///< holds its address while the panels are there
  std::shared_ptr<float> memory;
  const int8_t* panels = nullptr;
  const int32_t* sums = nullptr;
  int64_t bytes = 0;
};
std::shared_ptr<const PackedBytes> PackedBytesOf(const TensorPtr& weights, const ByteMatrix& m,
                                                 int64_t groups, int64_t group_step);

/// Bytes of panels and sums together, for weights that are packed in each run.
int64_t PackedSize(const ByteMatrix& m, int64_t groups);

}  // namespace weft::cpu
