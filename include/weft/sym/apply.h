/// apply.h: operations of symbolic expressions by the letters that SymVisitor::Op gets.
#pragma once

#include "weft/sym/sym.h"

namespace weft {

/// + - * / (floor) % m (min) M (max) b (bcast) of two known expressions. Throws kOverflow.
inline SymInt ApplySymOp(char op, SymInt a, SymInt b) {
  switch (op) {
    case '+':
      return a + b;
    case '-':
      return a - b;
    case '*':
      return a * b;
    case '/':
      return FloorDiv(a, b);
    case '%':
      return Mod(a, b);
    case 'm':
      return Min(a, b);
    case 'M':
      return Max(a, b);
    default:
      return Bcast(a, b);
  }
}

}  // namespace weft
