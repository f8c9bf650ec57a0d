/// byte_rows.h: many rows of bytes by packed weights, by the team of threads: what products and
/// convolutions come down to.
#pragma once

#include <cstdint>

#include "byte_weights.h"
#include "quantised_call.h"

namespace weft::cpu {

/// Where row i of the left side begins: positions of an image of [images, planes, lines, columns]
/// (a window moves over it), or rows one behind the other.
struct ByteSource {
  const uint8_t* base = nullptr;
  int64_t rows = 0;
  int64_t planes = 1, lines = 1, columns = 1;  ///< of the positions of one image
  int64_t image_step = 0, plane_step = 0, line_step = 0, column_step = 0;
  const uint8_t* row(int64_t i) const {
    if (columns == rows) return base + i * column_step;
    const int64_t c = i % columns, l = i / columns % lines, p = i / columns / lines % planes;
    return base + i / columns / lines / planes * image_step + p * plane_step + l * line_step +
           c * column_step;
  }
  /// Of `n` rows from i on.
  void Rows(int64_t i, int64_t n, const uint8_t** rows) const;
};

struct ByteProduct {
  ByteSource x;
  ByteMatrix w;
  const int64_t* runs = nullptr;
  bool flips = false;  ///< bytes of x have signs
  const int8_t* panels = nullptr;
  ByteFinish finish;
  const int32_t* row_sums = nullptr;  ///< of each row; where there are `finish.zeros`
  uint8_t* y = nullptr;
  int64_t y_step = 0;  ///< bytes
};

/// `threads`: of the team.
void MultiplyBytes(const ByteProduct& p, int threads, const ByteKernel& kernel = BestByteKernel());
/// The sum of the terms of each row; without padding.
void SumByteRows(const ByteProduct& p, int threads, int32_t* sums);

}  // namespace weft::cpu
