/// tolerance.h: how far apart two results of that dtype may be and still be equal.
#pragma once

#include "weft/core/tensor/dtype.h"

namespace weft {

/// Relative to the value, and absolute below 1; 0 where values must be equal.
double RelativeTolerance(DType t);

}  // namespace weft
