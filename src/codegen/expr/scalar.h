/// scalar.h: the arithmetic of expressions on one value, as every target must do it; private to
/// src/codegen.
///
/// Integers of all widths are held in an int64_t, *normalised*: sign- or zero-extended from their
/// own width (u64 by bits). Floats are held in a double; `RoundTo` rounds to the dtype. A double
/// result rounded once to f32 is the correctly rounded f32 result for + - * / and sqrt, because
/// 53 >= 2 * 24 + 2.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "weft/codegen/expr/expr.h"

namespace weft::scalar {

template <class To, class From>
To BitCast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline int64_t Normalize(DType t, int64_t v) {
  switch (t) {
    case DType::kBool:
      return v != 0;
    case DType::kI8:
      return int8_t(v);
    case DType::kI16:
      return int16_t(v);
    case DType::kI32:
      return int32_t(v);
    case DType::kU8:
      return uint8_t(v);
    case DType::kU16:
      return uint16_t(v);
    case DType::kU32:
      return uint32_t(v);
    default:
      return v;
  }
}

inline int64_t MinInt(DType t) {
  if (!IsSigned(t)) return 0;
  return t == DType::kI64 ? INT64_MIN : -(int64_t{1} << (DTypeBits(t) - 1));
}
/// By bits for u64.
inline int64_t MaxInt(DType t) {
  if (t == DType::kBool) return 1;
  if (t == DType::kU64) return -1;
  if (t == DType::kI64) return INT64_MAX;
  return (int64_t{1} << (DTypeBits(t) - (IsSigned(t) ? 1 : 0))) - 1;
}

inline double RoundTo(DType t, double v) {
  if (t == DType::kF32) return float(v);
  return IsNarrowFloat(t) ? WidenFloat(t, NarrowFloat(t, float(v))) : v;
}
/// Narrow floats compute in f32: rounding of an arithmetic result.
inline double RoundArith(DType t, double v) { return t == DType::kF64 ? v : double(float(v)); }

/// Truncates and saturates; NaN gives 0; to bool: v != 0 (NaN is true).
inline int64_t DoubleToInt(DType t, double v) {
  if (t == DType::kBool) return v != 0;
  if (std::isnan(v)) return 0;
  if (t == DType::kU64) {
    if (v <= 0) return 0;
    return v >= 18446744073709551616.0 ? -1 : int64_t(uint64_t(v));
  }
  if (v >= 9223372036854775808.0) return MaxInt(t);
  if (v < -9223372036854775808.0) return MinInt(t);
  const auto i = int64_t(v);
  return i < MinInt(t) ? MinInt(t) : i > MaxInt(t) ? MaxInt(t) : i;
}
inline double IntToDouble(DType t, int64_t v) {
  return t == DType::kU64 ? double(uint64_t(v)) : double(v);
}

/// An integer cast to a float type, rounded once.
inline double IntToFloat(DType from, int64_t v, DType to) {
  if (to == DType::kF64) return IntToDouble(from, v);
  return RoundTo(to, from == DType::kU64 ? float(uint64_t(v)) : float(v));
}

inline double BitsToDouble(DType t, uint64_t bits) {
  if (t == DType::kF64) return BitCast<double>(bits);
  return IsFloat(t) ? WidenFloat(t, uint32_t(bits)) : IntToDouble(t, Normalize(t, int64_t(bits)));
}
inline uint64_t DoubleToBits(DType t, double v) {
  if (t == DType::kF64) return BitCast<uint64_t>(v);
  // One rounding from double is what a cast to f16 means only through f32, as on every target.
  if (IsFloat(t)) return NarrowFloat(t, float(v));
  const int bits = DTypeBits(t);
  const auto raw = uint64_t(DoubleToInt(t, v));
  return bits >= 64 ? raw : raw & ((uint64_t{1} << bits) - 1);
}

inline bool IsCompare(BinOp op) { return op >= BinOp::kLt; }
inline bool IsCommutative(BinOp op) {
  switch (op) {
    case BinOp::kAdd:
    case BinOp::kMul:
    case BinOp::kMin:
    case BinOp::kMax:
    case BinOp::kAnd:
    case BinOp::kOr:
    case BinOp::kXor:
    case BinOp::kEq:
    case BinOp::kNe:
      return true;
    default:
      return false;
  }
}

/// Operands and result normalised to `t` (comparisons give 0 / 1).
inline int64_t IntBinary(BinOp op, DType t, int64_t a, int64_t b) {
  const bool u = !IsSigned(t);
  const auto ua = uint64_t(a), ub = uint64_t(b);
  switch (op) {
    case BinOp::kAdd:
      return Normalize(t, int64_t(ua + ub));
    case BinOp::kSub:
      return Normalize(t, int64_t(ua - ub));
    case BinOp::kMul:
      return Normalize(t, int64_t(ua * ub));
    case BinOp::kDiv:
      if (b == 0) return 0;
      if (u) return int64_t(ua / ub);
      return b == -1 ? Normalize(t, int64_t(0 - ua)) : a / b;
    case BinOp::kMod:
      if (b == 0) return 0;
      if (u) return int64_t(ua % ub);
      return b == -1 ? 0 : a % b;
    case BinOp::kFloorDiv: {
      if (b == 0) return 0;
      if (u) return int64_t(ua / ub);
      if (b == -1) return Normalize(t, int64_t(0 - ua));
      return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
    }
    case BinOp::kFloorMod: {
      if (b == 0) return 0;
      if (u) return int64_t(ua % ub);
      if (b == -1) return 0;
      const int64_t r = a % b;
      return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    case BinOp::kMin:
      return (u ? ua < ub : a < b) ? a : b;
    case BinOp::kMax:
      return (u ? ua > ub : a > b) ? a : b;
    case BinOp::kAnd:
      return a & b;
    case BinOp::kOr:
      return a | b;
    case BinOp::kXor:
      return a ^ b;
    case BinOp::kShl:
      return ub >= uint64_t(DTypeBits(t)) ? 0 : Normalize(t, int64_t(ua << ub));
    case BinOp::kShr:
      if (ub >= uint64_t(DTypeBits(t))) return 0;
      return u ? int64_t(ua >> ub) : a >> b;
    case BinOp::kLt:
      return u ? ua < ub : a < b;
    case BinOp::kLe:
      return u ? ua <= ub : a <= b;
    case BinOp::kGt:
      return u ? ua > ub : a > b;
    case BinOp::kGe:
      return u ? ua >= ub : a >= b;
    case BinOp::kEq:
      return a == b;
    case BinOp::kNe:
      return a != b;
  }
  return 0;
}

/// Arithmetic in double; the caller rounds.
inline double FloatBinary(BinOp op, double a, double b) {
  switch (op) {
    case BinOp::kAdd:
      return a + b;
    case BinOp::kSub:
      return a - b;
    case BinOp::kMul:
      return a * b;
    case BinOp::kDiv:
      return a / b;
    case BinOp::kMod:
      return std::fmod(a, b);
    case BinOp::kMin:
      return std::isnan(a) ? a : std::isnan(b) ? b : b < a ? b : a;
    case BinOp::kMax:
      return std::isnan(a) ? a : std::isnan(b) ? b : b > a ? b : a;
    default:
      return 0;
  }
}
inline bool FloatCompare(BinOp op, double a, double b) {
  switch (op) {
    case BinOp::kLt:
      return a < b;
    case BinOp::kLe:
      return a <= b;
    case BinOp::kGt:
      return a > b;
    case BinOp::kGe:
      return a >= b;
    case BinOp::kEq:
      return a == b;
    default:
      return !(a == b);
  }
}

inline double FloatUnary(UnOp op, double a) {
  switch (op) {
    case UnOp::kNeg:
      return -a;
    case UnOp::kAbs:
      return std::fabs(a);
    case UnOp::kFloor:
      return std::floor(a);
    case UnOp::kCeil:
      return std::ceil(a);
    case UnOp::kRound:
      return std::nearbyint(a);
    case UnOp::kTrunc:
      return std::trunc(a);
    case UnOp::kSqrt:
      return std::sqrt(a);
    case UnOp::kIsNan:
      return std::isnan(a);
    case UnOp::kIsInf:
      return std::isinf(a);
    default:
      return a;
  }
}
inline int64_t IntUnary(UnOp op, DType t, int64_t a) {
  switch (op) {
    case UnOp::kNeg:
      return Normalize(t, int64_t(0 - uint64_t(a)));
    case UnOp::kNot:
      return a == 0;
    case UnOp::kBitNot:
      return Normalize(t, ~a);
    case UnOp::kAbs:
      return a < 0 && IsSigned(t) ? Normalize(t, int64_t(0 - uint64_t(a))) : a;
    case UnOp::kIsNan:
    case UnOp::kIsInf:
      return 0;
    default:
      return a;
  }
}

inline double FloatCall(CallOp op, double a, double b) {
  switch (op) {
    case CallOp::kExp:
      return std::exp(a);
    case CallOp::kLog:
      return std::log(a);
    case CallOp::kSin:
      return std::sin(a);
    case CallOp::kCos:
      return std::cos(a);
    case CallOp::kTan:
      return std::tan(a);
    case CallOp::kAsin:
      return std::asin(a);
    case CallOp::kAcos:
      return std::acos(a);
    case CallOp::kAtan:
      return std::atan(a);
    case CallOp::kSinh:
      return std::sinh(a);
    case CallOp::kCosh:
      return std::cosh(a);
    case CallOp::kTanh:
      return std::tanh(a);
    case CallOp::kAsinh:
      return std::asinh(a);
    case CallOp::kAcosh:
      return std::acosh(a);
    case CallOp::kAtanh:
      return std::atanh(a);
    case CallOp::kErf:
      return std::erf(a);
    // Both branches avoid overflow of exp.
    case CallOp::kSigmoid:
      return a >= 0 ? 1 / (1 + std::exp(-a)) : std::exp(a) / (1 + std::exp(a));
    case CallOp::kRsqrt:
      return 1 / std::sqrt(a);
    case CallOp::kExpm1:
      return std::expm1(a);
    case CallOp::kLog1p:
      return std::log1p(a);
    case CallOp::kPow:
      return std::pow(a, b);
  }
  return 0;
}

}  // namespace weft::scalar
