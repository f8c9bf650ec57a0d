/// alu_ops_test.cc: operations on words against C's arithmetic in wider types, and lanes against
/// single words.
#include "alu_ops.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace hsimd {
namespace {

float F(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}
uint32_t W(double v) {
  const auto f = float(v);
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  return std::isnan(f) ? 0x7fc00000U : bits;
}

/// Words that meet every corner: small and large integers, floats of every kind, any bits.
std::vector<uint32_t> Words(int n, uint32_t seed) {
  std::mt19937 random(seed);
  const uint32_t corners[] = {0,          1,          2,          31,         32,
                              33,         0x80000000, 0x7fffffff, 0xffffffff, 0x7fc00000,
                              0xffc00001, 0x7f800000, 0xff800000, 0x3f800000, 0xbf800000,
                              0x40200000, 0x40600000, 0x4f000000, 0xcf000000, 0x4effffff,
                              0x00000001, 0x807fffff, 0x7f7fffff, 0x34000000};
  std::vector<uint32_t> words;
  for (int i = 0; i < n; ++i) {
    const uint32_t r = random();
    if (i % 3 == 0)
      words.push_back(corners[r % std::size(corners)]);
    else if (i % 3 == 1)
      words.push_back(r);
    else
      words.push_back(W(std::ldexp(double(int32_t(r)), int(random() % 60) - 45)));
  }
  return words;
}

/// What the operation means, computed in double or int64.
uint32_t Expected(const std::string& op, uint32_t wa, uint32_t wb, uint32_t wc) {
  const double a = F(wa), b = F(wb), c = F(wc);
  const int64_t i = int32_t(wa), j = int32_t(wb), k = int32_t(wc);
  const auto low = [](int64_t v) { return uint32_t(uint64_t(v)); };
  if (op == "copy") return wa;
  if (op == "select") return wa ? wb : wc;
  // One rounding of a double is the f32 result for + - * / sqrt.
  if (op == "fadd") return W(a + b);
  if (op == "fsub") return W(a - b);
  if (op == "fmul") return W(a * b);
  if (op == "fdiv") return W(a / b);
  if (op == "fmod") return W(std::fmod(a, b));
  if (op == "fmin") return std::isnan(a) || std::isnan(b) ? 0x7fc00000U : b < a ? wb : wa;
  if (op == "fmax") return std::isnan(a) || std::isnan(b) ? 0x7fc00000U : b > a ? wb : wa;
  if (op == "fma") return W(std::fma(F(wa), F(wb), F(wc)));
  if (op == "fmul_add") return W(double(float(a * b)) + c);
  if (op == "fneg") return wa ^ 0x80000000U;
  if (op == "fabs") return wa & 0x7fffffffU;
  if (op == "ffloor") return W(std::floor(a));
  if (op == "fceil") return W(std::ceil(a));
  if (op == "fround")
    return W(a - std::remainder(a, 1.0) == 0 ? std::copysign(0.0, a)
             : std::isinf(a)                 ? a
                                             : a - std::remainder(a, 1.0));
  if (op == "ftrunc") return W(a < 0 ? std::ceil(a) : std::floor(a));
  if (op == "fsqrt") return W(std::sqrt(a));
  if (op == "fless") return a < b;
  if (op == "fless_equal") return a <= b;
  if (op == "fequal") return a == b;
  if (op == "fnot_equal") return a != b;
  if (op == "fis_nan") return std::isnan(a);
  if (op == "fis_inf") return std::isinf(a);
  if (op == "iadd") return low(i + j);
  if (op == "isub") return low(i - j);
  if (op == "imul") return low(int64_t(uint64_t(i) * uint64_t(j)));
  if (op == "imul_add") return low(int64_t(uint64_t(i) * uint64_t(j) + uint64_t(k)));
  if (op == "idiv") return j == 0 ? 0 : low(i / j);
  if (op == "imod") return j == 0 ? 0 : low(i % j);
  if (op == "ifloor_div") return j == 0 ? 0 : low(int64_t(std::floor(double(i) / double(j))));
  if (op == "ifloor_mod") return j == 0 ? 0 : low(((i % j) + j) % j);
  if (op == "imin") return low(std::min(i, j));
  if (op == "imax") return low(std::max(i, j));
  if (op == "ineg") return low(-i);
  if (op == "iabs") return low(std::abs(i));
  if (op == "ishl") return wb >= 32 ? 0 : low(int64_t(uint64_t(wa) << wb));
  if (op == "ishr") return wb >= 32 ? 0 : low(i >> wb);
  if (op == "ushr") return wb >= 32 ? 0 : uint32_t(uint64_t(wa) >> wb);
  if (op == "umul_high") return uint32_t(uint64_t(wa) * uint64_t(wb) >> 32);
  if (op == "iless") return i < j;
  if (op == "iless_equal") return i <= j;
  if (op == "iequal") return i == j;
  if (op == "inot_equal") return i != j;
  if (op == "uless") return wa < wb;
  if (op == "uless_equal") return wa <= wb;
  if (op == "and") return low(i & j);
  if (op == "or") return low(i | j);
  if (op == "xor") return low(i ^ j);
  if (op == "bit_not") return low(-1 - i);
  if (op == "not") return wa == 0;
  if (op == "f2i")
    return std::isnan(a)
               ? 0
               : low(int64_t(std::min(2147483647.0, std::max(-2147483648.0, std::trunc(a)))));
  if (op == "i2f") return W(double(i));
  if (op == "f2bool") return !(a == 0);
  if (op == "i2bool") return i != 0;
  FAIL("no meaning for ", op);
  return 0;
}

}  // namespace

TEST_CASE("alu: every operation means what C's wider arithmetic says") {
  const int n = 4000;
  const std::vector<uint32_t> a = Words(n, 1), b = Words(n + 1, 2), c = Words(n, 3);
  for (const AluOpInfo& info : AluOps()) {
    CAPTURE(info.name);
    for (int i = 0; i < n; ++i) {
      const uint32_t y = b[size_t(i + (i % 2))];
      const uint32_t got = ApplyAlu(info.op, a[size_t(i)], y, c[size_t(i)]);
      const uint32_t want = Expected(info.name, a[size_t(i)], y, c[size_t(i)]);
      if (got != want) FAIL(a[size_t(i)], " ", y, " ", c[size_t(i)], ": ", got, " not ", want);
    }
  }
}

TEST_CASE("alu: lanes are single words, also in place") {
  for (const AluOpInfo& info : AluOps()) {
    for (const int n : {0, 1, 3, 8, 64, 67}) {
      const std::vector<uint32_t> a = Words(n, 4), b = Words(n, 5), c = Words(n, 6);
      std::vector<uint32_t> dst(a.size() + 1, 77), in_place = a;
      LanesOf(info.op)(n, a.data(), info.arity > 1 ? b.data() : nullptr,
                       info.arity > 2 ? c.data() : nullptr, dst.data());
      LanesOf(info.op)(n, in_place.data(), b.data(), c.data(), in_place.data());
      for (size_t i = 0; i < a.size(); ++i) {
        const uint32_t want = ApplyAlu(info.op, a[i], b[i], c[i]);
        if (dst[i] != want || in_place[i] != want) FAIL(info.name, " lane ", i);
      }
      CHECK(dst.back() == 77);
    }
  }
}

TEST_CASE("alu: names") {
  for (const AluOpInfo& info : AluOps()) {
    CHECK(AluOpNamed(info.name) == info.op);
    CHECK(&InfoOf(info.op) == &info);
    CHECK((info.arity >= 1 && info.arity <= 3));
  }
  CHECK(!AluOpNamed("add"));
}

}  // namespace hsimd
