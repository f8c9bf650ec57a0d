/// math_f32.cc: math functions of f32 in f32 arithmetic.
///
/// Each is a range reduction, one or two minimax polynomials and a recombination, counted in
/// instructions because exp, tanh, sigmoid and erf decide how fast fused kernels are. The
/// coefficients were fitted by a Remez exchange in 45 digits and rounded one at a time, refitting
/// the rest; each says its interval and the error of the rounded polynomial relative to the
/// function (u = 2^-24, half an ulp of 1).
#include <cmath>
#include <limits>

#include "math_expand.h"

namespace weft::math {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLog2E = 1.4426950408889634;
constexpr double kLn2High = 0x1.62e430p-1;  // ln 2 rounded to f32, and the rest
constexpr double kLn2Low = -0x1.05c610p-29;
constexpr double kHalfPiHigh = 0x1.921fb6p+0;  // pi/2 likewise
constexpr double kHalfPiLow = -0x1.777a5cp-25;

/// Adding it rounds to an integer n and leaves n + 127, the exponent field of 2^n, in the low bits.
constexpr double kRound = 0x1.8p23 + 127;

/// Q of exp(r) = 1 + r + r^2 Q(r) on [-0.347, 0.347], error 2.5e-8 (0.4 u); up to 0.694, where only
/// results beyond 2^127.5 fall, 7.6e-8.
const std::vector<double> kExpWide = {0.500001848, 0.166667372, 0.041626472, 0.00834609848,
                                      0.00159311877};

/// 2^n for t = n + kRound, n in [-127, 127]; 2^-127 comes out as 0.
Expr PowerOfTwo(const Expr& t) {
  return Expr::Bitcast(DType::kF32, Shl(Expr::Bitcast(DType::kI32, t), 23));
}

/// 14 instructions; a result below 2^-126.5 becomes 0. n stops at 127 and r grows instead: the last
/// half octave before overflow needs no second scaling, and above it 1 + r w overflows by itself.
Expr Exp(const Expr& x) {
  const Expr limited = AtLeast(x, -88.0);  // so n >= -127, where the scale is 0
  const Expr t = AtMost(Fma(limited, kLog2E, kRound), kRound + 127);
  const Expr n = t - kRound;
  const Expr r = Fma(n, -kLn2Low, Fma(n, -kLn2High, limited));  // the inner fma is exact
  return Fma(r, Fma(r, Polynomial(r, kExpWide), 1), 1) * PowerOfTwo(t);
}

/// Where a division follows anyway, an exponential is best taken as a quotient: exp(-r) =
/// (A - r) / (A + r) with A = r coth(r / 2), even in r, for which two coefficients are enough.
/// exp(-x) = s exp(-r), s = 2^n, and with D = A + r
///
///   1 / (1 + exp(-x)) = D / (s D + (D - 2 s r)),
///
/// where a rounding of D counts a third only, and that of the inner sum no more: it is within an
/// octave of D where s is small, and of s r where s is large. Everything is multiplied by 13/16,
/// so that D stays in [1, 2), where an ulp is small for what it holds.
Expr Sigmoid(const Expr& x) {
  constexpr double kScale = 0.8125;
  // [-0.347, 0.347]: 3.7e-9 absolute.
  static const std::vector<double> kA = {0.135416329, -0.00224791677};
  const Expr t = Fma(AtMost(x, 88), -kLog2E, kRound);  // n >= -127, where s is 0
  const Expr n = t - kRound;
  const Expr exact = Fma(n, kLn2High, AtMost(x, 88));
  const Expr r = Fma(n, kLn2Low, exact);
  const Expr u = exact * exact;  // the last bits of r matter in the largest term only
  const Expr d = Fma(r, Fma(exact, Polynomial(u, kA), kScale), 2 * kScale);
  const Expr s = PowerOfTwo(t);
  // -2 kScale s: a sign and the mantissa of 1.625.
  const Expr minus_2s =
      Expr::Bitcast(DType::kF32, BitOr(Expr::Bitcast(DType::kI32, s), I32(INT32_MIN | 0x500000)));
  const Expr value = d / Fma(s, d, Fma(minus_2s, r, d));
  return Select(Less(x, -88), 0.0, value);  // n > 127
}

/// exp(2x) - 1 = 2 h / D for D = A - r, A = r coth r, |x| = n ln(2) / 2 + r, s = 2^n and
/// h = (s - 1) / 2 D + s r; so tanh x = h / (h + D), without a subtraction that could cancel and
/// with one rounding only, that of A, where n is 0. n is rounded down, not to nearest: r in
/// [-0.1, 0.247] puts more of the arguments there, and keeps h from being a small difference.
Expr Tanh(const Expr& x) {
  // A = 1 + u P(u) on that interval, 1.5e-8 absolute.
  static const std::vector<double> kA = {1, 0.333330452, -0.0220534541};
  // As kRound, with 8 bits of fraction that are cut off. 37/128 moves the interval.
  constexpr double kFloor = 0x1.8p15 + 127;
  const Expr limited = AtMost(Abs(x), 10);  // tanh 10 rounds to 1
  const Expr shifted = Fma(limited, 2 * kLog2E, kFloor + 37.0 / 128);
  const Expr bits = BitAnd(Expr::Bitcast(DType::kI32, shifted), I32(-256));
  const Expr n = Expr::Bitcast(DType::kF32, bits) - kFloor;
  // ln 2 in one word: n times its error, 1e-9, is nothing against exp(2x).
  const Expr r = Fma(n, -kLn2High / 2, limited);
  const Expr s = Shl(bits, 15);
  const Expr half_s = Expr::Bitcast(DType::kF32, s - I32(1 << 23));
  const Expr d = Polynomial(r * r, kA) - r;
  const Expr h = Fma(half_s - 0.5, d, Expr::Bitcast(DType::kF32, s) * r);
  return WithSignOf(h / (h + d), x);
}

/// erf x = x + x P(x^2) below 1, 1 - erfc(x) by a polynomial above.
Expr Erf(const Expr& x) {
  // [0, 1]: 1.5e-9 relative to erf.
  static const std::vector<double> kSmall = {0.128379166,   -0.37612626,  0.112835787,
                                             -0.0268533472, 0.0051871622, -0.00079978531,
                                             7.80690389e-5};
  // erfc about 2.46 on [1, 3.98]: 1.3e-8 absolute, a fifth of a u of the result; at 3.98 less than
  // half a u, so that erf is 1 from there on.
  static const std::vector<double> kTail = {
      0.00050335133,  -0.00265622302, 0.00653463136,   -0.00983265601,  0.0099132508,
      -0.00679871533, 0.00294002588,  -0.000460775831, -0.000360004226, 0.000300823885,
      -7.28273008e-5, -2.51855436e-5, 1.62540418e-5,   -2.22401582e-8,  -9.43337113e-7};
  const Expr a = Abs(x);
  const Expr u = a * a;
  const Expr small = Fma(a, Polynomial(u, kSmall), a);
  const Expr large = 1.0 - Polynomial(AtMost(a, 3.98) - 2.46, kTail);
  return WithSignOf(Select(Less(a, 1), small, large), x);
}

/// x = 2^e m with m in [2/3, 4/3), f = m - 1: log x = e ln 2 + f - f^2/2 + f^3 P(f).
Expr Log(const Expr& x) {
  // [-1/3, 1/3]: 1.6e-8 relative to log(1 + f).
  static const std::vector<double> kP = {0.333332151, -0.250015795, 0.200109392, -0.165969595,
                                         0.139933154, -0.133638561, 0.140561968, -0.0771167874};
  const Expr tiny = Less(x, 0x1p-126);
  const Expr bits = Expr::Bitcast(DType::kI32, Select(tiny, x * 0x1p23, x));
  const Expr exponent = BitAnd(bits - I32(0x3f2aaaab), I32(-0x800000));  // e << 23
  const Expr f = Expr::Bitcast(DType::kF32, bits - exponent) - 1.0;
  const Expr e = Fma(Expr::Cast(DType::kF32, exponent), 0x1p-23,
                     Select(tiny, Expr::Const(DType::kF32, -23), 0.0));
  const Expr log_m = Fma(f * f, Fma(f, Polynomial(f, kP), -0.5), f);
  const Expr regular = And(Greater(x, 0), Less(x, kInf));
  const Expr special = Select(Less(x, 0), kNan, x);  // infinity and NaN stay
  return Select(regular, Fma(e, kLn2High, log_m), Select(Equal(x, 0), -kInf, special));
}

/// Two correctly rounded operations.
Expr Rsqrt(const Expr& x) { return 1.0 / Sqrt(x); }

Expr Atan(const Expr& x) {
  // atan z = z + z^3 P(z^2), [0, 1]: 2.7e-9.
  static const std::vector<double> kP = {-0.333332986,  0.199985296,   -0.142640159,
                                         0.109508798,   -0.0839929879, 0.0578810945,
                                         -0.0310964305, 0.0108681899,  -0.00178265269};
  const Expr a = Abs(x);
  const Expr inverted = Greater(a, 1);
  const Expr z = Select(inverted, 1.0 / a, a);
  const Expr u = z * z;
  const Expr r = Fma(z * u, Polynomial(u, kP), z);
  return WithSignOf(Select(inverted, kHalfPiHigh - (r - kHalfPiLow), r), x);
}

/// asin s = s + s^3 P(s^2), [0, 9/16]: 1.9e-9.
const AsinForm& AsinF32() {
  static const AsinForm form{
      {0.166666314, 0.0750209913, 0.044231832, 0.0340138189, 0.00673186174, 0.0474972539},
      kHalfPiHigh,
      kHalfPiLow};
  return form;
}

/// sin |x| for shift 0 and cos |x| for shift 1: the quadrant chooses the polynomial and the sign.
Expr SinOfQuadrant(const Quadrant& quadrant, int shift) {
  // sin r = r + r^3 P(r^2), [0, 0.786]: 4.1e-9; cos r = 1 - r^2/2 + r^4 P(r^2): 1.1e-10.
  static const std::vector<double> kSin = {-0.166666552, 0.00833218731, -0.000195178975};
  static const std::vector<double> kCos = {1, -0.5, 0.0416666456, -0.00138873013, 2.44306611e-5};
  const Expr r = Expr::Cast(DType::kF32, quadrant.r);
  const Expr q = Expr::Cast(DType::kI32, quadrant.q) + I32(shift);
  const Expr u = r * r;
  const Expr sin = Fma(r * u, Polynomial(u, kSin), r);
  const Expr cos = Polynomial(u, kCos);
  const Expr value = Select(Expr::Binary(BinOp::kNe, BitAnd(q, I32(1)), I32(0)), cos, sin);
  const Expr sign = Shl(BitAnd(q, I32(2)), 30);
  return Expr::Bitcast(DType::kF32, Xor(Expr::Bitcast(DType::kI32, value), sign));
}
Expr Sin(const Expr& x) {
  const Expr positive = SinOfQuadrant(ReduceByHalfPi(Abs(x)), 0);
  const Expr sign = BitAnd(Expr::Bitcast(DType::kI32, x), I32(INT32_MIN));
  return Expr::Bitcast(DType::kF32, Xor(Expr::Bitcast(DType::kI32, positive), sign));
}
Expr Cos(const Expr& x) { return SinOfQuadrant(ReduceByHalfPi(Abs(x)), 1); }

}  // namespace

Expr ExpandF32(CallOp op, const Exprs& args) {
  const Expr& x = args[0];
  switch (op) {
    case CallOp::kExp:
      return Exp(x);
    case CallOp::kLog:
      return Log(x);
    case CallOp::kSin:
      return Sin(x);
    case CallOp::kCos:
      return Cos(x);
    case CallOp::kAsin:
      return ExpandAsin(AsinF32(), x);
    case CallOp::kAcos:
      return ExpandAcos(AsinF32(), x);
    case CallOp::kAtan:
      return Atan(x);
    case CallOp::kTanh:
      return Tanh(x);
    case CallOp::kErf:
      return Erf(x);
    case CallOp::kSigmoid:
      return Sigmoid(x);
    case CallOp::kRsqrt:
      return Rsqrt(x);
    default:
      return ExpandF32Wide(op, args);
  }
}

}  // namespace weft::math
