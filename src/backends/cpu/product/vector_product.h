/// vector_product.h: a vector times a matrix that is read once, as it lies; oneDNN would
/// pack the matrix first. And one times a matrix that never changes, which is packed to be read
/// from its beginning to its end: a step of a recurrence, a token of a language model.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "weft/core/tensor/tensor.h"

namespace weft::cpu {

struct VectorProduct {
  bool of_rows = false;  ///< y[i] = sum of M[i, j] v[j]; else y[j] = sum of v[i] M[i, j]
  int64_t rows = 0, columns = 0;
  int64_t row_step = 0;  ///< elements from one row to the next, which need not be dense
  int64_t batch = 1, matrix_step = 0, vector_step = 0;  ///< from one product to the next

  int64_t results() const { return of_rows ? rows : columns; }
  /// Is there code for this machine?
  static bool Possible();
  void Run(const float* matrix, const float* vector, float* y) const;
};

/// y[j] = row[j] + addend[j] + sum of v[i] M[i, j], for a constant matrix. It is kept in panels of
/// columns, each of which lies as it is read.
class FixedVectorProduct {
 public:
  /// M[i, j] lies at i row_step + j column_step of the f32 tensor.
  FixedVectorProduct(const TensorPtr& matrix, int64_t rows, int64_t columns, int64_t row_step,
                     int64_t column_step);
  /// `row` and `addend` may be null, and y may be `addend`. In a team of threads where that pays.
  void Run(const float* vector, const float* row, const float* addend, float* y) const;
  /// What is kept packed: where, and how much.
  std::pair<const void*, int64_t> packed() const;

 private:
  struct Panels;
  /// One for all products with the matrix.
  static std::shared_ptr<const Panels> PanelsOf(const TensorPtr& matrix, int64_t rows,
                                                int64_t columns, int64_t row_step,
                                                int64_t column_step);
  int64_t rows_, columns_;
  std::shared_ptr<const Panels> panels_;
  mutable std::atomic<unsigned> turn_{0};  ///< products so far
};

}  // namespace weft::cpu
