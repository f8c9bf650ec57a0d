/// error_bound.h: what the comparisons of random graphs share.
#pragma once

#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>

#include "weft/core/tensor/tensor.h"

namespace weft::e2e {

/// Empty when `got` is `want` within the bound.
inline std::string Compare(const Tensor& got, const Tensor& want, double error) {
  std::ostringstream why;
  if (got.dtype() != want.dtype() || got.dims() != want.dims()) {
    why << "got " << DTypeName(got.dtype()) << got.shape().ToString() << ", want "
        << DTypeName(want.dtype()) << want.shape().ToString();
    return why.str();
  }
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const bool real = IsFloat(want.dtype());
    const double g = real ? got.at(i) : double(got.at_int(i)),
                 w = real ? want.at(i) : double(want.at_int(i));
    if (g == w || std::fabs(g - w) <= 2 * error || (std::isnan(g) && std::isnan(w))) continue;
    why.precision(9);
    why << "element " << i << " is " << g << ", want " << w << " within " << 2 * error;
    return why.str();
  }
  return {};
}

inline int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* s = std::getenv(name);
  return s && *s ? std::atoll(s) : otherwise;
}

}  // namespace weft::e2e
