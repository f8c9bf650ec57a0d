/// few_rows_product.h: one to eight rows times a matrix that never changes: a step of a recurrence,
/// a token of a language model, a batch of a few of either. Such a product takes as long as reading
/// the matrix, so that is packed to be read from its beginning to its end, once for all numbers of
/// rows.
///
/// Every result is a sum in an order that neither the number of threads nor the place of its row
/// changes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "few_rows_kernel.h"
#include "weft/core/tensor/tensor.h"

namespace weft::cpu {

class FewRowsProduct {
 public:
  /// Worth it? Few rows and more than one column; no large matrix of few columns, which would be
  /// panels for one thread.
  static bool Fits(int64_t rows, int64_t depth, int64_t columns);
  /// Element [k, j] of the matrix lies at k row_step + j column_step of the f32 tensor.
  FewRowsProduct(const TensorPtr& matrix, int64_t depth, int64_t columns, int64_t row_step,
                 int64_t column_step);
  /// y[i, j] = row[j] + addend[i, j] + sum over k of x[i, k] matrix[k, j]; rows of x are dense and
  /// `x_step` apart, all of y is dense. `row` and `addend` may be null, and y may be `addend`. In a
  /// team of threads where that pays.
  void Run(int64_t rows, const float* x, int64_t x_step, const float* row, const float* addend,
           float* y, const FewRowsKernel& kernel = BestFewRowsKernel()) const;
  /// What is kept packed: where, and how much.
  std::pair<const void*, int64_t> packed() const;

 private:
  struct Panels;
  /// One for all products with the matrix.
  static std::shared_ptr<const Panels> PanelsOf(const TensorPtr& matrix, int64_t depth,
                                                int64_t columns, int64_t row_step,
                                                int64_t column_step);
  static std::shared_ptr<const Panels> MakePanels(const TensorPtr& matrix, int64_t depth,
                                                  int64_t columns, int64_t row_step,
                                                  int64_t column_step);
  int64_t depth_, columns_;
  std::shared_ptr<const Panels> panels_;
  mutable std::atomic<unsigned> turn_{0};  ///< products so far
};

}  // namespace weft::cpu
