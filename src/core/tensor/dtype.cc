/// dtype.cc: sizes and ranges of element types, and the conversions of narrow floats.
#include "weft/core/tensor/dtype.h"

#include <cmath>
#include <cstring>

#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

uint32_t BitsOf(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  return bits;
}

float FloatOf(uint32_t bits) {
  float v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

}  // namespace

std::optional<DType> ParseDType(std::string_view name) {
  for (const DTypeTraits& row : DTypeTable::kRows) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

std::optional<DType> DTypeOfOnnx(int64_t code) {
  for (const DTypeTraits& row : DTypeTable::kRows) {
    if (code != 0 && row.onnx == code) return row.type;
  }
  return std::nullopt;
}

int64_t DTypeBytes(DType t, int64_t count) {
  const int bits = DTypeBits(t);
  if (bits % 8 == 0) return CheckedMul(count, bits / 8);
  const int64_t per_byte = 8 / bits;
  return CheckedAdd(count, per_byte - 1) / per_byte;
}

uint16_t FloatToHalf(float v) {
  const uint32_t bits = BitsOf(v);
  const uint16_t sign = uint16_t((bits >> 16) & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return uint16_t(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));  // quiet NaN
  // 65520 is the midpoint of the largest half and the next power of two; ties go to the even one,
  // infinity.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude < 0x38800000) {
    // Below 2^-14 halves are multiples of 2^-24, the spacing of floats in [0.5, 1): the addition
    // rounds to one.
    return uint16_t(sign | (BitsOf(FloatOf(magnitude) + 0.5f) - BitsOf(0.5f)));
  }
  magnitude += 0xfff + ((magnitude >> 13) & 1);
  return uint16_t(sign | ((magnitude - (112u << 23)) >> 13));
}

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 31, mantissa = bits & 0x3ff;
  if (exponent == 31) return FloatOf(sign | 0x7f800000 | (mantissa << 13));
  if (exponent == 0) {
    const float v = float(mantissa) * 0x1p-24f;
    return sign ? -v : v;
  }
  return FloatOf(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t FloatToBFloat16(float v) {
  const uint32_t bits = BitsOf(v);
  if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t((bits >> 16) | 0x40);  // quiet NaN
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float BFloat16ToFloat(uint16_t bits) { return FloatOf(uint32_t(bits) << 16); }

float WidenFloat(DType t, uint32_t bits) {
  switch (FormatOf(t)) {
    case FloatFormat::kF16:
      return HalfToFloat(uint16_t(bits));
    case FloatFormat::kBF16:
      return BFloat16ToFloat(uint16_t(bits));
    case FloatFormat::kF32:
      return FloatOf(bits);
    case FloatFormat::kF64:
    case FloatFormat::kNone:
      break;
  }
  WEFT_THROW(kInternal, "{} is not a float of at most 32 bits", DTypeName(t));
}

uint32_t NarrowFloat(DType t, float v) {
  switch (FormatOf(t)) {
    case FloatFormat::kF16:
      return FloatToHalf(v);
    case FloatFormat::kBF16:
      return FloatToBFloat16(v);
    case FloatFormat::kF32:
      return BitsOf(v);
    case FloatFormat::kF64:
    case FloatFormat::kNone:
      break;
  }
  WEFT_THROW(kInternal, "{} is not a float of at most 32 bits", DTypeName(t));
}

FloatLimits LimitsOf(DType t) {
  const DTypeTraits& f = TraitsOf(t);
  if (f.precision == 0) return {};
  const bool ieee = f.specials == FloatSpecials::kIeee;
  // Exponents count up from that of the least normal number; IEEE's last one has no numbers.
  const int codes = (1 << (f.bits - f.precision)) - (ieee ? 2 : 1);
  const int top = f.min_exponent + codes - 1;
  const int missing = f.specials == FloatSpecials::kTopNan ? 2 : 1;
  return {std::ldexp(2 - std::ldexp(missing, 1 - f.precision), top),
          std::ldexp(1.0, f.min_exponent), std::ldexp(1.0, f.min_exponent - f.precision + 1),
          std::ldexp(1.0, -f.precision)};
}

bool CastIsLossless(DType from, DType to) {
  if (from == to) return true;
  if (!IsComputable(from) || !IsComputable(to) || to == DType::kBool) return false;
  if (from == DType::kBool) return true;
  const DTypeTraits &f = TraitsOf(from), &t = TraitsOf(to);
  const int digits = IsFloat(from) ? f.precision : f.bits - IsSigned(from);
  if (IsInt(to)) {
    return IsInt(from) && (IsSigned(to) || !IsSigned(from)) && digits <= t.bits - IsSigned(to);
  }
  return digits <= t.precision && (!IsFloat(from) || f.bits - f.precision <= t.bits - t.precision);
}

std::string Type::ToString() const {
  switch (kind) {
    case TypeKind::kSequence:
      return fmt::format("seq({})", DTypeName(dtype));
    case TypeKind::kOptional:
      return fmt::format("opt({})", DTypeName(dtype));
    case TypeKind::kOptionalSequence:
      return fmt::format("opt(seq({}))", DTypeName(dtype));
    case TypeKind::kMap:
      return fmt::format("map({}, {})", DTypeName(key), DTypeName(dtype));
    case TypeKind::kMapSequence:
      return fmt::format("seq({})", element().ToString());
    case TypeKind::kOpaque:
      return "opaque";
    case TypeKind::kTensor:
      break;
  }
  return std::string(DTypeName(dtype));
}

Type ParseType(std::string_view text) {
  if (text == "opaque") return Type(TypeKind::kOpaque, DType::kUnknown);
  if (StartsWith(text, "seq(map(") && text.back() == ')') {
    const Type map = ParseType(text.substr(4, text.size() - 5));
    return map.known() ? Type(TypeKind::kMapSequence, map.dtype, map.key) : Type();
  }
  if (StartsWith(text, "map(") && text.back() == ')') {
    const size_t comma = text.find(", ");
    if (comma == std::string_view::npos) return Type();
    const auto key = ParseDType(text.substr(4, comma - 4));
    const auto value = ParseDType(text.substr(comma + 2, text.size() - comma - 3));
    const bool is_key = key == DType::kI64 || key == DType::kString;
    return is_key && value ? Type(TypeKind::kMap, *value, *key) : Type();
  }
  for (const TypeKind kind :
       {TypeKind::kOptionalSequence, TypeKind::kOptional, TypeKind::kSequence}) {
    const std::string_view head = kind == TypeKind::kOptionalSequence ? "opt(seq("
                                  : kind == TypeKind::kOptional       ? "opt("
                                                                      : "seq(";
    const size_t tail = kind == TypeKind::kOptionalSequence ? 2 : 1;
    if (text.size() < head.size() + tail || text.substr(0, head.size()) != head) continue;
    const std::string_view inner = text.substr(head.size(), text.size() - head.size() - tail);
    return Type(kind, ParseDType(inner).value_or(DType::kUnknown));
  }
  return ParseDType(text).value_or(DType::kUnknown);
}

}  // namespace weft
