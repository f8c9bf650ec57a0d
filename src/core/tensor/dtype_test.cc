/// dtype_test.cc: the table of dtypes, checked against what values of them are; the conversions of
/// narrow floats, checked against arithmetic in double.
#include "weft/core/tensor/dtype.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "weft/core/tensor/tensor.h"
#include "weft/core/tensor/visit_element.h"
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

std::vector<DType> ComputableTypes() {
  std::vector<DType> found;
  for (int i = 0; i < kNumDTypes; ++i)
    if (IsComputable(DType(i))) found.push_back(DType(i));
  return found;
}

TEST_CASE("floats are converted by dtype as by name") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float half = HalfToFloat(uint16_t(bits)), bf16 = BFloat16ToFloat(uint16_t(bits));
    if (std::isnan(half) || std::isnan(bf16)) continue;
    REQUIRE(WidenFloat(DType::kF16, bits) == half);
    REQUIRE(WidenFloat(DType::kBF16, bits) == bf16);
    REQUIRE(NarrowFloat(DType::kF16, half) == bits);
    REQUIRE(NarrowFloat(DType::kBF16, bf16) == bits);
  }
  CHECK(NarrowFloat(DType::kF32, 1) == 0x3f800000);
  CHECK(WidenFloat(DType::kF32, 0x3f800000) == 1);
  CHECK_THROWS_AS(WidenFloat(DType::kF64, 0), InternalError);
  CHECK_THROWS_AS(NarrowFloat(DType::kI32, 0), InternalError);
}

TEST_CASE("limits of floats") {
  const auto check = [](DType t, FloatLimits want) {
    INFO(DTypeName(t));
    const FloatLimits got = LimitsOf(t);
    CHECK(got.greatest == want.greatest);
    CHECK(got.least_normal == want.least_normal);
    CHECK(got.least == want.least);
    CHECK(got.roundoff == want.roundoff);
  };
  using F = std::numeric_limits<float>;
  using D = std::numeric_limits<double>;
  check(DType::kF32, {F::max(), F::min(), F::denorm_min(), F::epsilon() / 2.});
  check(DType::kF64, {D::max(), D::min(), D::denorm_min(), D::epsilon() / 2});
  check(DType::kF16, {65504, 0x1p-14, 0x1p-24, 0x1p-11});
  check(DType::kBF16, {0x1.fep127, 0x1p-126, 0x1p-133, 0x1p-8});
  check(DType::kF8E4M3FN, {448, 0x1p-6, 0x1p-9, 0x1p-4});
  check(DType::kF8E4M3FNUZ, {240, 0x1p-7, 0x1p-10, 0x1p-4});
  check(DType::kF8E5M2, {57344, 0x1p-14, 0x1p-16, 0x1p-3});
  check(DType::kF8E5M2FNUZ, {57344, 0x1p-15, 0x1p-17, 0x1p-3});
  check(DType::kF4E2M1, {6, 1, 0.5, 0.25});
  check(DType::kI32, {});
}

TEST_CASE("a cast is lossless where every value comes back") {
  // Of wider types a few: extremes, and what lies beside powers of two.
  const auto values_of = [](DType t) {
    auto v = std::make_shared<Tensor>(t, std::vector<int64_t>{1 << 16});
    if (DTypeBits(t) <= 16) {
      const bool bytes = DTypeBits(t) == 8;
      for (int i = 0; i < 1 << 16; ++i)
        bytes ? void(v->mutable_data_as<uint8_t>()[i] = uint8_t(t == DType::kBool ? i & 1 : i))
              : void(v->mutable_data_as<uint16_t>()[i] = uint16_t(i));
      return v;
    }
    int64_t at = 0;
    for (int k = 0; k < 64; ++k) {
      for (const int64_t beside : {-1, 0, 1}) {
        const auto bits = int64_t((uint64_t{1} << k) + uint64_t(beside));
        if (IsFloat(t)) {
          v->set(at++, std::ldexp(1, k * 4 - 128));
          v->set(at++, double(bits));
        } else {
          v->set_int(at++, bits);
          v->set_int(at++, -bits);
        }
      }
    }
    if (IsFloat(t)) v->set(at++, LimitsOf(t).greatest), v->set(at++, LimitsOf(t).least);
    return v;
  };
  for (const DType from : ComputableTypes()) {
    const auto values = values_of(from);
    for (const DType to : ComputableTypes()) {
      Tensor there(to, {1}), back(from, {1});
      bool same = true;
      for (int64_t i = 0; same && i < values->num_elements(); ++i) {
        if (IsFloat(from))
          there.set(0, values->at(i)), back.set(0, there.at(0));
        else
          there.set_int(0, values->at_int(i)), back.set_int(0, there.at_int(0));
        // Sign, size and order tell integers apart that share their bits.
        same = IsFloat(from) ? back.at(0) == values->at(i) || std::isnan(values->at(i))
                             : back.at_int(0) == values->at_int(i) && there.at(0) == values->at(i);
        same = same && !(std::isnan(values->at(i)) && !IsFloat(to));
      }
      INFO(DTypeName(from), " to ", DTypeName(to));
      CHECK(CastIsLossless(from, to) == same);
    }
  }
  CHECK(CastIsLossless(DType::kString, DType::kString));
  CHECK_FALSE(CastIsLossless(DType::kI4, DType::kI8));
  CHECK_FALSE(CastIsLossless(DType::kBool, DType::kF8E5M2));
}

TEST_CASE("ONNX numbers every dtype, and none twice") {
  for (int i = 1; i < kNumDTypes; ++i) CHECK(DTypeOfOnnx(TraitsOf(DType(i)).onnx) == DType(i));
  for (const int64_t code : {int64_t{0}, int64_t{-1}, int64_t{27}, int64_t{1} << 32 | 1})
    CHECK_FALSE(DTypeOfOnnx(code).has_value());
}

TEST_CASE("elements that are computed with are as wide as their dtype") {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto bits = [&] {
      return VisitElement(DType(i),
                          [](auto e) { return int(8 * sizeof(typename decltype(e)::Storage)); });
    };
    if (IsComputable(DType(i)))
      CHECK(bits() == DTypeBits(DType(i)));
    else
      CHECK_THROWS_AS(bits(), InternalError);
  }
}

TEST_CASE("types print") {
  CHECK(Type(DType::kF32).ToString() == "f32");
  CHECK(Type(TypeKind::kSequence, DType::kI64).ToString() == "seq(i64)");
  CHECK(Type(TypeKind::kOptional, DType::kF16).ToString() == "opt(f16)");
  CHECK(Type(TypeKind::kOpaque, DType::kUnknown).ToString() == "opaque");
  const Type map(TypeKind::kMap, DType::kF32, DType::kString);
  CHECK(map.ToString() == "map(str, f32)");
  for (const Type t : {map, Type(TypeKind::kMapSequence, DType::kF64, DType::kI64)})
    CHECK(ParseType(t.ToString()) == t);
  CHECK(ParseType("seq(map(i64, f32))").element() ==
        Type(TypeKind::kMap, DType::kF32, DType::kI64));
  for (const char* no : {"map(f32, f32)", "map(str)", "seq(map(str, f32)", "map(str, f32", "map()"})
    CHECK_FALSE(ParseType(no).known());
  CHECK_FALSE(Type().known());
}

}  // namespace
}  // namespace weft
