/// math_expand.h: the vocabulary in which the math functions are written; private to src/codegen.
///
/// Numbers mix with expressions and take their type, so a polynomial reads as in a book. Everything
/// is branch-free, both sides of a choice are computed and a select keeps one, but for `Rarely`.
#pragma once

#include <vector>

#include "weft/codegen/expr/expr.h"

namespace weft::math {

/// An expression or a number that takes the type of what it meets.
struct Term {
  Term(const Expr& e) : expr(e) {}            // NOLINT: implicit on purpose
  Term(double v) : expr(Expr::Literal(v)) {}  // NOLINT
  Expr expr;
};

inline Expr Fma(const Term& a, const Term& b, const Term& c) {
  return Expr::Fma(a.expr, b.expr, c.expr);
}
inline Expr Select(const Expr& c, const Term& a, const Term& b) {
  return Expr::Select(c, a.expr, b.expr);
}
inline Expr Less(const Term& a, const Term& b) { return Expr::Binary(BinOp::kLt, a.expr, b.expr); }
inline Expr Greater(const Term& a, const Term& b) {
  return Expr::Binary(BinOp::kGt, a.expr, b.expr);
}
inline Expr Equal(const Term& a, const Term& b) { return Expr::Binary(BinOp::kEq, a.expr, b.expr); }
/// `rare` where c holds; what that takes is skipped where no lane asks for it.
inline Expr Rarely(const Expr& c, const Expr& rare, const Expr& usual) {
  return Expr::Select(Expr::Unary(UnOp::kUnlikely, c), rare, usual);
}
inline Expr Abs(const Expr& x) { return Expr::Unary(UnOp::kAbs, x); }
inline Expr Sqrt(const Expr& x) { return Expr::Unary(UnOp::kSqrt, x); }
inline Expr BitAnd(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kAnd, a, b); }
inline Expr BitOr(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kOr, a, b); }
inline Expr Xor(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kXor, a, b); }
inline Expr Shl(const Expr& a, int n) {
  return Expr::Binary(BinOp::kShl, a, Expr::ConstInt(a->dtype(), n));
}
inline Expr Shr(const Expr& a, int n) {
  return Expr::Binary(BinOp::kShr, a, Expr::ConstInt(a->dtype(), n));
}
inline Expr I32(int64_t v) { return Expr::ConstInt(DType::kI32, v); }
inline Expr I64(int64_t v) { return Expr::ConstInt(DType::kI64, v); }

/// max(x, low) and min(x, high) that hand a NaN in x on. With the bound as first operand of the
/// compare each is one machine instruction (x86 min / max return their second operand for NaN).
inline Expr AtLeast(const Expr& x, double low) { return Select(Greater(low, x), low, x); }
inline Expr AtMost(const Expr& x, double high) { return Select(Less(high, x), high, x); }

/// c[0] + c[1] x + c[2] x^2 ... by Horner's rule.
inline Expr Polynomial(const Expr& x, const std::vector<double>& c) {
  Expr sum = Expr::Const(x->dtype(), c.back());
  for (size_t i = c.size() - 1; i-- > 0;) sum = Fma(x, sum, c[i]);
  return sum;
}

/// magnitude with the sign of x; magnitude must have its sign bit clear (or be NaN).
inline Expr WithSignOf(const Expr& magnitude, const Expr& x) {
  const DType bits = x->dtype() == DType::kF32 ? DType::kI32 : DType::kI64;
  const Expr mask = Expr::ConstInt(bits, bits == DType::kI32 ? int64_t{INT32_MIN} : INT64_MIN);
  return Expr::Bitcast(x->dtype(),
                       BitOr(Expr::Bitcast(bits, magnitude), BitAnd(Expr::Bitcast(bits, x), mask)));
}

/// One function applied to rewritten arguments, all f32 or all f64.
Expr ExpandF32(CallOp op, const Exprs& args);
Expr ExpandF64(CallOp op, const Exprs& args);
/// The f32 functions that are computed in f64 inside: rare ones, where a short double polynomial
/// beats f32 tricks.
Expr ExpandF32Wide(CallOp op, const Exprs& args);

/// u = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt 2), for a normal u > 0; all f64.
struct Parts {
  Expr e, f;
  Expr scale;  ///< 2^(1 - e), which exists for every e but the largest; 0 there
};
Parts Decompose(const Expr& u);

/// asin s = s + s^3 P(s^2), and pi/2 = high + low in the dtype.
struct AsinForm {
  std::vector<double> p;
  double half_pi_high, half_pi_low;
};
/// By s = |x| up to 9/16, and s = sqrt((1 - |x|) / 2) above, where acos |x| = 2 asin s. From 0.541 on
/// asin s is below 1/2, where its rounding counts half.
Expr ExpandAsin(const AsinForm& form, const Expr& x);
Expr ExpandAcos(const AsinForm& form, const Expr& x);

/// |x| = k pi/2 + high + low, all f64, with |high| below about pi/4.
struct Remainder {
  Expr high, low;
  Expr q;  ///< i64; its two lowest bits are those of k
};
/// For every finite |x| from 2^50 on, and NaN for infinity.
Remainder ReduceHuge(const Expr& x);

/// sin, cos and tan of an f32 start here: the remainder r (f64) of |x| by pi/2 and the quadrant,
/// for every finite x.
struct Quadrant {
  Expr r;  ///< f64 in about [-pi/4, pi/4]; NaN for infinity and NaN
  Expr q;  ///< i64; only the two lowest bits mean anything
};
Quadrant ReduceByHalfPi(const Expr& abs_x);

}  // namespace weft::math
