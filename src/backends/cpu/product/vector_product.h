/// vector_product.h: a vector times a matrix that is read once, as it lies; oneDNN would
/// pack the matrix first. A matrix that never changes is packed: few_rows_product.h.
#pragma once

#include <cstdint>

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

}  // namespace weft::cpu
