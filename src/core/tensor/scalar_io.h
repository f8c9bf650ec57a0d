/// scalar_io.h: element `i` of packed bytes of any numeric dtype as a double or an int64, and back.
///
/// The slow, general way to look at a tensor: for tests, printing and small constants.
#pragma once

#include <cstdint>

#include "weft/core/tensor/dtype.h"

namespace weft {

/// Throw kTypeMismatch for strings, complex numbers and unknown.
double LoadDouble(DType t, const void* data, int64_t i);
int64_t LoadInt(DType t, const void* data, int64_t i);
/// Rounds to nearest even; integers saturate, NaN becomes 0.
void StoreDouble(DType t, void* data, int64_t i, double v);
/// Integers keep their low bits.
void StoreInt(DType t, void* data, int64_t i, int64_t v);

}  // namespace weft
