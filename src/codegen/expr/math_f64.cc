/// math_f64.cc: math functions of f64.
///
/// The same shapes as in f32 with longer polynomials, and a second word (`low`) wherever one
/// rounding would be amplified: the remainder by pi/2, the argument of a logarithm, all of pow.
/// Errors of polynomials are relative to the function after rounding the coefficients; 2^-53 is
/// half an ulp of 1.
#include <limits>

#include "math_expand.h"
#include "weft/support/check.h"

namespace weft::math {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLog2E = 0x1.71547652b82fep+0;
constexpr double kLn2High = 0x1.62e42fefa39efp-1, kLn2Low = 0x1.abc9e3b39803fp-56;
constexpr double kLn2Short = 0x1.62e42fefa3000p-1,
                 kLn2Rest = 0x1.3de6af278ece6p-42;  // 42 bits: exact times an exponent
constexpr double kHalfPi = 0x1.921fb54442d18p+0, kHalfPiLow = 0x1.1a62633145c07p-54,
                 kHalfPiLast = -0x1.f1976b7ed8fbcp-110;

Expr F64(double v) { return Expr::Const(DType::kF64, v); }

// ---- exponentials

/// exp r = 1 + r + r^2 Q(r), [-0.347, 0.347]: 2^-57.6 relative to exp(r) - 1; up to 0.694: 2^-55.
const std::vector<double> kExpQ = {
    0x1.0000000000000p-1,  0x1.5555555555557p-3,  0x1.55555555554d3p-5,  0x1.1111111110c42p-7,
    0x1.6c16c16c400e3p-10, 0x1.a01a01a112d9ep-13, 0x1.a01a00f2aaf87p-16, 0x1.71de3c3fbac8bp-19,
    0x1.27e6390883678p-22, 0x1.ae4c23c3c4a30p-26, 0x1.1d7920f325621p-29, 0x1.955ec897a77c6p-33};

/// x (+ low) = n ln 2 + r with n <= 1023 + halve; scale = 2^(n - halve). n stops there and r grows
/// instead, see SplitExp of math_f32.cc.
struct Reduced {
  Expr r, scale;
};
Reduced ReduceByLn2(const Expr& x, int halve, const Expr& low = {}) {
  const double round = 0x1.8p52 + 1023 - halve;
  const Expr t = AtMost(Fma(x, kLog2E, round), 0x1.8p52 + 2046);
  const Expr n = t - round;
  const Expr r = Fma(n, -kLn2High, x);  // exact
  const Expr tail = low ? Fma(n, -kLn2Low, low) : Expr();
  return {low ? r + tail : Fma(n, -kLn2Low, r),
          Expr::Bitcast(DType::kF64, Shl(Expr::Bitcast(DType::kI64, t), 52))};
}
Expr ExpOf(const Reduced& e) { return Fma(e.r, Fma(e.r, Polynomial(e.r, kExpQ), 1), 1); }
/// (exp - 1) / 2^halve.
Expr Expm1Of(const Reduced& e, double one) {
  return Fma(e.scale, Fma(e.r * e.r, Polynomial(e.r, kExpQ), e.r), e.scale - one);
}

Expr Exp(const Expr& x) {
  const Reduced e = ReduceByLn2(AtLeast(x, -709.1), 0);  // n >= -1023, where the scale is 0
  return ExpOf(e) * e.scale;
}
Expr Expm1(const Expr& x) {
  return Select(Equal(x, 0), x, Expm1Of(ReduceByLn2(AtLeast(x, -40), 0), 1));  // -0 stays
}
Expr Sigmoid(const Expr& x) { return 1.0 / (Exp(-x) + 1.0); }
Expr Tanh(const Expr& x) {
  const Expr m = Expm1Of(ReduceByLn2(AtMost(Abs(x), 20) * 2.0, 0), 1);
  return WithSignOf(m / (m + 2.0), x);
}
/// sinh a = h (1 + 1 / (1 + 2 h)), h = (exp(a) - 1) / 2, which does not overflow before sinh does.
Expr Sinh(const Expr& x) {
  const Expr h = Expm1Of(ReduceByLn2(Abs(x), 1), 0.5);
  return WithSignOf(h * (1.0 + 1.0 / Fma(h, 2, 1)), x);
}
Expr Cosh(const Expr& x) {
  const Reduced e = ReduceByLn2(Abs(x), 1);
  const Expr h = ExpOf(e) * e.scale;
  return h + 0.25 / h;
}

// ---- logarithms

/// e ln 2 + log(1 + f). With s = f / (2 + f), log(1 + f) = 2 s + s R = f - (h - s (h + R)),
/// h = f^2 / 2.
Expr LogOf(const Expr& e, const Expr& f) {
  // R = s^2 P(s^2), [0, 0.1716]: 2^-59 relative to log.
  static const std::vector<double> kP = {
      0x1.5555555555593p-1, 0x1.999999997f8adp-2, 0x1.249249423e0dcp-2, 0x1.c71c51c69cfcap-3,
      0x1.74664d6dea84cp-3, 0x1.39a02faf06ef0p-3, 0x1.2f15b44b9153ap-3};
  const Expr s = f / (f + 2.0);
  const Expr u = s * s;
  const Expr h = f * f * 0.5;
  const Expr correction = h - Fma(s, Fma(u, Polynomial(u, kP), h), e * kLn2Low);
  return Fma(e, kLn2High, f - correction);
}
/// log(u + low) for a low part below an ulp of u, plus `more` times ln 2.
Expr LogOfSum(const Expr& u, const Expr& low, const Term& more) {
  const Parts p = Decompose(u);
  return LogOf(p.e + more.expr, Fma(low * 0.5, p.scale, p.f));
}
/// log(1 + x), x > -1 finite.
Expr Log1pOf(const Expr& x) {
  const Expr u = x + 1.0;
  const Expr back = u - x;
  return LogOfSum(u, (1.0 - back) + (x - (u - back)), F64(0));
}

Expr Log(const Expr& x) {
  const Expr tiny = Less(x, 0x1p-1022);
  const Parts p = Decompose(Select(tiny, x * 0x1p54, x));
  const Expr value = LogOf(p.e + Select(tiny, F64(-54), F64(0)), p.f);
  const Expr special = Select(Less(x, 0), kNan, x);
  return Select(And(Greater(x, 0), Less(x, kInf)), value, Select(Equal(x, 0), -kInf, special));
}
Expr Log1p(const Expr& x) {
  const Expr special = Select(Less(x, -1), kNan, x);
  const Expr large_enough = Greater(Abs(x), 0x1p-54);  // smaller ones are their own log1p
  return Select(And(And(Greater(x, -1), Less(x, kInf)), large_enough), Log1pOf(x),
                Select(Equal(x, -1), -kInf, special));
}
/// Above 2^28, asinh a = acosh a = log a + ln 2.
Expr Asinh(const Expr& x) {
  const Expr a = Abs(x);
  const Expr large = Greater(a, 0x1p28);
  const Expr square = a * a;
  const Expr t = a + square / (1.0 + Sqrt(square + 1.0));
  const Expr u = t + 1.0, back = u - t;
  const Expr low = (1.0 - back) + (t - (u - back));
  const Expr value =
      LogOfSum(Select(large, a, u), Select(large, 0.0, low), Select(large, F64(1), 0.0));
  return WithSignOf(Select(Less(a, kInf), value, a), x);
}
Expr Acosh(const Expr& x) {
  const Expr large = Greater(x, 0x1p28);
  const Expr d = x - 1.0;
  const Expr t = d + Sqrt(d * (d + 2.0));
  const Expr u = t + 1.0, back = u - t;
  const Expr low = (1.0 - back) + (t - (u - back));
  const Expr value =
      LogOfSum(Select(large, x, u), Select(large, 0.0, low), Select(large, F64(1), 0.0));
  const Expr regular = And(Expr::Binary(BinOp::kGe, x, F64(1)), Less(x, kInf));
  return Select(regular, value, Select(Less(x, 1), kNan, x));
}
Expr Atanh(const Expr& x) {
  const Expr a = Abs(x);
  const Expr value = Log1pOf(a * 2.0 / (1.0 - a)) * 0.5;
  return WithSignOf(Select(Less(a, 1), Select(Greater(a, 0x1p-54), value, a),
                           Select(Equal(a, 1), kInf, F64(kNan))),
                    x);
}

// ---- circular functions

/// For |x| <= 2^50: the first fma is exact, the rest is a sum of two numbers in any order.
Remainder ReduceByHalfPi64(const Expr& x) {
  constexpr double kTurns = 0x1.8p52;
  const Expr a = Abs(x);
  const Expr t = Fma(a, 0x1.45f306dc9c883p-1, kTurns);
  const Expr k = t - kTurns;
  const Expr first = Fma(k, -kHalfPi, a);
  const Expr second = k * -kHalfPiLow;
  const Expr second_low = Fma(k, -kHalfPiLow, -second);
  const Expr high = first + second;
  const Expr back = high - first;
  const Expr lost = (first - (high - back)) + (second - back);
  return {high, lost + Fma(k, -kHalfPiLast, second_low), Expr::Bitcast(DType::kI64, t)};
}
Expr SinOf(const Remainder& m) {
  // sin r = r + r^3 P(r^2), [0, 0.786]: 2^-56.8.
  static const std::vector<double> kP = {-0x1.5555555555548p-3,  0x1.111111110f78fp-7,
                                         -0x1.a01a019bf5784p-13, 0x1.71de35603bce5p-19,
                                         -0x1.ae5e54704ebe7p-26, 0x1.5d8dfdb9f53f0p-33};
  const Expr u = m.high * m.high;
  return m.high + Fma(m.high * u, Polynomial(u, kP), m.low * Fma(u, -0.5, 1));
}
Expr CosOf(const Remainder& m) {
  // cos r = 1 - r^2/2 + r^4 P(r^2), [0, 0.786]: 2^-59.6.
  static const std::vector<double> kP = {0x1.555555555554cp-5,  -0x1.6c16c16c15142p-10,
                                         0x1.a01a019cab8eep-16, -0x1.27e4f805405e2p-22,
                                         0x1.1ee9e89645187p-29, -0x1.8facd322f5f04p-37};
  const Expr u = m.high * m.high;
  const Expr half = u * 0.5;
  const Expr w = 1.0 - half;
  return w + ((1.0 - w - half) + Fma(u * u, Polynomial(u, kP), -(m.high * m.low)));
}
Expr IsOdd(const Expr& q) { return Expr::Binary(BinOp::kNe, BitAnd(q, I64(1)), I64(0)); }
Expr FlipSign(const Expr& value, const Expr& sign) {
  return Expr::Bitcast(DType::kF64, Xor(Expr::Bitcast(DType::kI64, value), sign));
}
Expr SignBit(const Expr& x) { return BitAnd(Expr::Bitcast(DType::kI64, x), I64(INT64_MIN)); }
/// A function of |x| from its remainder.
template <class F>
Expr OfRemainder(const Expr& x, const F& f) {
  return Rarely(Less(0x1p50, Abs(x)), f(ReduceHuge(x)), f(ReduceByHalfPi64(x)));
}
/// sin |x| for shift 0, cos x for shift 1.
Expr SinShifted(const Expr& x, int shift) {
  return OfRemainder(x, [&](const Remainder& m) {
    const Expr q = m.q + I64(shift);
    return FlipSign(Select(IsOdd(q), CosOf(m), SinOf(m)), Shl(BitAnd(q, I64(2)), 62));
  });
}
Expr Tan(const Expr& x) {
  const Expr positive = OfRemainder(x, [](const Remainder& m) {
    const Expr odd = IsOdd(m.q), sin = SinOf(m), cos = CosOf(m);
    return Select(odd, -cos, sin) / Select(odd, sin, cos);
  });
  return FlipSign(positive, SignBit(x));
}

/// z = a up to tan(pi/8), (a - 1) / (a + 1) up to tan(3 pi/8), -1 / a above; atan a = atan z + 0,
/// pi/4 or pi/2.
Expr Atan(const Expr& x) {
  // atan z = z + z^3 P(z^2), [0, 0.4143]: 2^-57.4.
  static const std::vector<double> kP = {
      -0x1.555555555553dp-2, 0x1.99999999957b1p-3, -0x1.24924922a98c7p-3, 0x1.c71c70e4be158p-4,
      -0x1.745cf8ba036bcp-4, 0x1.3b1116e6910a4p-4, -0x1.10eba0c5b9e0ep-4, 0x1.df0e0840ef566p-5,
      -0x1.9ccd55165c57bp-5, 0x1.37c881811e054p-5, -0x1.254eb167ad7e4p-6};
  const Expr a = Abs(x);
  const Expr middle = Greater(a, 0x1.a827999fcef32p-2), large = Greater(a, 0x1.3504f333f9de6p+1);
  const Expr z = Select(large, -1.0, Select(middle, a - 1.0, a)) /
                 Select(large, a, Select(middle, a + 1.0, 1));
  const Expr high = Select(large, kHalfPi, Select(middle, F64(kHalfPi / 2), 0.0));
  const Expr low = Select(large, kHalfPiLow, Select(middle, F64(kHalfPiLow / 2), 0.0));
  const Expr u = z * z;
  return WithSignOf(high + (z + Fma(z * u, Polynomial(u, kP), low)), x);
}

/// asin s = s + s^3 P(s^2), [0, 9/16]: 2^-57.6.
const AsinForm& AsinF64() {
  static const AsinForm form{
      {0x1.55555555554d8p-3, 0x1.333333334473ep-4, 0x1.6db6db606e809p-5, 0x1.f1c7219adbc34p-6,
       0x1.6e8b0b17dab5ep-6, 0x1.1c5a06bffbd3dp-6, 0x1.c8774bb30d33cp-7, 0x1.84c39651a4066p-7,
       0x1.fc8e6fecb2557p-8, 0x1.1ec6f3a45c19cp-6, -0x1.63c28d5e7a84dp-6, 0x1.194b5bf7cfb93p-4,
       -0x1.3aa38e9621ab8p-4, 0x1.ea492110efbdbp-5},
      kHalfPi,
      kHalfPiLow};
  return form;
}

// ---- the rest

/// erf x = x + x P(x^2) below 1, else 1 - exp(-x^2) R((x - 3) / (x + 3)).
Expr Erf(const Expr& x) {
  // [0, 1]: 2^-56.3 relative to erf.
  static const std::vector<double> kSmall = {
      0x1.06eba8214db69p-3,  -0x1.812746b0379e6p-2,  0x1.ce2f21a042b20p-4,  -0x1.b82ce3128499cp-6,
      0x1.565bcd0db02cap-8,  -0x1.c02db3d8ece0fp-11, 0x1.f9a321a117096p-14, -0x1.f4d1df38db059p-17,
      0x1.b9def19931b9cp-20, -0x1.5f1d36a0cef7ap-23, 0x1.f7a41108f7ce7p-27, -0x1.386abdf164ac4p-30,
      0x1.0579a4c4d6acfp-34};
  // [1, 5.95]: 2^-59 absolute.
  static const std::vector<double> kTail = {
      0x1.6e9827d229d2fp-3,   -0x1.4e102b9cf8de6p-2, 0x1.f6ff2040ddd18p-3,  -0x1.336ffbf093a72p-3,
      0x1.258b13c0bfb78p-4,   -0x1.8fa584abf2cccp-6, 0x1.17c9d6f031201p-8,  0x1.735b2965783a1p-11,
      -0x1.37f38e99317bap-11, 0x1.a54399079b05bp-15, 0x1.2c69be74067c6p-14, -0x1.b03e9b28c0f99p-18,
      -0x1.b989485c2305dp-18};
  const Expr a = Abs(x);
  const Expr u = a * a;
  const Expr small = Fma(a, Polynomial(u, kSmall), a);
  const Expr limited = AtMost(a, 5.95);
  const Reduced e = ReduceByLn2(-(limited * limited), 0);
  const Expr tail = Polynomial((limited - 3.0) / (limited + 3.0), kTail);
  return WithSignOf(Select(Less(a, 1), small, 1.0 - ExpOf(e) * e.scale * tail), x);
}

Expr Rsqrt(const Expr& x) { return 1.0 / Sqrt(x); }

/// log a as high + low, to about 2^-66, for a finite and positive.
struct Two {
  Expr high, low;
};
Two LogInTwo(const Expr& a) {
  // log(1 + f) = 2 s + 2/3 s^3 + s^5 P(s^2), s = f / (2 + f) in [0, 0.1716]: 2^-65.6.
  static const std::vector<double> kP = {
      0x1.9999999999b36p-2, 0x1.2492492457225p-2, 0x1.c71c722e6c31fp-3, 0x1.745ce9862dabbp-3,
      0x1.3b1efd6d7e706p-3, 0x1.0f7e475f94885p-3, 0x1.0e524a597aee3p-3};
  const Expr tiny = Less(a, 0x1p-1022);
  const Parts p = Decompose(Select(tiny, a * 0x1p54, a));
  const Expr e = p.e + Select(tiny, F64(-54), F64(0));
  const Expr& f = p.f;
  const Expr d = f + 2.0;
  const Expr d_low = f - (d - 2.0);
  const Expr s = f / d;
  const Expr s_low = Fma(s, -d_low, Fma(-s, d, f)) / d;
  const Expr u = s * s;
  const Expr u_low = Fma(s * 2.0, s_low, Fma(s, s, -u));
  const Expr c = u * Polynomial(u, kP);
  const Expr t = c + 0x1.5555555555555p-1;  // 2/3 + u P
  const Expr t_low = (0x1.5555555555555p-1 - t + c) + 0x1.5555555555555p-55;
  const Expr v = u * t;
  const Expr v_low = Fma(u, t, -v) + Fma(u, t_low, u_low * t);
  const Expr w = s * v;
  const Expr w_low = Fma(s, v, -w) + Fma(s, v_low, s_low * v);
  const Expr twice = s * 2.0;
  const Expr l = twice + w;
  const Expr l_low = (twice - l + w) + Fma(s_low, 2, w_low);
  const Expr base = e * kLn2Short;
  const Expr sum = base + l;
  const Expr sum_low = (base - sum + l) + Fma(e, kLn2Rest, l_low);
  const Expr high = sum + sum_low;
  return {high, sum - high + sum_low};
}

/// x^y = exp(y log |x|) with the sign of an odd integer y; special values as in C99 annex F.
Expr Pow(const Expr& x, const Expr& y) {
  const Expr a = Abs(x);
  const Two log = LogInTwo(a);
  const Expr high = Select(Equal(a, 0), -kInf, Select(Less(a, kInf), log.high, a));
  // An infinite y acts like a huge one, and then 1^y needs no rule.
  const Expr limited = AtMost(AtLeast(y, -0x1p120), 0x1p120);
  const Expr z = limited * high;
  const Expr inside = Less(Abs(z), 800);
  const Expr z_low = Select(inside, Fma(limited, log.low, Fma(limited, high, -z)), 0.0);
  const Reduced e = ReduceByLn2(AtMost(AtLeast(z, -709.1), 800), 0, z_low);
  const Expr magnitude = ExpOf(e) * e.scale;

  const Expr half = y * 0.5;
  const Expr integer = Eq(Expr::Unary(UnOp::kFloor, y), y);
  const Expr odd = And(integer, Ne(Expr::Unary(UnOp::kFloor, half), half));
  const Expr sign = BitAnd(Expr::Bitcast(DType::kI64, x), Select(odd, I64(INT64_MIN), I64(0)));
  const Expr no_root = And(And(Less(x, 0), Greater(x, -kInf)),
                           Expr::Binary(BinOp::kNe, Expr::Unary(UnOp::kFloor, y), y));
  return Select(Or(Equal(x, 1), Equal(y, 0)), 1, Select(no_root, kNan, FlipSign(magnitude, sign)));
}

}  // namespace

Parts Decompose(const Expr& u) {
  const Expr bits = Expr::Bitcast(DType::kI64, u);
  const Expr shifted = bits - I64(0x3fe6a09e667f3bcd);  // the bits of sqrt(1/2)
  const Expr exponent = BitAnd(shifted, I64(-(int64_t{1} << 52)));
  const Expr e = Expr::Cast(DType::kF64, Expr::Cast(DType::kI32, Shr(shifted, 52)));
  const Expr scale = Expr::Bitcast(DType::kF64, I64(int64_t{0x400} << 52) - exponent);
  return {e, Expr::Bitcast(DType::kF64, bits - exponent) - 1.0, scale};
}

Expr ExpandF64(CallOp op, const Exprs& args) {
  const Expr& x = args[0];
  switch (op) {
    case CallOp::kExp:
      return Exp(x);
    case CallOp::kLog:
      return Log(x);
    case CallOp::kSin:
      return FlipSign(SinShifted(x, 0), SignBit(x));
    case CallOp::kCos:
      return SinShifted(x, 1);
    case CallOp::kTan:
      return Tan(x);
    case CallOp::kAsin:
      return ExpandAsin(AsinF64(), x);
    case CallOp::kAcos:
      return ExpandAcos(AsinF64(), x);
    case CallOp::kAtan:
      return Atan(x);
    case CallOp::kSinh:
      return Sinh(x);
    case CallOp::kCosh:
      return Cosh(x);
    case CallOp::kTanh:
      return Tanh(x);
    case CallOp::kAsinh:
      return Asinh(x);
    case CallOp::kAcosh:
      return Acosh(x);
    case CallOp::kAtanh:
      return Atanh(x);
    case CallOp::kErf:
      return Erf(x);
    case CallOp::kSigmoid:
      return Sigmoid(x);
    case CallOp::kRsqrt:
      return Rsqrt(x);
    case CallOp::kExpm1:
      return Expm1(x);
    case CallOp::kLog1p:
      return Log1p(x);
    case CallOp::kPow:
      return Pow(x, args[1]);
  }
  WEFT_ICHECK(false, "math function {}", int(op));
  return x;
}

}  // namespace weft::math
