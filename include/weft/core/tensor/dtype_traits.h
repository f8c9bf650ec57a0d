/// dtype_traits.h: the element types, and the one table of what each of them is.
///
/// A fact about a dtype is a column here, or is computed from columns. A float that kernels compute
/// with has a FloatFormat. What must be written for every format (conversions, instructions, codes
/// of libraries) is a `switch` over it without a default, so that the compiler names each place
/// that a new format lacks.
#pragma once

#include <cstdint>
#include <string_view>

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

/// Formats of the floats that kernels compute with.
enum class FloatFormat : uint8_t {
  kNone,  ///< of other dtypes
  kF16,
  kBF16,
  kF32,
  kF64,
};

/// What the codes with the largest exponent are.
enum class FloatSpecials : uint8_t {
  kIeee,    ///< infinities and NaNs
  kTopNan,  ///< numbers, but for the last, a NaN
  kFnuz,    ///< numbers; the code of negative zero is the one NaN
  kFinite,  ///< numbers; there is no NaN
};

struct DTypeTraits {
  DType type;
  std::string_view name;    ///< in text and files
  int bits;                 ///< of one element; 0: strings and unknown
  int onnx;                 ///< TensorProto.DataType; 0: none
  int dlpack;               ///< DLDataTypeCode; -1: none
  std::string_view numpy;   ///< `descr` without byte order; "": none. Of several the first reads it
  std::string_view c_name;  ///< in the C text of an expression
  FloatFormat format = FloatFormat::kNone;
  int precision = 0;     ///< bits of a float's significand, with the hidden one
  int min_exponent = 0;  ///< the least normal number is 2 to it
  FloatSpecials specials = FloatSpecials::kIeee;
};

/// Indexed by the number of the type. NumPy has no bf16: its bits are written as u16. The code of
/// f8e8m0 is an exponent, with neither sign nor significand.
struct DTypeTable {
  using D = DType;
  using F = FloatFormat;
  using S = FloatSpecials;
  // clang-format off
  static constexpr DTypeTraits kRows[] = {
      {D::kUnknown,    "?",            0,  0, -1, "",   ""},
      {D::kBool,       "bool",         8,  9,  6, "b1", "bool"},
      {D::kI8,         "i8",           8,  3,  0, "i1", "int8_t"},
      {D::kI16,        "i16",         16,  5,  0, "i2", "int16_t"},
      {D::kI32,        "i32",         32,  6,  0, "i4", "int"},
      {D::kI64,        "i64",         64,  7,  0, "i8", "int64_t"},
      {D::kU8,         "u8",           8,  2,  1, "u1", "uint8_t"},
      {D::kU16,        "u16",         16,  4,  1, "u2", "uint16_t"},
      {D::kU32,        "u32",         32, 12,  1, "u4", "unsigned"},
      {D::kU64,        "u64",         64, 13,  1, "u8", "uint64_t"},
      {D::kF16,        "f16",         16, 10,  2, "f2", "half",     F::kF16,  11,   -14},
      {D::kBF16,       "bf16",        16, 16,  4, "u2", "bfloat16", F::kBF16,  8,  -126},
      {D::kF32,        "f32",         32,  1,  2, "f4", "float",    F::kF32,  24,  -126},
      {D::kF64,        "f64",         64, 11,  2, "f8", "double",   F::kF64,  53, -1022},
      {D::kString,     "str",          0,  8, -1, "",   ""},
      {D::kC64,        "c64",         64, 14,  5, "c8", ""},
      {D::kC128,       "c128",       128, 15,  5, "c16",""},
      {D::kI4,         "i4",           4, 22, -1, "",   ""},
      {D::kU4,         "u4",           4, 21, -1, "",   ""},
      {D::kI2,         "i2",           2, 26, -1, "",   ""},
      {D::kU2,         "u2",           2, 25, -1, "",   ""},
      {D::kF8E4M3FN,   "f8e4m3fn",     8, 17, 10, "",   "",         F::kNone,  4,    -6, S::kTopNan},
      {D::kF8E4M3FNUZ, "f8e4m3fnuz",   8, 18, 11, "",   "",         F::kNone,  4,    -7, S::kFnuz},
      {D::kF8E5M2,     "f8e5m2",       8, 19, 12, "",   "",         F::kNone,  3,   -14, S::kIeee},
      {D::kF8E5M2FNUZ, "f8e5m2fnuz",   8, 20, 13, "",   "",         F::kNone,  3,   -15, S::kFnuz},
      {D::kF8E8M0,     "f8e8m0",       8, 24, 14, "",   ""},
      {D::kF4E2M1,     "f4e2m1",       4, 23, -1, "",   "",         F::kNone,  2,     0, S::kFinite},
  };
  // clang-format on
};

/// Those of kUnknown for a number that no dtype has.
constexpr const DTypeTraits& TraitsOf(DType t) {
  return DTypeTable::kRows[int(t) < kNumDTypes ? int(t) : 0];
}
constexpr FloatFormat FormatOf(DType t) { return TraitsOf(t).format; }

constexpr bool EveryDTypeHasItsRow() {
  int rows = 0;
  for (const DTypeTraits& row : DTypeTable::kRows)
    if (row.type != DType(rows++)) return false;
  return rows == kNumDTypes;
}
static_assert(EveryDTypeHasItsRow(), "one row a dtype, in the order of the enumerators");

}  // namespace weft
