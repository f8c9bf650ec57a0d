/// followed_value.h: which values inference follows (sym_tensor.h), wherever it runs.
#pragma once

#include "weft/core/tensor/sym_tensor.h"
#include "weft/core/tensor/tensor.h"

namespace weft {

/// Integers and bools, of up to kMaxSymTensor elements; null for others. What 63 bits do not hold
/// is unknown.
WEFT_API SymTensorPtr FollowedValueOf(const Tensor& t);
/// `v` where it is small enough, else null. Data wraps at 64 bits: what may is unknown.
WEFT_API SymTensorPtr AsFollowed(SymTensor v);

}  // namespace weft
