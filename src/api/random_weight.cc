/// random_weight.cc: see random_weight.h.
#include "weft/api/random_weight.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace weft {

TensorPtr RandomWeight(DType dtype, const std::vector<int64_t>& dims, uint64_t seed) {
  auto t = std::make_shared<Tensor>(dtype, dims);
  if (!IsFloat(dtype)) return t;
  const int64_t n = t->num_elements();
  const bool matrix = dims.size() >= 2;
  const double row = n > 0 && matrix ? double(n) / double(dims[0]) : 1;
  const double scale = matrix ? std::sqrt(12 / row) : 1;  // a uniform [0, 1) has variance 1/12
  const double shift = matrix ? -scale / 2 : 0.5;
  std::mt19937_64 rng(seed);
  for (int64_t i = 0; i < n; ++i) t->set(i, double(rng() >> 11) * 0x1p-53 * scale + shift);
  return t;
}

}  // namespace weft
