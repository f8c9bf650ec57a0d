/// checked.h: 64-bit size arithmetic that throws kOverflow instead of wrapping.
#pragma once

#include <cstdint>

#include "weft/support/api.h"

namespace weft {

/// Throws kOverflow: "size arithmetic overflows 64 bits: a <op> b".
[[noreturn]] WEFT_API void ThrowOverflow(int64_t a, const char* op, int64_t b);

inline int64_t CheckedAdd(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_expect(__builtin_add_overflow(a, b, &r), 0)) ThrowOverflow(a, "+", b);
  return r;
}
inline int64_t CheckedSub(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_expect(__builtin_sub_overflow(a, b, &r), 0)) ThrowOverflow(a, "-", b);
  return r;
}
inline int64_t CheckedMul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_expect(__builtin_mul_overflow(a, b, &r), 0)) ThrowOverflow(a, "*", b);
  return r;
}
inline int64_t CheckedNeg(int64_t a) { return CheckedSub(0, a); }

/// Product of a range of extents; 1 for none.
template <class Range>
int64_t CheckedProduct(const Range& extents) {
  int64_t product = 1;
  // A zero extent makes the product 0 whatever the others are, even if their product would
  // overflow.
  for (const int64_t extent : extents) {
    if (extent == 0) return 0;
  }
  for (const int64_t extent : extents) product = CheckedMul(product, extent);
  return product;
}

/// Rounds a >= 0 up to a multiple of `multiple` > 0.
inline int64_t CheckedRoundUp(int64_t a, int64_t multiple) {
  return CheckedAdd(a, multiple - 1) / multiple * multiple;
}

/// Division that rounds toward minus infinity, and its modulo (sign of the divisor). b must not be
/// 0.
inline int64_t FloorDivide(int64_t a, int64_t b) {
  if (b == -1) return CheckedNeg(a);
  const int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
inline int64_t FloorModulo(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t r = a % b;
  return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}

}  // namespace weft
