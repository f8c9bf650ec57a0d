/// compressed_product.h: rows times a matrix that never changes and lies in memory as numbers of 2
/// to 8 bits with a scale for each block of a column: weight-only quantisation, as blocked
/// DequantizeLinear and MatMulNBits mean it. The activations stay f32 and nothing but the order of
/// sums is rounded differently; no f32 copy of the matrix is ever there.
///
/// The matrix is packed once, for all numbers of rows, into strips that are read from their
/// beginning to their end (compressed_kernel.h). A few rows take as long as reading it. For many,
/// panels are widened to f32 in the caches, a part of their depth at a time, and multiplied by the
/// loops of FewRowsProduct.
///
/// Every result is a sum in an order that the number of threads does not change.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "compressed_kernel.h"
#include "weft/core/tensor/tensor.h"

namespace weft::cpu {

/// A constant [depth, columns], or [columns, depth] where it lies transposed; its scales, and its
/// zeros where there are some, are [blocks, columns] or [columns, blocks] alike.
struct CompressedWeight {
  TensorPtr codes, scale, zero;  ///< zero null: none
  int64_t depth = 0, columns = 0, block = 0;
  bool transposed = false;
};

class CompressedProduct {
 public:
  /// Integers and floats of at most 8 bits.
  static bool Takes(DType codes);
  /// A dtype that it takes; scales below 2^100, so that no product of a code and a scale leaves
  /// f32; no zeros that are fractions.
  static bool Takes(const CompressedWeight& weight);
  explicit CompressedProduct(const CompressedWeight& weight);
  /// Floats that Run needs to arrange x in: none where it reads x where it lies.
  int64_t scratch_floats(int64_t rows) const;
  /// y[i, j] = row[j] + addend[i, j] + sum over k of x[i, k] matrix[k, j]; rows of x are dense and
  /// `x_step` apart, all of y is dense. `row` and `addend` may be null, and y may be `addend`. In a
  /// team of threads where that pays.
  void Run(int64_t rows, const float* x, int64_t x_step, const float* row, const float* addend,
           float* y, float* scratch, const CompressedKernel& kernel = BestCompressedKernel()) const;
  /// What is kept packed: where, and how much.
  std::pair<const void*, int64_t> packed() const;

 private:
  struct Packed;
  struct Table;
  void RunFew(const CompressedTile& tile, const CompressedKernel& kernel) const;
  void RunMany(const CompressedTile& tile, const CompressedKernel& kernel) const;

  int64_t depth_, columns_, block_;
  std::shared_ptr<const Packed> packed_;
};

}  // namespace weft::cpu
