/// low_bit_test.cc: codes of numbers of few bits against their definitions, worked out in double.
#include "weft/codegen/expr/low_bit.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "weft/core/tensor/tensor.h"

namespace weft {
namespace {

constexpr DType kLowBits[] = {
    DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ, DType::kF8E8M0,
    DType::kF4E2M1,   DType::kI4,         DType::kU4,     DType::kI2,         DType::kU2};

/// Constants fold, so an expression of constants is its value.
double ValueOfCode(DType t, int code) {
  return LowBitValue(t, Expr::ConstInt(DType::kU8, code))->const_value();
}
int64_t CodeOfValue(DType t, double v) {
  const DType type = ValueTypeOf(t);
  return LowBitCode(t,
                    type == DType::kF32 ? Expr::Const(type, v) : Expr::ConstInt(type, int64_t(v)))
      ->const_int();
}
bool Same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

}  // namespace

TEST_CASE("every code of few bits stands for the number that its format says") {
  for (const DType t : kLowBits) {
    for (int code = 0; code < 1 << DTypeBits(t); ++code) {
      CAPTURE(DTypeName(t));
      CAPTURE(code);
      Tensor one(t, {1});
      one.mutable_data_as<uint8_t>()[0] = uint8_t(code);
      CHECK(Same(ValueOfCode(t, code), one.at(0)));
    }
  }
}

TEST_CASE("every number of few bits has the code that it comes from") {
  for (const DType t : kLowBits) {
    for (int code = 0; code < 1 << DTypeBits(t); ++code) {
      const double v = ValueOfCode(t, code);
      if (std::isnan(v)) {
        CHECK(std::isnan(ValueOfCode(t, int(CodeOfValue(t, v)))));
        continue;
      }
      CAPTURE(DTypeName(t));
      CAPTURE(v);
      CHECK(CodeOfValue(t, v) == code);
    }
  }
}

TEST_CASE("between two numbers of few bits the nearer one is taken, of two the even code") {
  for (const DType t :
       {DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2, DType::kF8E5M2FNUZ, DType::kF4E2M1}) {
    for (int code = 0;; ++code) {
      const double below = ValueOfCode(t, code), above = ValueOfCode(t, code + 1);
      if (!std::isfinite(above) || above < below) break;
      const double middle = (below + above) / 2;
      CAPTURE(DTypeName(t));
      CAPTURE(middle);
      CHECK(CodeOfValue(t, middle) == code + code % 2);
      CHECK(CodeOfValue(t, std::nextafter(float(middle), 0.0f)) == code);
      CHECK(CodeOfValue(t, std::nextafter(float(middle), 1e9f)) == code + 1);
    }
  }
}

TEST_CASE("beyond the largest number of few bits is what the format has there") {
  CHECK(std::isinf(ValueOfCode(DType::kF8E5M2, int(CodeOfValue(DType::kF8E5M2, 61440)))));
  CHECK(ValueOfCode(DType::kF8E5M2, int(CodeOfValue(DType::kF8E5M2, 61439))) == 57344);
  CHECK(ValueOfCode(DType::kF8E5M2, int(CodeOfValue(DType::kF8E5M2, -HUGE_VAL))) == -HUGE_VAL);
  CHECK(ValueOfCode(DType::kF8E4M3FN, int(CodeOfValue(DType::kF8E4M3FN, 464))) == 448);
  CHECK(std::isnan(ValueOfCode(DType::kF8E4M3FN, int(CodeOfValue(DType::kF8E4M3FN, 465)))));
  CHECK(CodeOfValue(DType::kF8E4M3FNUZ, -1e9) == 0x80);
  CHECK(CodeOfValue(DType::kF8E4M3FNUZ, -0.0) == 0);
  CHECK(CodeOfValue(DType::kF8E5M2FNUZ, -1e-9) == 0);
  CHECK(ValueOfCode(DType::kF4E2M1, int(CodeOfValue(DType::kF4E2M1, -100))) == -6);
  CHECK(CodeOfValue(DType::kI4, -9) == 7);
  CHECK(CodeOfValue(DType::kF8E8M0, -1) == 255);
  CHECK(CodeOfValue(DType::kF8E8M0, 0) == 255);
}

}  // namespace weft
