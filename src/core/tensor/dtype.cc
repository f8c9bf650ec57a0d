/// dtype.cc: names and sizes of element types, and the conversions of the 16-bit floats.
#include "weft/core/tensor/dtype.h"

#include <cstring>

#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft {
namespace {

struct DTypeInfo {
  std::string_view name;
  int bits;
};

/// Indexed by the number of the type.
constexpr DTypeInfo kInfo[kNumDTypes] = {
    {"?", 0},      {"bool", 8},     {"i8", 8},         {"i16", 16},   {"i32", 32},
    {"i64", 64},   {"u8", 8},       {"u16", 16},       {"u32", 32},   {"u64", 64},
    {"f16", 16},   {"bf16", 16},    {"f32", 32},       {"f64", 64},   {"str", 0},
    {"c64", 64},   {"c128", 128},   {"i4", 4},         {"u4", 4},     {"i2", 2},
    {"u2", 2},     {"f8e4m3fn", 8}, {"f8e4m3fnuz", 8}, {"f8e5m2", 8}, {"f8e5m2fnuz", 8},
    {"f8e8m0", 8}, {"f4e2m1", 4},
};

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

std::string_view DTypeName(DType t) {
  const int i = int(t);
  return i < kNumDTypes ? kInfo[i].name : kInfo[0].name;
}

std::optional<DType> ParseDType(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (kInfo[i].name == name) return DType(i);
  }
  return std::nullopt;
}

int DTypeBits(DType t) {
  const int i = int(t);
  return i < kNumDTypes ? kInfo[i].bits : 0;
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

std::string Type::ToString() const {
  switch (kind) {
    case TypeKind::kSequence:
      return fmt::format("seq({})", DTypeName(dtype));
    case TypeKind::kOptional:
      return fmt::format("opt({})", DTypeName(dtype));
    case TypeKind::kOpaque:
      return "opaque";
    case TypeKind::kTensor:
      break;
  }
  return std::string(DTypeName(dtype));
}

}  // namespace weft
