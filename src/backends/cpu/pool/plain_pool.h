/// plain_pool.h: the poolings that neither oneDNN nor MaxPool of max_pool.h does, window by window:
/// maxima with their positions, and averages whose divisor varies.
#pragma once

#include "weft/core/op/window.h"

namespace weft::cpu {

/// Maxima and where they were: flat positions in the whole tensor, rows first, or columns first
/// within a plane with `column_major`. The first maximum wins, NaN always does.
void MaxPoolIndices(const float* x, float* y, int64_t* index, int64_t planes, const WindowShape& w,
                    bool column_major, int threads);
/// Averages. `padded[k]`: the extent on axis k up to which padding counts (from -begin on); empty
/// where it does not count at all; the average of no element is 0.
void AveragePlain(const float* x, float* y, int64_t planes, const WindowShape& w,
                  const std::vector<int64_t>& padded, int threads);

}  // namespace weft::cpu
