/// along_axis.h: slices of a tensor along an axis, of which a routine selects some.
#pragma once

#include <vector>

#include "weft/core/op/node_attrs.h"
#include "weft/core/tensor/tensor.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft::cpu {

/// [before, extent, inner] of the elements; `dims` with [axis] are those of a result.
struct AlongAxis {
  /// By the attribute `axis`; where it is absent, of the tensor flattened. kBadAttribute.
  AlongAxis(const NodePtr& n, const Tensor& x) : extent(x.num_elements()) {
    // The least number says to whoever asks for the parameter that it is absent.
    const int64_t given = IntAttr(n, "axis", INT64_MIN);
    if (given == INT64_MIN) return;
    WEFT_CHECK(given >= -x.rank() && given < x.rank(), kBadAttribute, "{}: axis {} of rank {}",
               n->Describe(), given, x.rank());
    axis = size_t(given < 0 ? given + x.rank() : given);
    dims = x.dims();
    extent = dims[axis];
    for (size_t k = 0; k < axis; ++k) before = CheckedMul(before, dims[k]);
    for (size_t k = axis + 1; k < dims.size(); ++k) inner = CheckedMul(inner, dims[k]);
  }
  /// Elements of one slice.
  int64_t slice() const { return CheckedMul(before, inner); }

  int64_t before = 1, extent, inner = 1;
  std::vector<int64_t> dims{0};
  size_t axis = 0;
};

}  // namespace weft::cpu
