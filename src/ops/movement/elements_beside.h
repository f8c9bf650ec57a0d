/// elements_beside.h: how many elements lie on either side of an axis.
#pragma once

#include "weft/core/tensor/shape.h"

namespace weft::ops {

/// Product of the dimensions in front of the axis; unknown where one is.
inline SymInt ElementsBefore(const Shape& s, int axis) {
  SymInt n = 1;
  for (int d = 0; d < axis; ++d) n = n * s[d];
  return n;
}
/// Of those behind it.
inline SymInt ElementsBehind(const Shape& s, int axis) {
  SymInt n = 1;
  for (int d = axis + 1; d < s.rank(); ++d) n = n * s[d];
  return n;
}

}  // namespace weft::ops
