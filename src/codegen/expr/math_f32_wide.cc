/// math_f32_wide.cc: math functions of f32 that are computed in f64 inside.
///
/// They are rare in models and hard in f32 (pow, tan, the hyperbolic ones near 0, reduction of
/// large angles). In f64 a short polynomial is exact to 2^-35 or better, nothing cancels or
/// overflows, and the one rounding to f32 at the end gives 0.51 ulp. Results that are subnormal in
/// f32 round gradually.
#include <limits>

#include "math_expand.h"
#include "weft/support/check.h"

namespace weft::math {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLog2E = 0x1.71547652b82fep+0;
constexpr double kLn2 = 0x1.62e42fefa39efp-1;

/// As kRound of math_f32.cc: n + kRound has n + 1023 in its low bits.
constexpr double kRound = 0x1.8p52 + 1023;

Expr Wide(const Expr& x) { return Expr::Cast(DType::kF64, x); }
Expr PowerOfTwo(const Expr& t) {
  return Expr::Bitcast(DType::kF64, Shl(Expr::Bitcast(DType::kI64, t), 52));
}

/// exp(x) - 1 for |x| up to 700. Relative error 1e-11, also near 0.
Expr Expm1(const Expr& x) {
  // exp r = 1 + r + r^2 Q(r), [-0.347, 0.347]: 5.3e-12 relative to exp(r) - 1.
  static const std::vector<double> kQ = {
      0x1.0000000016dd4p-1,  0x1.555555736f29dp-3,  0x1.555554f5347f6p-5, 0x1.1110b1dffcbefp-7,
      0x1.6c1761813b4ecp-10, 0x1.a16fdacff0cb3p-13, 0x1.a00bcea35485ap-16};
  const Expr t = Fma(x, kLog2E, kRound);
  const Expr r = Fma(t - kRound, -kLn2, x);
  const Expr scale = PowerOfTwo(t);
  return Fma(scale, Fma(r * r, Polynomial(r, kQ), r), scale - 1.0);
}

/// log(1 + f) = 2 s + s^3 P(s^2) with s = f / (2 + f), |s| <= 0.1716.
Expr LogOnePlus(const Expr& f, const std::vector<double>& p) {
  const Expr s = f / (f + 2.0);
  const Expr u = s * s;
  return Fma(s * u, Polynomial(u, p), s * 2.0);
}
/// log(1 + x) for finite x > -1; what 1 + x loses is put back.
Expr Log1p(const Expr& x) {
  // 3.0e-14.
  static const std::vector<double> kP = {0x1.55555556203bcp-1, 0x1.999996a3642ebp-2,
                                         0x1.2494149f7005ep-2, 0x1.c62a2068759e8p-3,
                                         0x1.91244bf5c5017p-3};
  const Expr u = x + 1.0;
  const Parts p = Decompose(u);
  return Fma(p.e, kLn2, LogOnePlus(Fma((x - (u - 1.0)) * 0.5, p.scale, p.f), kP));
}

/// The f32 function value where `regular` holds, else `special`.
Expr Narrow(const Expr& regular, const Expr& value, const Term& special) {
  return Select(regular, Expr::Cast(DType::kF32, value), special);
}

Expr ExpandExpm1(const Expr& x) {
  const Expr value = Expm1(Wide(AtMost(AtLeast(x, -40), 100)));
  return Select(Equal(x, 0), x, Expr::Cast(DType::kF32, value));  // -0 stays
}
/// sinh a = h (1 + 1 / (1 + 2 h)), h = (exp(a) - 1) / 2.
Expr ExpandSinh(const Expr& x) {
  const Expr m = Expm1(Wide(AtMost(Abs(x), 100)));
  return WithSignOf(Expr::Cast(DType::kF32, m * 0.5 * (1.0 + 1.0 / (m + 1.0))), x);
}
Expr ExpandCosh(const Expr& x) {
  const Expr e = Expm1(Wide(AtMost(Abs(x), 100))) + 1.0;
  return Expr::Cast(DType::kF32, Fma(e, 0.5, 0.5 / e));
}
Expr ExpandLog1p(const Expr& x) {
  const Expr special = Select(Less(x, -1), kNan, x);
  return Narrow(And(And(Greater(x, -1), Less(x, kInf)), Not(Equal(x, 0))), Log1p(Wide(x)),
                Select(Equal(x, -1), -kInf, special));
}
/// asinh a = log1p(a + a^2 / (1 + sqrt(1 + a^2))).
Expr ExpandAsinh(const Expr& x) {
  const Expr narrow = Abs(x);
  const Expr a = Wide(narrow);
  const Expr square = a * a;
  const Expr value = Log1p(a + square / (1.0 + Sqrt(square + 1.0)));
  return WithSignOf(Narrow(Less(narrow, kInf), value, narrow), x);
}
/// acosh x = log1p(t + sqrt(t (t + 2))), t = x - 1, which is exact.
Expr ExpandAcosh(const Expr& x) {
  const Expr t = Wide(x) - 1.0;
  const Expr value = Log1p(t + Sqrt(t * (t + 2.0)));
  return Narrow(And(Expr::Binary(BinOp::kGe, x, Expr::Const(DType::kF32, 1)), Less(x, kInf)), value,
                Select(Less(x, 1), kNan, x));
}
/// atanh a = log1p(2 a / (1 - a)) / 2.
Expr ExpandAtanh(const Expr& x) {
  const Expr narrow = Abs(x);
  const Expr a = Wide(narrow);
  const Expr value = Log1p(a * 2.0 / (1.0 - a)) * 0.5;
  return WithSignOf(Narrow(Less(narrow, 1), value,
                           Select(Equal(narrow, 1), kInf, Expr::Const(DType::kF32, kNan))),
                    x);
}

Expr ExpandTan(const Expr& x) {
  // sin r = r + r^3 P(r^2), [0, 0.786]: 5.3e-12; cos r = 1 - r^2/2 + r^4 P(r^2): 1.0e-13.
  static const std::vector<double> kSin = {-0x1.5555554c5f830p-3, 0x1.1111085d0cabbp-7,
                                           -0x1.a00f7463d0353p-13, 0x1.6ccf5eea57d25p-19};
  static const std::vector<double> kCos = {0x1.5555554f42b55p-5, -0x1.6c16b88c102fdp-10,
                                           0x1.a011179c1f027p-16, -0x1.24290bbf03245p-22};
  const Quadrant quadrant = ReduceByHalfPi(Abs(x));
  const Expr& r = quadrant.r;
  const Expr u = r * r;
  const Expr sin = Fma(r * u, Polynomial(u, kSin), r);
  const Expr cos = Fma(u * u, Polynomial(u, kCos), Fma(u, -0.5, 1));
  const Expr odd = Expr::Binary(BinOp::kNe, BitAnd(quadrant.q, I64(1)), I64(0));
  const Expr positive = Expr::Cast(DType::kF32, Select(odd, -cos, sin) / Select(odd, sin, cos));
  const Expr sign = BitAnd(Expr::Bitcast(DType::kI32, x), I32(INT32_MIN));
  return Expr::Bitcast(DType::kF32, Xor(Expr::Bitcast(DType::kI32, positive), sign));
}

/// x^y = 2^(y log2 |x|) with the sign of an odd integer y; special values as in C99 annex F.
Expr ExpandPow(const Expr& x, const Expr& y) {
  // 2^f = 1 + f Q(f), [-0.5, 0.5]: 2.0e-9, a thirtieth of an ulp; the logarithm, which counts up to
  // 128 times, 4.8e-12.
  static const std::vector<double> kExp2 = {0x1.62e430af260e5p-1,  0x1.ebfbdc3ce719ep-3,
                                            0x1.c6aee88f5709dp-5,  0x1.3b2d4c599bd34p-7,
                                            0x1.5f3e52e434781p-10, 0x1.41fc2794a1e29p-13};
  static const std::vector<double> kLog = {0x1.555554fde2a00p-1, 0x1.999a7a1a6fcfap-2,
                                           0x1.2438f14f31b99p-2, 0x1.e2f2d657d66fep-3};
  const Expr a = Wide(Abs(x));
  const Parts p = Decompose(a);
  const Expr log2 = Fma(LogOnePlus(p.f, kLog), kLog2E, p.e);
  const Expr log2_a = Select(Equal(a, 0), -kInf, Select(Less(a, kInf), log2, a));
  // An infinite y acts like a huge one, and then 1^y needs no rule.
  const Expr z = AtMost(AtLeast(AtMost(AtLeast(Wide(y), -0x1p130), 0x1p130) * log2_a, -300), 300);
  const Expr t = z + kRound;
  const Expr f = z - (t - kRound);
  const Expr power = Fma(f, Polynomial(f, kExp2), 1) * PowerOfTwo(t);
  const Expr magnitude = Expr::Cast(DType::kF32, power);

  const Expr half = y * 0.5;
  const Expr integer = Eq(Expr::Unary(UnOp::kFloor, y), y);
  const Expr odd = And(integer, Ne(Expr::Unary(UnOp::kFloor, half), half));
  const Expr sign = BitAnd(Expr::Bitcast(DType::kI32, x), Select(odd, I32(INT32_MIN), I32(0)));
  const Expr value = Expr::Bitcast(DType::kF32, Xor(Expr::Bitcast(DType::kI32, magnitude), sign));
  const Expr no_root = And(And(Less(x, 0), Greater(x, -kInf)), Not(integer));
  return Select(Or(Equal(x, 1), Equal(y, 0)), 1, Select(no_root, kNan, value));
}

}  // namespace

/// |x| = y 2^g with g = 0 below 2^50 and else 26, 52 or 78, so that y < 2^50 and, for g > 0, y is
/// an integer: then whole turns of 2^g can be dropped from 2/pi beforehand, y 2^g 2/pi = y ((2^g
/// 2/pi) mod 4) mod 4. Each remainder is a sum of two doubles; y has 24 bits, so the product is
/// exact to 2^-56, while no f32 but 0 is nearer to a multiple of pi/2 than 2^-33 quadrants.
Quadrant ReduceByHalfPi(const Expr& abs_x) {
  constexpr double kTurns = 0x1.8p52;  // adding it rounds to an integer
  const Expr a = Wide(abs_x);
  const Expr over50 = Greater(a, 0x1p50), over76 = Greater(a, 0x1p76),
             over102 = Greater(a, 0x1p102);
  const auto choose = [&](double g0, double g26, double g52, double g78) {
    const Expr low = Select(over50, Expr::Const(DType::kF64, g26), Expr::Const(DType::kF64, g0));
    return Select(over102, g78, Select(over76, g52, low));
  };
  const Expr y = a * choose(1, 0x1p-26, 0x1p-52, 0x1p-78);
  const Expr high = choose(0x1.45f306dc9c883p-1, 0x1.b9391054a7f0ap+0, 0x1.529fc2757d1f5p+0,
                           0x1.d5f47d4d37703p+0);
  const Expr low = choose(-0x1.6b01ec5417056p-55, -0x1.505c1596447e5p-55, 0x1.a6ee06db14acdp-55,
                          0x1.b6295993c4390p-54);
  const Expr product = y * high;
  const Expr rest = Fma(y, low, Fma(y, high, -product));
  const Expr t = product + kTurns;
  const Expr fraction = product - (t - kTurns) + rest;
  // A product near 2^51 is rounded to quarters before it is rounded to an integer: up to 0.7
  // quadrants are left.
  const Expr nearest = t + fraction;
  return {(fraction - (nearest - t)) * 0x1.921fb54442d18p+0, Expr::Bitcast(DType::kI64, nearest)};
}

Expr ExpandF32Wide(CallOp op, const Exprs& args) {
  const Expr& x = args[0];
  switch (op) {
    case CallOp::kTan:
      return ExpandTan(x);
    case CallOp::kSinh:
      return ExpandSinh(x);
    case CallOp::kCosh:
      return ExpandCosh(x);
    case CallOp::kAsinh:
      return ExpandAsinh(x);
    case CallOp::kAcosh:
      return ExpandAcosh(x);
    case CallOp::kAtanh:
      return ExpandAtanh(x);
    case CallOp::kExpm1:
      return ExpandExpm1(x);
    case CallOp::kLog1p:
      return ExpandLog1p(x);
    case CallOp::kPow:
      return ExpandPow(x, args[1]);
    default:
      WEFT_ICHECK(false, "math function {}", int(op));
      return x;
  }
}

}  // namespace weft::math
