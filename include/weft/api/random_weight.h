/// random_weight.h: weights for a model that came without them, to run and time it.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/core/tensor/tensor.h"

namespace weft {

/// A function of the arguments alone. Floats of rank 2 and more are drawn with a standard deviation
/// of 1 / sqrt(elements of a row of axis 0), so that sums keep their size; other floats lie in
/// [0.5, 1.5), where scales and variances may. What is no float is 0.
WEFT_API TensorPtr RandomWeight(DType dtype, const std::vector<int64_t>& dims, uint64_t seed);

}  // namespace weft
