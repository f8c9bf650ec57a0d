/// dtype.h: what is asked of element types (dtype_traits.h), and the type of a graph entry.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weft/core/tensor/dtype_traits.h"
#include "weft/support/api.h"

namespace weft {

/// "f32", "i64", "bool", "str", "f8e4m3fn" ...; "?" for kUnknown.
constexpr std::string_view DTypeName(DType t) { return TraitsOf(t).name; }
/// Inverse of DTypeName; nullopt for other text.
WEFT_API std::optional<DType> ParseDType(std::string_view name);
/// Inverse of DTypeTraits::onnx.
WEFT_API std::optional<DType> DTypeOfOnnx(int64_t code);
/// Bits of one element; 0 for strings and unknown.
constexpr int DTypeBits(DType t) { return TraitsOf(t).bits; }
/// Bytes of `count` elements, sub-byte types packed; overflow-checked (kOverflow).
WEFT_API int64_t DTypeBytes(DType t, int64_t count);

/// A float that kernels compute with.
constexpr bool IsFloat(DType t) { return FormatOf(t) != FloatFormat::kNone; }
/// One that is stored in fewer bits than it is computed with, which is in f32.
constexpr bool IsNarrowFloat(DType t) { return IsFloat(t) && DTypeBits(t) < 32; }
constexpr bool IsSigned(DType t) { return t >= DType::kI8 && t <= DType::kI64; }
constexpr bool IsUnsigned(DType t) { return t >= DType::kU8 && t <= DType::kU64; }
/// Integer of 8 to 64 bits; bool is not one.
constexpr bool IsInt(DType t) { return IsSigned(t) || IsUnsigned(t); }
/// A type that generated kernels compute with: bool, integers of 8 to 64 bits, floats.
constexpr bool IsComputable(DType t) { return t == DType::kBool || IsInt(t) || IsFloat(t); }
/// Numbers of so few bits that kernels hold their codes in bytes (codegen/expr/low_bit.h): integers
/// of at most 4 bits, floats of at most 8.
constexpr bool IsLowBit(DType t) { return t >= DType::kI4 && t <= DType::kF4E2M1; }
/// Type of an element of `t` in an expression: of those numbers f32, i8 or u8, else `t` itself.
constexpr DType ValueTypeOf(DType t) {
  if (!IsLowBit(t)) return t;
  if (t == DType::kI4 || t == DType::kI2) return DType::kI8;
  return t == DType::kU4 || t == DType::kU2 ? DType::kU8 : DType::kF32;
}
/// Type in which values of `t` are held and accumulated: f32 for narrow floats, else `t` itself.
constexpr DType AccumulatorOf(DType t) { return IsNarrowFloat(t) ? DType::kF32 : t; }

/// Round-to-nearest-even conversions of the 16-bit floats, by bits.
WEFT_API uint16_t FloatToHalf(float v);
WEFT_API float HalfToFloat(uint16_t bits);
WEFT_API uint16_t FloatToBFloat16(float v);
WEFT_API float BFloat16ToFloat(uint16_t bits);
/// The same by dtype: a float of at most 32 bits, in the low bits of a word.
WEFT_API float WidenFloat(DType t, uint32_t bits);
WEFT_API uint32_t NarrowFloat(DType t, float v);

/// Positive numbers of a float of any width; zeros for other dtypes. `roundoff`: half a unit in the
/// last place of 1.
struct FloatLimits {
  double greatest, least_normal, least, roundoff;
};
WEFT_API FloatLimits LimitsOf(DType t);
/// Every value of `from` is one of `to`: both are computable, or equal.
WEFT_API bool CastIsLossless(DType from, DType to);

/// What kind of thing flows along an entry.
enum class TypeKind : uint8_t {
  kTensor = 0,
  kSequence,
  kOptional,
  kOpaque,
  kOptionalSequence,
  kMap,
  kMapSequence
};

/// Type of an entry: a tensor of a dtype, a sequence or an optional of such tensors, an optional of
/// such a sequence, a map from keys to such elements, a sequence of such maps, or opaque.
struct Type {
  TypeKind kind = TypeKind::kTensor;
  DType dtype = DType::kUnknown;
  DType key = DType::kUnknown;  ///< of a map, i64 or str

  constexpr Type() = default;
  constexpr Type(DType d) : dtype(d) {}  // NOLINT: a dtype is a tensor type
  constexpr Type(TypeKind k, DType d, DType key = DType::kUnknown) : kind(k), dtype(d), key(key) {}
  constexpr bool known() const { return dtype != DType::kUnknown || kind == TypeKind::kOpaque; }
  constexpr bool is_tensor() const { return kind == TypeKind::kTensor; }
  constexpr bool is_sequence() const { return kind == TypeKind::kSequence; }
  constexpr bool is_map() const { return kind == TypeKind::kMap; }
  constexpr bool is_map_sequence() const { return kind == TypeKind::kMapSequence; }
  constexpr bool is_optional() const {
    return kind == TypeKind::kOptional || kind == TypeKind::kOptionalSequence;
  }
  /// Of what a sequence or an optional holds; of others, itself.
  constexpr Type element() const {
    if (kind == TypeKind::kMapSequence) return Type(TypeKind::kMap, dtype, key);
    return Type(kind == TypeKind::kOptionalSequence ? TypeKind::kSequence : TypeKind::kTensor,
                dtype);
  }
  friend constexpr bool operator==(Type a, Type b) {
    return a.kind == b.kind && a.dtype == b.dtype && a.key == b.key;
  }
  friend constexpr bool operator!=(Type a, Type b) { return !(a == b); }
  /// "f32", "seq(f32)", "opt(f32)", "opt(seq(f32))", "map(str, f32)", "seq(map(i64, f32))",
  /// "opaque".
  WEFT_API std::string ToString() const;
};
/// Inverse of Type::ToString; unknown for other text.
WEFT_API Type ParseType(std::string_view text);

}  // namespace weft
