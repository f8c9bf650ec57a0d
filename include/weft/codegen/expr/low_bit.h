/// low_bit.h: numbers of few bits in kernels. A kernel never has a tensor of such a dtype: it holds
/// bytes (u8), and computes with values, f32 for floats, i8 or u8 for integers. What an expression
/// reads is decoded and what it gives is encoded where a body is expanded
/// (src/codegen/lower/expand_body.cc), so that no printer of kernels knows these dtypes.
#pragma once

#include "weft/codegen/expr/expr.h"

namespace weft {

/// The value (of ValueTypeOf(t)) that the low bits of `code`, a u8, stand for.
WEFT_API Expr LowBitValue(DType t, const Expr& code);
/// The code of `value`, a u8, as a conversion without saturation gives it: floats go to the nearest
/// number, ties to the even code, beyond the largest to infinity or NaN, or where there is neither
/// to the largest; integers keep their low bits. To f8e8m0 only powers of two are exact, others
/// lose their fraction; zero and negative numbers are NaN.
WEFT_API Expr LowBitCode(DType t, const Expr& value);

}  // namespace weft
