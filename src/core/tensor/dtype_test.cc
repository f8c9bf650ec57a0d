/// dtype_test.cc: names, sizes and the 16-bit conversions, checked against arithmetic in double.
#include "weft/core/tensor/dtype.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>

#include "weft/support/error.h"

namespace weft {
namespace {

TEST_CASE("dtype names round-trip and differ") {
  std::set<std::string> seen;
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType t = DType(i);
    CHECK(ParseDType(DTypeName(t)) == t);
    CHECK(seen.insert(std::string(DTypeName(t))).second);
  }
  CHECK(DTypeName(DType::kF32) == "f32");
  CHECK(DTypeName(DType::kString) == "str");
  CHECK_FALSE(ParseDType("float").has_value());
  CHECK_FALSE(ParseDType("").has_value());
}

TEST_CASE("bytes of sub-byte and wide types") {
  CHECK(DTypeBytes(DType::kF32, 3) == 12);
  CHECK(DTypeBytes(DType::kI4, 3) == 2);
  CHECK(DTypeBytes(DType::kI4, 4) == 2);
  CHECK(DTypeBytes(DType::kU2, 5) == 2);
  CHECK(DTypeBytes(DType::kU2, 0) == 0);
  CHECK(DTypeBytes(DType::kC128, 2) == 32);
  CHECK(DTypeBytes(DType::kString, 7) == 0);
  CHECK_THROWS_AS(DTypeBytes(DType::kF64, INT64_MAX / 4), UserError);
}

/// Value of a half by its definition, in double.
double HalfValue(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31)
    return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST_CASE("every half converts to float exactly and back to itself") {
  for (int i = 0; i < 65536; ++i) {
    const uint16_t bits = uint16_t(i);
    const float f = HalfToFloat(bits);
    const double want = HalfValue(bits);
    if (std::isnan(want)) {
      REQUIRE(std::isnan(f));
      REQUIRE(std::isnan(HalfToFloat(FloatToHalf(f))));
    } else {
      REQUIRE(double(f) == want);
      REQUIRE(std::signbit(f) == bool(bits & 0x8000));
      REQUIRE(FloatToHalf(f) == bits);
    }
  }
}

TEST_CASE("between two halves the nearer one is taken, a tie goes to the even one") {
  for (int i = 0; i < 0x7c00; ++i) {
    const double lo = HalfValue(uint16_t(i));
    const double hi = i + 1 == 0x7c00 ? 65536.0 : HalfValue(uint16_t(i + 1));
    const float middle = float((lo + hi) / 2);  // exact: a float has 13 more bits
    REQUIRE(FloatToHalf(middle) == (i % 2 == 0 ? i : i + 1));
    REQUIRE(FloatToHalf(std::nextafterf(middle, 0)) == i);
    REQUIRE(FloatToHalf(std::nextafterf(middle, 1e9f)) == i + 1);
    REQUIRE(FloatToHalf(-middle) == (0x8000 | (i % 2 == 0 ? i : i + 1)));
  }
  CHECK(FloatToHalf(1e20f) == 0x7c00);
  CHECK(FloatToHalf(-std::numeric_limits<float>::infinity()) == 0xfc00);
}

TEST_CASE("bfloat16 rounds to nearest even") {
  for (int i = 0; i < 65536; ++i) {
    const float f = BFloat16ToFloat(uint16_t(i));
    if (std::isnan(f)) {
      REQUIRE(std::isnan(BFloat16ToFloat(FloatToBFloat16(f))));
    } else {
      REQUIRE(FloatToBFloat16(f) == i);
    }
  }
  CHECK(FloatToBFloat16(1.0f + 0x1p-8f) == 0x3f80);             // tie, to even
  CHECK(FloatToBFloat16(1.0f + 0x1p-8f + 0x1p-20f) == 0x3f81);  // above it
  CHECK(FloatToBFloat16(1.0f + 3 * 0x1p-8f) == 0x3f82);         // tie, to even
  CHECK(FloatToBFloat16(std::numeric_limits<float>::max()) == 0x7f80);
}

TEST_CASE("types print") {
  CHECK(Type(DType::kF32).ToString() == "f32");
  CHECK(Type(TypeKind::kSequence, DType::kI64).ToString() == "seq(i64)");
  CHECK(Type(TypeKind::kOptional, DType::kF16).ToString() == "opt(f16)");
  CHECK(Type(TypeKind::kOpaque, DType::kUnknown).ToString() == "opaque");
  CHECK_FALSE(Type().known());
}

}  // namespace
}  // namespace weft
