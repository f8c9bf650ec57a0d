/// alu_ops.cc: the table of operations, one word at a time and by lanes.
///
/// Every operation is one small functor; lanes are a loop over it, compiled twice on x86: for any
/// processor, and for those with AVX2 and FMA, where std::fma is one instruction instead of a call.
#include "alu_ops.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace hsimd {
namespace {

#define HSIMD_INLINE inline __attribute__((always_inline))

HSIMD_INLINE float F(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}
/// The word of a result; every NaN is the same one.
HSIMD_INLINE uint32_t W(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  return f == f ? bits : 0x7fc00000U;
}
HSIMD_INLINE int32_t I(uint32_t bits) { return int32_t(bits); }

HSIMD_INLINE uint32_t IDiv(int32_t a, int32_t b) {
  if (b == 0) return 0;
  return b == -1 ? 0U - uint32_t(a) : uint32_t(a / b);
}
HSIMD_INLINE int32_t IMod(int32_t a, int32_t b) { return b == 0 || b == -1 ? 0 : a % b; }
HSIMD_INLINE uint32_t IFloorDiv(int32_t a, int32_t b) {
  const int32_t r = IMod(a, b);
  return IDiv(a, b) - uint32_t(r != 0 && (r < 0) != (b < 0));
}
HSIMD_INLINE int32_t IFloorMod(int32_t a, int32_t b) {
  const int32_t r = IMod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
HSIMD_INLINE uint32_t ToInt(float a) {
  if (a != a) return 0;
  if (a >= 2147483648.0F) return uint32_t(std::numeric_limits<int32_t>::max());
  if (a < -2147483648.0F) return uint32_t(std::numeric_limits<int32_t>::min());
  return uint32_t(int32_t(a));
}

// clang-format off: a table
// name, enumerator, arity, value of a, b, c
#define HSIMD_ALU_OPS(X)                                                                \
  X(copy, kCopy, 1, a)                                                                  \
  X(select, kSelect, 3, a != 0 ? b : c)                                                 \
  X(fadd, kFAdd, 2, W(F(a) + F(b)))                                                     \
  X(fsub, kFSub, 2, W(F(a) - F(b)))                                                     \
  X(fmul, kFMul, 2, W(F(a) * F(b)))                                                     \
  X(fdiv, kFDiv, 2, W(F(a) / F(b)))                                                     \
  X(fmod, kFMod, 2, W(std::fmod(F(a), F(b))))                                           \
  X(fmin, kFMin, 2, W(F(a) != F(a) ? F(a) : F(b) != F(b) || F(b) < F(a) ? F(b) : F(a))) \
  X(fmax, kFMax, 2, W(F(a) != F(a) ? F(a) : F(b) != F(b) || F(b) > F(a) ? F(b) : F(a))) \
  X(fma, kFma, 3, W(std::fma(F(a), F(b), F(c))))                                        \
  X(fmul_add, kFMulAdd, 3, W(F(W(F(a) * F(b))) + F(c)))                                 \
  X(fneg, kFNeg, 1, a ^ 0x80000000U)                                                    \
  X(fabs, kFAbs, 1, a & 0x7fffffffU)                                                    \
  X(ffloor, kFFloor, 1, W(std::floor(F(a))))                                            \
  X(fceil, kFCeil, 1, W(std::ceil(F(a))))                                               \
  X(fround, kFRound, 1, W(std::nearbyint(F(a))))                                        \
  X(ftrunc, kFTrunc, 1, W(std::trunc(F(a))))                                            \
  X(fsqrt, kFSqrt, 1, W(std::sqrt(F(a))))                                               \
  X(fless, kFLess, 2, F(a) < F(b))                                                      \
  X(fless_equal, kFLessEqual, 2, F(a) <= F(b))                                          \
  X(fequal, kFEqual, 2, F(a) == F(b))                                                   \
  X(fnot_equal, kFNotEqual, 2, F(a) != F(b))                                            \
  X(fis_nan, kFIsNan, 1, F(a) != F(a))                                                  \
  X(fis_inf, kFIsInf, 1, (a & 0x7fffffffU) == 0x7f800000U)                              \
  X(iadd, kIAdd, 2, a + b)                                                              \
  X(isub, kISub, 2, a - b)                                                              \
  X(imul, kIMul, 2, a* b)                                                               \
  X(imul_add, kIMulAdd, 3, a* b + c)                                                    \
  X(idiv, kIDiv, 2, IDiv(I(a), I(b)))                                                   \
  X(imod, kIMod, 2, uint32_t(IMod(I(a), I(b))))                                         \
  X(ifloor_div, kIFloorDiv, 2, IFloorDiv(I(a), I(b)))                                   \
  X(ifloor_mod, kIFloorMod, 2, uint32_t(IFloorMod(I(a), I(b))))                         \
  X(imin, kIMin, 2, I(a) < I(b) ? a : b)                                                \
  X(imax, kIMax, 2, I(a) > I(b) ? a : b)                                                \
  X(ineg, kINeg, 1, 0U - a)                                                             \
  X(iabs, kIAbs, 1, I(a) < 0 ? 0U - a : a)                                              \
  X(ishl, kIShl, 2, b < 32 ? a << (b & 31) : 0)                                         \
  X(ishr, kIShr, 2, b < 32 ? uint32_t(I(a) >> (b & 31)) : 0)                            \
  X(ushr, kUShr, 2, b < 32 ? a >> (b & 31) : 0)                                         \
  X(umul_high, kUMulHigh, 2, uint32_t(uint64_t(a) * b >> 32))                           \
  X(iless, kILess, 2, I(a) < I(b))                                                      \
  X(iless_equal, kILessEqual, 2, I(a) <= I(b))                                          \
  X(iequal, kIEqual, 2, a == b)                                                         \
  X(inot_equal, kINotEqual, 2, a != b)                                                  \
  X(uless, kULess, 2, a < b)                                                            \
  X(uless_equal, kULessEqual, 2, a <= b)                                                \
  X(and, kAnd, 2, a& b)                                                                 \
  X(or, kOr, 2, a | b)                                                                  \
  X(xor, kXor, 2, a ^ b)                                                                \
  X(bit_not, kBitNot, 1, ~a)                                                            \
  X(not, kNot, 1, a == 0)                                                               \
  X(f2i, kF2I, 1, ToInt(F(a)))                                                          \
  X(i2f, kI2F, 1, W(float(I(a))))                                                       \
  X(f2bool, kF2Bool, 1, !(F(a) == 0))                                                   \
  X(i2bool, kI2Bool, 1, a != 0)

// clang-format on

struct Functions {
  uint32_t (*word)(uint32_t, uint32_t, uint32_t);
  AluLanes lanes;
};

#if defined(__x86_64__)
#define HSIMD_WIDE __attribute__((target("avx2,fma")))
const bool has_wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif

// Arrays are equal or disjoint, so iterations do not depend on each other.
#if defined(__clang__)
#define HSIMD_NO_DEPENDENCE _Pragma("clang loop vectorize(assume_safety)")
#else
#define HSIMD_NO_DEPENDENCE _Pragma("GCC ivdep")
#endif

template <int arity, class Value>
HSIMD_INLINE void Loop(int64_t n, const uint32_t* a, const uint32_t* b, const uint32_t* c,
                       uint32_t* dst, Value value) {
  HSIMD_NO_DEPENDENCE
  for (int64_t i = 0; i < n; ++i) dst[i] = value(a[i], arity > 1 ? b[i] : 0, arity > 2 ? c[i] : 0);
}

// The functor of an operation, its value for one word, and its lanes.
#define HSIMD_DEFINE(text, op, arity, expression)                                              \
  struct Value##op {                                                                           \
    HSIMD_INLINE uint32_t operator()([[maybe_unused]] uint32_t a, [[maybe_unused]] uint32_t b, \
                                     [[maybe_unused]] uint32_t c) const {                      \
      return uint32_t(expression);                                                             \
    }                                                                                          \
  };                                                                                           \
  uint32_t Word##op(uint32_t a, uint32_t b, uint32_t c) { return Value##op()(a, b, c); }       \
  void Lanes##op(int64_t n, const uint32_t* a, const uint32_t* b, const uint32_t* c,           \
                 uint32_t* dst) {                                                              \
    Loop<arity>(n, a, b, c, dst, Value##op());                                                 \
  }
HSIMD_ALU_OPS(HSIMD_DEFINE)
#undef HSIMD_DEFINE

#if defined(HSIMD_WIDE)
#define HSIMD_DEFINE(text, op, arity, expression)                                              \
  HSIMD_WIDE void Wide##op(int64_t n, const uint32_t* a, const uint32_t* b, const uint32_t* c, \
                           uint32_t* dst) {                                                    \
    Loop<arity>(n, a, b, c, dst, Value##op());                                                 \
  }
HSIMD_ALU_OPS(HSIMD_DEFINE)
#undef HSIMD_DEFINE
#define HSIMD_ROW(text, op, arity, expression) Functions{Word##op, has_wide ? Wide##op : Lanes##op},
#else
#define HSIMD_ROW(text, op, arity, expression) Functions{Word##op, Lanes##op},
#endif

const Functions& FunctionsOf(AluOp op) {
  static const Functions table[] = {HSIMD_ALU_OPS(HSIMD_ROW)};
  return table[size_t(op)];
}

}  // namespace

const std::vector<AluOpInfo>& AluOps() {
#define HSIMD_INFO(text, op, arity, expression) AluOpInfo{AluOp::op, #text, arity},
  static const std::vector<AluOpInfo> ops = {HSIMD_ALU_OPS(HSIMD_INFO)};
#undef HSIMD_INFO
  return ops;
}

std::optional<AluOp> AluOpNamed(std::string_view name) {
  for (const AluOpInfo& info : AluOps()) {
    if (name == info.name) return info.op;
  }
  return {};
}

const AluOpInfo& InfoOf(AluOp op) { return AluOps()[size_t(op)]; }

uint32_t ApplyAlu(AluOp op, uint32_t a, uint32_t b, uint32_t c) {
  return FunctionsOf(op).word(a, b, c);
}

AluLanes LanesOf(AluOp op) { return FunctionsOf(op).lanes; }

}  // namespace hsimd
