/// matrix_unit.h: products of small matrices and vectors in groups of places.
#pragma once

#include <cstdint>

namespace hsimd {

/// y[i] = acc[i] + A[0][i] x[g] + A[1][i] x[g + 1] + ... for the places i of [first, end), whole
/// groups of n whose first place is g; A[j] is the row j * a_stride behind `a`. f32, every product
/// and sum rounded, from left to right; without acc the sum starts with the first product. y may be
/// x or acc.
void MultiplyGroups(int64_t n, const uint32_t* a, int64_t a_stride, const uint32_t* x,
                    const uint32_t* acc, uint32_t* y, int64_t first, int64_t end);

}  // namespace hsimd
