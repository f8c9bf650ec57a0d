/// cast_tensor.cc: a tensor as another dtype, also one that kernels do not compute with: 8-bit
/// floats, 2- and 4-bit numbers, strings; and one element of it as an expression.
///
/// What is beyond the largest 8-bit float becomes that (`saturate`), or else infinity where
/// the dtype has one and NaN where it does not. Integers, and floats to numbers of fewer
/// than 8 bits, keep their low bits; other floats saturate. To f8e8m0, which holds powers
/// of two: the power above, below or nearest. Numbers to strings: the shortest text that
/// reads back, "NaN", "INF", "-INF".
/// Source: ONNX Cast-25.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "host_util.h"

namespace weft::ops {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// The largest finite value: all decodable codes are tried once.
double LargestOf(DType t) {
  Tensor one(t, {});
  one.set(0, kInf);
  return one.at(0);
}

/// The power of two of `v` > 0 by `mode`; the dtype holds 2^-127 .. 2^127.
double PowerOf(double v, const std::string& mode) {
  int exponent;
  const double fraction =
      std::frexp(v, &exponent);  // v = fraction * 2^exponent, fraction in [0.5, 1)
  int power = exponent - 1;
  const bool exact = fraction == 0.5;
  if (mode == "up" && !exact) ++power;
  if (mode == "nearest" && fraction >= 0.75) ++power;
  return std::ldexp(1.0, power);
}

void StoreE8M0(Tensor* y, int64_t i, double v, bool saturate, const std::string& mode) {
  const double lowest = std::ldexp(1.0, -127), highest = std::ldexp(1.0, 127);
  uint8_t* code = y->mutable_data_as<uint8_t>() + i;
  if (std::isnan(v)) {
    *code = 255;
  } else if (v <= 0) {
    *code = saturate ? 0 : 255;  // a negative number has no meaning here
  } else if (std::isinf(v) || PowerOf(v, mode) > highest) {
    *code = saturate ? 254 : 255;
  } else if (PowerOf(v, mode) < lowest) {
    *code = saturate ? 0 : 255;
  } else {
    *code = uint8_t(std::ilogb(PowerOf(v, mode)) + 127);
  }
}

/// An 8-bit float without saturation: what rounds beyond the largest has no number.
void StoreUnsaturated(Tensor* y, int64_t i, double v, double largest) {
  y->set(i, v);
  if (std::isnan(v) || std::fabs(v) <= largest) return;
  // One step of the mantissa above the largest, halved: what is below rounds back to it.
  const int bits = y->dtype() == DType::kF8E4M3FN || y->dtype() == DType::kF8E4M3FNUZ ? 3 : 2;
  const double step = std::ldexp(1.0, std::ilogb(largest) - bits);
  const double tie = largest + step / 2;
  // The largest value's mantissa decides a tie; with 448 = 1.75 * 2^8 it is even in E4M3FN alone.
  const bool even = y->dtype() == DType::kF8E4M3FN;
  if (std::fabs(v) < tie || (std::fabs(v) == tie && even)) return;
  uint8_t* code = y->mutable_data_as<uint8_t>() + i;
  const uint8_t sign = std::signbit(v) ? 0x80 : 0;
  switch (y->dtype()) {
    case DType::kF8E4M3FN:
      *code = uint8_t(sign | 0x7f);
      break;
    case DType::kF8E5M2:
      *code = uint8_t(sign | 0x7c);
      break;
    default:  // the dtypes with one NaN
      *code = 0x80;
  }
}

bool IsWholeNumber(DType t) {
  return IsInt(t) || t == DType::kBool || t == DType::kI4 || t == DType::kU4 || t == DType::kI2 ||
         t == DType::kU2;
}
bool IsFloat8(DType t) { return kFloat8.has(t); }

std::string TextOf(const Tensor& x, int64_t i) {
  if (x.dtype() == DType::kU64) return fmt::format("{}", uint64_t(x.at_int(i)));
  if (IsWholeNumber(x.dtype())) return fmt::format("{}", x.at_int(i));
  const double v = x.at(i);
  if (std::isnan(v)) return "NaN";
  if (std::isinf(v)) return v < 0 ? "-INF" : "INF";
  return x.dtype() == DType::kF64 ? fmt::format("{}", v) : fmt::format("{}", float(v));
}

/// As a cast to i64: what does not fit saturates, NaN gives 0.
int64_t WholeOf(double v) {
  if (std::isnan(v)) return 0;
  if (v >= 0x1p63) return std::numeric_limits<int64_t>::max();
  return v < -0x1p63 ? std::numeric_limits<int64_t>::min() : int64_t(v);
}

double NumberOf(const std::string& text) {
  char* end = nullptr;
  const double v = std::strtod(text.c_str(), &end);
  WEFT_CHECK(end != text.c_str() && *end == '\0', kBadInput, "\"{}\" is not a number",
             text.substr(0, 40));
  return v;
}

}  // namespace

TensorPtr CastTensor(const Tensor& x, DType to, bool saturate, const std::string& round_mode) {
  auto y = NewTensor(to, x.dims());
  const int64_t count = x.num_elements();
  const DType from = x.dtype();
  const double largest = IsFloat8(to) && !saturate ? LargestOf(to) : 0;
  for (int64_t i = 0; i < count; ++i) {
    if (to == DType::kString) {
      y->mutable_strings()[size_t(i)] =
          from == DType::kString ? x.strings()[size_t(i)] : TextOf(x, i);
      continue;
    }
    if (IsWholeNumber(from) && IsWholeNumber(to)) {
      y->set_int(i, x.at_int(i));
      continue;
    }
    const double v = from == DType::kString ? NumberOf(x.strings()[size_t(i)]) : x.at(i);
    if (to == DType::kF8E8M0)
      StoreE8M0(y.get(), i, v, saturate, round_mode);
    else if (IsFloat8(to) && !saturate)
      StoreUnsaturated(y.get(), i, v, largest);
    else if (IsWholeNumber(to) && DTypeBits(to) < 8)
      y->set_int(i, WholeOf(v));
    else
      y->set(i, v);
  }
  return y;
}

namespace {

Expr U32(uint32_t v) { return Expr::ConstBits(DType::kU32, v); }

/// f as a power of two that f8e8m0 holds, or NaN: what StoreE8M0 does, on the bits of f32.
Expr PowerElement(const Expr& f, bool saturate, const std::string& mode) {
  constexpr uint32_t kLowest = 0x00400000, kHighest = 0x7f000000;  // 2^-127, 2^127
  constexpr uint32_t kNan = 0x7fc00000;
  // Added to the bits: what carries into the exponent. Below: the least number that becomes
  // kLowest, and the least that becomes the power above.
  const uint32_t carry = mode == "up" ? 0x7fffff : mode == "nearest" ? 0x400000 : 0;
  const uint32_t least = mode == "up" ? 0x00200001 : mode == "nearest" ? 0x00300000 : kLowest;
  const uint32_t next = mode == "up" ? 0x00400001 : mode == "nearest" ? 0x00600000 : 0x00800000;
  const Expr bits = Expr::Bitcast(DType::kU32, f);
  const Expr power = Expr::Binary(BinOp::kAnd, bits + U32(carry), U32(0x7f800000));
  Expr y = Expr::Select(Lt(bits, U32(next)), U32(kLowest), Max(power, U32(0x00800000)));
  y = Expr::Select(Lt(U32(kHighest), y), U32(saturate ? kHighest : kNan), y);
  y = Expr::Select(Lt(bits, U32(least)), U32(saturate ? kLowest : kNan), y);
  y = Expr::Select(Le(f, Expr::Const(DType::kF32, 0)), U32(saturate ? kLowest : kNan), y);
  y = Expr::Select(Expr::Unary(UnOp::kIsNan, f), U32(kNan), y);
  return Expr::Bitcast(DType::kF32, y);
}

}  // namespace

Expr CastElement(const NodePtr& n, const Expr& x, DType to, bool saturate,
                 const std::string& round_mode) {
  const DType from = x->dtype();
  if (!IsLowBit(to)) return Expr::Cast(to, x);
  if (IsWholeNumber(to))
    return Expr::Cast(ValueTypeOf(to), IsFloat(from) ? Expr::Cast(DType::kI64, x) : x);
  const bool exact = from == DType::kBool || CastIsLossless(from, DType::kF32) ||
                     (IsInt(from) && to != DType::kF8E8M0);
  WEFT_CHECK(exact, kUnsupported, "{}: no kernel casts {} to {}", n->Describe(), DTypeName(from),
             DTypeName(to));
  const Expr f = Expr::Cast(DType::kF32, x);
  if (to == DType::kF8E8M0) return PowerElement(f, saturate, round_mode);
  if (!saturate || !IsFloat8(to)) return f;
  const double greatest = LimitsOf(to).greatest;
  return Min(Max(f, Expr::Const(DType::kF32, -greatest)), Expr::Const(DType::kF32, greatest));
}

}  // namespace weft::ops
