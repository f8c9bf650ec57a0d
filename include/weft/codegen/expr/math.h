/// math.h: the math functions that Weft generates itself, and how exact they are.
///
/// A `kCall` node is replaced by basic operations (`ExpandMath` in lower.h), the same ones on every
/// target, so a function has the same bits on a CPU and on a GPU and no library is called from a
/// kernel. The bounds below are checked by math_test.cc on samples and by
/// src/codegen/expr/math_exhaustive_test.cc on every f32 there is.
///
/// They hold when the target evaluates what is written: round to nearest, subnormals honoured, no
/// contraction of a * b + c that is not an Fma, no re-association, correctly rounded division and
/// square root.
#pragma once

#include <vector>

#include "weft/codegen/expr/expr.h"

namespace weft {

/// One generated function. A bound is the largest |computed - exact| in units in the last place of
/// the exact result.
struct MathFunction {
  CallOp op;
  const char* name;  ///< "exp", "rsqrt" ...
  double f32_ulp;
  double f64_ulp;
  const char* note;  ///< what a user must know beyond the bound; empty when there is nothing
};

/// Every CallOp, in the order of the enumeration.
WEFT_API const std::vector<MathFunction>& MathFunctions();

/// Replaces every kCall by basic operations; what LLVM and CUDA print.
WEFT_API Expr ExpandMath(const Expr& e);

}  // namespace weft
