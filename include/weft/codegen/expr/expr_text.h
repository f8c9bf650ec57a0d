/// expr_text.h: expressions over numbered places as text that reads back as the same expressions:
/// how a file keeps what an element-wise operator computes.
///
///   x 0 f32; c f32 3f800000; add 0 1; call exp 2; = 3
///
/// One node a statement, operands before users, by the numbers of their statements; `x K T` is
/// Slot(K), `c T BITS` a constant in hexadecimal, `cast T N` and `bitcast T N` name their type. The
/// last statement lists the results.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "weft/codegen/expr/expr.h"

namespace weft {

/// Nullopt for what is not made of numbers alone: loads, indices, dimensions, reductions, named
/// variables.
WEFT_API std::optional<std::string> PrintExprs(const Exprs& results);
/// Throws kSyntax, kTypeMismatch; trusts nothing.
WEFT_API Exprs ParseExprs(std::string_view text);

}  // namespace weft
