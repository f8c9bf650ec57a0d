/// math_eval.h: a second evaluator of scalar expressions, for the tests of the math functions only.
///
/// It shares nothing with the interpreter and the printers: the DAG is flattened to a linear
/// program once and run over blocks of 1024 arguments, one loop an operation on arrays of the
/// operation's own type. IEEE arithmetic as the compiler gives it, std::fma for Fma, one rounding
/// an operation. Variables x and y are the arguments.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "weft/codegen/expr/expr.h"

#if defined(__x86_64__) && defined(__GNUC__)
// The loops are compiled for the machine at hand so that std::fma is one instruction; no expression
// below holds both a product and a sum, so nothing can be contracted.
#define WEFT_EVAL_FMA __attribute__((target("avx2,fma")))
#endif

namespace weft::math_eval {

inline constexpr int kBlock = 1024;

class Program {
 public:
  explicit Program(const Expr& e) : root_(e) {
    std::unordered_map<const ExprNode*, int> slot;
    for (const ExprNode* n : PostOrder({e})) {
      Step s;
      s.node = n;
      for (const Expr& o : n->operands()) s.in.push_back(slot.at(o.get()));
      slot[n] = int(steps_.size());
      steps_.push_back(std::move(s));
      const bool free = n->kind() == ExprKind::kConst || n->kind() == ExprKind::kVariable ||
                        n->kind() == ExprKind::kBitcast;
      operations_ += free ? 0 : 1;
    }
    memory_.resize(steps_.size() * kBlock);
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].node->kind() == ExprKind::kConst) FillConstant(int(i));
    }
  }
  /// Operations a target executes: all nodes but constants, arguments and bitcasts.
  int operations() const { return operations_; }

  /// out[i] = e(x[i], y[i]) for kBlock values of type T; y may be null.
  template <class T>
  void Run(const T* x, const T* y, T* out) {
    for (size_t i = 0; i < steps_.size(); ++i) {
      const ExprNode& n = *steps_[i].node;
      if (n.kind() == ExprKind::kVariable)
        std::memcpy(At<T>(int(i)), n.name() == "x" ? x : y, sizeof(T) * kBlock);
      else if (n.kind() != ExprKind::kConst)
        Execute(int(i));
    }
    std::memcpy(out, At<T>(int(steps_.size()) - 1), sizeof(T) * kBlock);
  }

 private:
  struct Step {
    const ExprNode* node;
    std::vector<int> in;
  };

  template <class T>
  T* At(int slot) {
    return reinterpret_cast<T*>(&memory_[size_t(slot) * kBlock]);
  }

  template <class T>
  void Fill(int slot) {
    T v;
    const uint64_t bits = steps_[size_t(slot)].node->bits();
    std::memcpy(&v, &bits, sizeof v);  // little-endian
    for (int i = 0; i < kBlock; ++i) At<T>(slot)[i] = v;
  }
  void FillConstant(int slot) {
    switch (DTypeBits(steps_[size_t(slot)].node->dtype())) {
      case 32:
        return Fill<uint32_t>(slot);
      case 64:
        return Fill<uint64_t>(slot);
      default:
        return Fill<uint8_t>(slot);
    }
  }
  [[noreturn]] static void Unsupported(const ExprNode& n) {
    throw std::runtime_error("math_eval: unsupported node " + n.CodeGen());
  }

  template <class R, class A, class F>
  static void Map1(R* __restrict r, const A* __restrict a, F f) {
    for (int i = 0; i < kBlock; ++i) r[i] = f(a[i]);
  }
  template <class R, class A, class F>
  static void Map2(R* __restrict r, const A* a, const A* b, F f) {
    for (int i = 0; i < kBlock; ++i) r[i] = f(a[i], b[i]);
  }
  static void FmaLoop(float* __restrict r, const float* a, const float* b, const float* c);
  static void FmaLoop(double* __restrict r, const double* a, const double* b, const double* c);

  template <class T>
  void FloatBinary(int slot, BinOp op, const T* a, const T* b) {
    T* r = At<T>(slot);
    auto* p = At<uint8_t>(slot);
    switch (op) {
      case BinOp::kAdd:
        return Map2(r, a, b, [](T x, T y) { return x + y; });
      case BinOp::kSub:
        return Map2(r, a, b, [](T x, T y) { return x - y; });
      case BinOp::kMul:
        return Map2(r, a, b, [](T x, T y) { return x * y; });
      case BinOp::kDiv:
        return Map2(r, a, b, [](T x, T y) { return x / y; });
      case BinOp::kLt:
        return Map2(p, a, b, [](T x, T y) { return uint8_t(x < y); });
      case BinOp::kLe:
        return Map2(p, a, b, [](T x, T y) { return uint8_t(x <= y); });
      case BinOp::kGt:
        return Map2(p, a, b, [](T x, T y) { return uint8_t(x > y); });
      case BinOp::kGe:
        return Map2(p, a, b, [](T x, T y) { return uint8_t(x >= y); });
      case BinOp::kEq:
        return Map2(p, a, b, [](T x, T y) { return uint8_t(x == y); });
      case BinOp::kNe:
        return Map2(p, a, b, [](T x, T y) { return uint8_t(x != y); });
      default:
        Unsupported(*steps_[size_t(slot)].node);
    }
  }
  /// T is signed, U the unsigned type of its width, in which wrapping is defined.
  template <class T, class U>
  void IntBinary(int slot, BinOp op, const T* a, const T* b) {
    T* r = At<T>(slot);
    auto* p = At<uint8_t>(slot);
    constexpr int kBits = sizeof(T) * 8;
    switch (op) {
      case BinOp::kAdd:
        return Map2(r, a, b, [](T x, T y) { return T(U(x) + U(y)); });
      case BinOp::kSub:
        return Map2(r, a, b, [](T x, T y) { return T(U(x) - U(y)); });
      case BinOp::kMul:
        return Map2(r, a, b, [](T x, T y) { return T(U(x) * U(y)); });
      case BinOp::kAnd:
        return Map2(r, a, b, [](T x, T y) { return T(x & y); });
      case BinOp::kOr:
        return Map2(r, a, b, [](T x, T y) { return T(x | y); });
      case BinOp::kXor:
        return Map2(r, a, b, [](T x, T y) { return T(x ^ y); });
      case BinOp::kShl:
        return Map2(r, a, b, [](T x, T y) { return y < kBits ? T(U(x) << y) : T(0); });
      case BinOp::kShr:
        return Map2(r, a, b, [](T x, T y) { return y < kBits ? T(x >> y) : T(0); });
      case BinOp::kEq:
        return Map2(p, a, b, [](T x, T y) { return uint8_t(x == y); });
      case BinOp::kNe:
        return Map2(p, a, b, [](T x, T y) { return uint8_t(x != y); });
      default:
        Unsupported(*steps_[size_t(slot)].node);
    }
  }
  void BoolBinary(int slot, BinOp op, const uint8_t* a, const uint8_t* b) {
    auto* r = At<uint8_t>(slot);
    if (op == BinOp::kAnd)
      return Map2(r, a, b, [](uint8_t x, uint8_t y) { return uint8_t(x & y); });
    if (op == BinOp::kOr) return Map2(r, a, b, [](uint8_t x, uint8_t y) { return uint8_t(x | y); });
    Unsupported(*steps_[size_t(slot)].node);
  }
  template <class T>
  void FloatUnary(int slot, UnOp op, const T* a) {
    T* r = At<T>(slot);
    switch (op) {
      case UnOp::kNeg:
        return Map1(r, a, [](T x) { return -x; });
      case UnOp::kAbs:
        return Map1(r, a, [](T x) { return std::fabs(x); });
      case UnOp::kSqrt:
        return Map1(r, a, [](T x) { return std::sqrt(x); });
      case UnOp::kFloor:
        return Map1(r, a, [](T x) { return std::floor(x); });
      default:
        Unsupported(*steps_[size_t(slot)].node);
    }
  }
  template <class T>
  void SelectLoop(int slot, const std::vector<int>& in) {
    T* __restrict r = At<T>(slot);
    const uint8_t* c = At<uint8_t>(in[0]);
    const T *a = At<T>(in[1]), *b = At<T>(in[2]);
    for (int i = 0; i < kBlock; ++i) r[i] = c[i] ? a[i] : b[i];
  }

  void Execute(int slot) {
    const ExprNode& n = *steps_[size_t(slot)].node;
    const std::vector<int>& in = steps_[size_t(slot)].in;
    const DType from = n.operands().empty() ? DType::kUnknown : n.operand(0)->dtype();
    switch (n.kind()) {
      case ExprKind::kBinary:
        if (from == DType::kF32)
          return FloatBinary(slot, n.bin_op(), At<float>(in[0]), At<float>(in[1]));
        if (from == DType::kF64)
          return FloatBinary(slot, n.bin_op(), At<double>(in[0]), At<double>(in[1]));
        if (from == DType::kI32)
          return IntBinary<int32_t, uint32_t>(slot, n.bin_op(), At<int32_t>(in[0]),
                                              At<int32_t>(in[1]));
        if (from == DType::kI64)
          return IntBinary<int64_t, uint64_t>(slot, n.bin_op(), At<int64_t>(in[0]),
                                              At<int64_t>(in[1]));
        if (from == DType::kU64)
          return IntBinary<uint64_t, uint64_t>(slot, n.bin_op(), At<uint64_t>(in[0]),
                                               At<uint64_t>(in[1]));
        if (from == DType::kBool)
          return BoolBinary(slot, n.bin_op(), At<uint8_t>(in[0]), At<uint8_t>(in[1]));
        break;
      case ExprKind::kUnary:
        if (from == DType::kF32) return FloatUnary(slot, n.un_op(), At<float>(in[0]));
        if (from == DType::kF64) return FloatUnary(slot, n.un_op(), At<double>(in[0]));
        if (n.un_op() == UnOp::kUnlikely)
          return Map1(At<uint8_t>(slot), At<uint8_t>(in[0]), [](uint8_t x) { return x; });
        if (from == DType::kBool && n.un_op() == UnOp::kNot)
          return Map1(At<uint8_t>(slot), At<uint8_t>(in[0]),
                      [](uint8_t x) { return uint8_t(x ^ 1); });
        break;
      case ExprKind::kSelect:
        switch (DTypeBits(n.dtype())) {
          case 32:
            return SelectLoop<uint32_t>(slot, in);
          case 64:
            return SelectLoop<uint64_t>(slot, in);
          default:
            return SelectLoop<uint8_t>(slot, in);
        }
      case ExprKind::kFma:
        if (n.dtype() == DType::kF32)
          return FmaLoop(At<float>(slot), At<float>(in[0]), At<float>(in[1]), At<float>(in[2]));
        return FmaLoop(At<double>(slot), At<double>(in[0]), At<double>(in[1]), At<double>(in[2]));
      case ExprKind::kBitcast:
        std::memcpy(At<char>(slot), At<char>(in[0]), size_t(DTypeBits(n.dtype()) / 8) * kBlock);
        return;
      case ExprKind::kCast:
        if (from == DType::kF32 && n.dtype() == DType::kF64)
          return Map1(At<double>(slot), At<float>(in[0]), [](float x) { return double(x); });
        if (from == DType::kF64 && n.dtype() == DType::kF32)
          return Map1(At<float>(slot), At<double>(in[0]), [](double x) { return float(x); });
        if (from == DType::kI32 && n.dtype() == DType::kF32)
          return Map1(At<float>(slot), At<int32_t>(in[0]), [](int32_t x) { return float(x); });
        if (from == DType::kI32 && n.dtype() == DType::kF64)
          return Map1(At<double>(slot), At<int32_t>(in[0]), [](int32_t x) { return double(x); });
        if (from == DType::kI64 && n.dtype() == DType::kF64)
          return Map1(At<double>(slot), At<int64_t>(in[0]), [](int64_t x) { return double(x); });
        if (from == DType::kI64 && n.dtype() == DType::kI32)
          return Map1(At<int32_t>(slot), At<int64_t>(in[0]), [](int64_t x) { return int32_t(x); });
        break;
      default:
        break;
    }
    Unsupported(n);
  }

  Expr root_;  // keeps the nodes alive
  std::vector<Step> steps_;
  std::vector<uint64_t> memory_;
  int operations_ = 0;
};

#ifdef WEFT_EVAL_FMA
template <class T>
WEFT_EVAL_FMA void HardwareFma(T* __restrict r, const T* a, const T* b, const T* c) {
  for (int i = 0; i < kBlock; ++i) r[i] = std::fma(a[i], b[i], c[i]);
}
#endif
template <class T>
void AnyFma(T* __restrict r, const T* a, const T* b, const T* c) {
#ifdef WEFT_EVAL_FMA
  static const bool hardware = __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
  if (hardware) return HardwareFma(r, a, b, c);
#endif
  for (int i = 0; i < kBlock; ++i) r[i] = std::fma(a[i], b[i], c[i]);
}
inline void Program::FmaLoop(float* __restrict r, const float* a, const float* b, const float* c) {
  AnyFma(r, a, b, c);
}
inline void Program::FmaLoop(double* __restrict r, const double* a, const double* b,
                             const double* c) {
  AnyFma(r, a, b, c);
}

// ---- references

/// The function in the precision of T: double for f32, long double for f64.
template <class T>
T Reference(CallOp op, T x, T y) {
  switch (op) {
    case CallOp::kExp:
      return std::exp(x);
    case CallOp::kLog:
      return std::log(x);
    case CallOp::kSin:
      return std::sin(x);
    case CallOp::kCos:
      return std::cos(x);
    case CallOp::kTan:
      return std::tan(x);
    case CallOp::kAsin:
      return std::asin(x);
    case CallOp::kAcos:
      return std::acos(x);
    case CallOp::kAtan:
      return std::atan(x);
    case CallOp::kSinh:
      return std::sinh(x);
    case CallOp::kCosh:
      return std::cosh(x);
    case CallOp::kTanh:
      return std::tanh(x);
    case CallOp::kAsinh:
      return std::asinh(x);
    case CallOp::kAcosh:
      return std::acosh(x);
    case CallOp::kAtanh:
      return std::atanh(x);
    case CallOp::kErf:
      return std::erf(x);
    case CallOp::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case CallOp::kRsqrt:
      return 1 / std::sqrt(x);
    case CallOp::kExpm1:
      return std::expm1(x);
    case CallOp::kLog1p:
      return std::log1p(x);
    case CallOp::kPow:
      return std::pow(x, y);
  }
  return 0;
}

/// |got - exact| in ulps of T at `exact`; 0 for two NaNs or equal infinities, infinite for a wrong
/// special value or sign. Beyond the largest finite value the grid goes on, so that infinity is
/// right exactly where rounding says so. With `flush` a result whose exact value is below the
/// smallest normal may be anything of at most that size.
template <class T, class W>
double UlpError(T got, W exact, bool flush) {
  constexpr int kDigits = std::is_same_v<T, float> ? 24 : 53;
  constexpr int kMinExponent = std::is_same_v<T, float> ? -126 : -1022;
  constexpr int kMaxExponent = std::is_same_v<T, float> ? 128 : 1024;
  if (std::isnan(exact) || std::isnan(got))
    return std::isnan(exact) && std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(exact)) return got == T(exact) ? 0 : INFINITY;
  if (exact == 0 && got == 0) return std::signbit(exact) == std::signbit(got) ? 0 : INFINITY;
  if (flush && std::fabs(exact) < std::ldexp(W(1), kMinExponent) &&
      std::fabs(got) <= std::ldexp(T(1), kMinExponent))
    return 0;
  if (std::signbit(exact) != std::signbit(got)) return INFINITY;
  const W beyond = std::ldexp(W(1), kMaxExponent);
  if (std::isinf(got) && std::fabs(exact) >= beyond) return 0;
  const W value = std::isinf(got) ? std::copysign(beyond, exact) : W(got);
  const int e = std::min(std::max(std::ilogb(exact), kMinExponent), kMaxExponent - 1);
  return double(std::fabs(value - exact) / std::ldexp(W(1), e - kDigits + 1));
}

/// Functions whose stated range leaves subnormal results out.
inline bool Flushes(CallOp op, bool f32) {
  return op == CallOp::kExp || op == CallOp::kSigmoid || (op == CallOp::kPow && !f32);
}

}  // namespace weft::math_eval
