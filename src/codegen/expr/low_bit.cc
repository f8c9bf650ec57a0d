/// low_bit.cc: codes of floats of at most 8 bits and integers of at most 4, as integer arithmetic
/// on the bits of f32. Source: OCP 8-bit Floating Point and Microscaling Formats; ONNX Cast-25.
#include "weft/codegen/expr/low_bit.h"

#include "weft/support/check.h"

namespace weft {
namespace {

constexpr int kMantissa = 23, kBias = 127;  // of f32
constexpr uint32_t kInfinity = 0x7f800000, kQuietNan = 0x7fc00000;

Expr U32(uint32_t v) { return Expr::ConstBits(DType::kU32, v); }
Expr F32(const Expr& bits) { return Expr::Bitcast(DType::kF32, bits); }
Expr F32(uint32_t bits) { return Expr::ConstBits(DType::kF32, bits); }
Expr Shl(const Expr& a, int by) { return Expr::Binary(BinOp::kShl, a, U32(uint32_t(by))); }
Expr Shr(const Expr& a, int by) { return Expr::Binary(BinOp::kShr, a, U32(uint32_t(by))); }
Expr BitAnd(const Expr& a, uint32_t mask) { return Expr::Binary(BinOp::kAnd, a, U32(mask)); }
Expr BitOr(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kOr, a, b); }
/// 2 to the power `e`, a normal f32.
uint32_t PowerBits(int e) { return uint32_t(kBias + e) << kMantissa; }

/// A float with a sign: its fields, and the codes of its magnitude.
struct Format {
  explicit Format(DType t)
      : traits(TraitsOf(t)), mantissa(traits.precision - 1), sign(traits.bits - 1) {}
  const DTypeTraits& traits;
  int mantissa, sign;  ///< bits of the fraction; place of the sign
  uint32_t mask() const { return (1u << sign) - 1; }
  /// The first code whose exponent is the largest.
  uint32_t top() const { return mask() & ~((1u << mantissa) - 1); }
  /// The largest code that is a number.
  uint32_t greatest() const {
    if (traits.specials == FloatSpecials::kIeee) return top() - 1;
    return traits.specials == FloatSpecials::kTopNan ? mask() - 1 : mask();
  }
};

Expr FloatValue(const Format& f, const Expr& code) {
  const Expr magnitude = BitAnd(code, f.mask());
  const Expr normal = F32(Shl(magnitude, kMantissa - f.mantissa) +
                          U32(uint32_t(kBias - 1 + f.traits.min_exponent) << kMantissa));
  const Expr subnormal =
      Expr::Cast(DType::kF32, magnitude) * F32(PowerBits(f.traits.min_exponent - f.mantissa));
  Expr v = Expr::Select(Lt(magnitude, U32(1u << f.mantissa)), subnormal, normal);
  if (f.traits.specials == FloatSpecials::kIeee) {
    v = Expr::Select(Eq(magnitude, U32(f.top())), F32(kInfinity), v);
    v = Expr::Select(Lt(U32(f.top()), magnitude), F32(kQuietNan), v);
  } else if (f.traits.specials == FloatSpecials::kTopNan) {
    v = Expr::Select(Eq(magnitude, U32(f.mask())), F32(kQuietNan), v);
  }
  v = Expr::Select(Eq(Shr(code, f.sign), U32(0)), v, -v);
  if (f.traits.specials == FloatSpecials::kFnuz)
    v = Expr::Select(Eq(code, U32(1u << f.sign)), F32(kQuietNan), v);
  return v;
}

Expr FloatCode(const Format& f, const Expr& bits) {
  const Expr magnitude = BitAnd(bits, 0x7fffffff), sign = Shr(bits, 31);
  // Half of the last place, less one, plus the bit that makes a tie go to the even code.
  const int dropped = kMantissa - f.mantissa;
  const Expr rounded =
      magnitude + U32((1u << (dropped - 1)) - 1) + BitAnd(Shr(magnitude, dropped), 1);
  const Expr normal =
      Shr(rounded, dropped) - U32(uint32_t(kBias - 1 + f.traits.min_exponent) << f.mantissa);
  // Below the least normal number codes count multiples of the least one, which is the spacing of
  // f32 from `unit` on: the addition rounds to one.
  const uint32_t unit = PowerBits(f.traits.min_exponent - f.mantissa + kMantissa);
  const Expr subnormal = Expr::Bitcast(DType::kU32, F32(magnitude) + F32(unit)) - U32(unit);
  const Expr code =
      Expr::Select(Lt(magnitude, U32(PowerBits(f.traits.min_exponent))), subnormal, normal);
  const auto with_sign = [&](const Expr& magnitude_code) {
    return BitOr(magnitude_code, Shl(sign, f.sign));
  };
  const auto choose = [&](const Expr& beyond, uint32_t nan, const Expr& number) {
    const Expr finite = Expr::Select(Lt(U32(f.greatest()), code), beyond, number);
    return Expr::Select(Lt(U32(kInfinity), magnitude), U32(nan), finite);
  };
  switch (f.traits.specials) {
    case FloatSpecials::kIeee:
      return choose(with_sign(U32(f.top())), f.mask(), with_sign(code));
    case FloatSpecials::kTopNan:
      return choose(with_sign(U32(f.mask())), f.mask(), with_sign(code));
    case FloatSpecials::kFnuz: {
      const uint32_t nan = 1u << f.sign;  // where others have negative zero
      return choose(U32(nan), nan, Expr::Select(Eq(code, U32(0)), U32(0), with_sign(code)));
    }
    case FloatSpecials::kFinite:
      break;
  }
  return choose(with_sign(U32(f.greatest())), 0, with_sign(code));
}

}  // namespace

Expr LowBitValue(DType t, const Expr& code) {
  const Expr wide = Expr::Cast(DType::kU32, code);
  if (t == DType::kF8E8M0) {
    const Expr power = Expr::Select(Eq(wide, U32(0)), F32(1u << (kMantissa - 1)),  // 2^-127
                                    F32(Shl(wide, kMantissa)));
    return Expr::Select(Eq(wide, U32(255)), F32(kQuietNan), power);
  }
  if (TraitsOf(t).precision > 0) return FloatValue(Format(t), wide);
  if (ValueTypeOf(t) == DType::kU8) return code;
  const int64_t half = int64_t{1} << (DTypeBits(t) - 1);
  const Expr extended =
      Expr::Binary(BinOp::kXor, Expr::Cast(DType::kI32, code), Expr::ConstInt(DType::kI32, half)) -
      Expr::ConstInt(DType::kI32, half);
  return Expr::Cast(DType::kI8, extended);
}

Expr LowBitCode(DType t, const Expr& value) {
  WEFT_ICHECK(IsLowBit(t) && value->dtype() == ValueTypeOf(t), "code of {} from {}", DTypeName(t),
              DTypeName(value->dtype()));
  if (value->dtype() != DType::kF32) {
    const Expr byte = Expr::Cast(DType::kU8, value);
    return Expr::Binary(BinOp::kAnd, byte,
                        Expr::ConstInt(DType::kU8, (int64_t{1} << DTypeBits(t)) - 1));
  }
  const Expr bits = Expr::Bitcast(DType::kU32, value);
  if (t != DType::kF8E8M0) return Expr::Cast(DType::kU8, FloatCode(Format(t), bits));
  const Expr exponent = Shr(bits, kMantissa);
  const Expr positive = Le(bits - U32(1), U32(kInfinity - 2));  // and finite
  return Expr::Cast(DType::kU8, Expr::Select(positive, exponent, U32(255)));
}

}  // namespace weft
