/// dtype.h: element types, and the type of a graph entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weft/support/api.h"

namespace weft {

/// Every element type of ONNX; numbers are ours and stable (they are part of hashes and files).
enum class DType : uint8_t {
  kUnknown = 0,
  kBool = 1,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kString,
  kC64,
  kC128,
  // Reserved from the start: sub-byte and float8 types are carried and printed; few
  // ops take them yet.
  kI4,
  kU4,
  kI2,
  kU2,
  kF8E4M3FN,
  kF8E4M3FNUZ,
  kF8E5M2,
  kF8E5M2FNUZ,
  kF8E8M0,
  kF4E2M1,
};
inline constexpr int kNumDTypes = int(DType::kF4E2M1) + 1;

/// "f32", "i64", "bool", "str", "f8e4m3fn" ...; "?" for kUnknown.
WEFT_API std::string_view DTypeName(DType t);
/// Inverse of DTypeName; nullopt for other text.
WEFT_API std::optional<DType> ParseDType(std::string_view name);
/// Bits of one element; 0 for strings and unknown.
WEFT_API int DTypeBits(DType t);
/// Bytes of `count` elements, sub-byte types packed; overflow-checked (kOverflow).
WEFT_API int64_t DTypeBytes(DType t, int64_t count);

constexpr bool IsFloat(DType t) {
  return t == DType::kF16 || t == DType::kBF16 || t == DType::kF32 || t == DType::kF64;
}
constexpr bool IsSigned(DType t) { return t >= DType::kI8 && t <= DType::kI64; }
constexpr bool IsUnsigned(DType t) { return t >= DType::kU8 && t <= DType::kU64; }
/// Integer of 8 to 64 bits; bool is not one.
constexpr bool IsInt(DType t) { return IsSigned(t) || IsUnsigned(t); }
/// A type that generated kernels compute with: bool, integers of 8 to 64 bits, the four floats.
constexpr bool IsComputable(DType t) { return t >= DType::kBool && t <= DType::kF64; }
/// Type in which values of `t` are accumulated: f16 and bf16 in f32, small integers in themselves.
constexpr DType AccumulatorOf(DType t) {
  return t == DType::kF16 || t == DType::kBF16 ? DType::kF32 : t;
}

/// Round-to-nearest-even conversions of the 16-bit floats, by bits.
WEFT_API uint16_t FloatToHalf(float v);
WEFT_API float HalfToFloat(uint16_t bits);
WEFT_API uint16_t FloatToBFloat16(float v);
WEFT_API float BFloat16ToFloat(uint16_t bits);

/// What kind of thing flows along an entry.
enum class TypeKind : uint8_t { kTensor = 0, kSequence, kOptional, kOpaque };

/// Type of an entry: a tensor of a dtype, or a sequence / optional of such tensors, or opaque.
struct Type {
  TypeKind kind = TypeKind::kTensor;
  DType dtype = DType::kUnknown;

  constexpr Type() = default;
  constexpr Type(DType d) : dtype(d) {}  // NOLINT: a dtype is a tensor type
  constexpr Type(TypeKind k, DType d) : kind(k), dtype(d) {}
  constexpr bool known() const { return dtype != DType::kUnknown || kind == TypeKind::kOpaque; }
  constexpr bool is_tensor() const { return kind == TypeKind::kTensor; }
  friend constexpr bool operator==(Type a, Type b) {
    return a.kind == b.kind && a.dtype == b.dtype;
  }
  friend constexpr bool operator!=(Type a, Type b) { return !(a == b); }
  /// "f32", "seq(f32)", "opt(f32)", "opaque".
  WEFT_API std::string ToString() const;
};

}  // namespace weft
