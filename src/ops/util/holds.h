/// holds.h: which followed values a dtype can say.
#pragma once

#include "weft/core/tensor/dtype.h"
#include "weft/sym/sym.h"

namespace weft::ops {

/// A tensor of dtype t holds the integer `e` exactly; sizes are taken to fit i32, i64 and f64, and
/// with factors as NeverWraps32 has them.
bool Holds(DType t, SymInt e, const Facts& facts);

}  // namespace weft::ops
