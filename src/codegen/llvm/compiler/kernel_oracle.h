/// kernel_oracle.h: evaluates a kernel point by point, without vectors, passes or code; the oracle
/// of the printer's tests.
#pragma once

#include <cstring>
#include <map>
#include <vector>

#include "codegen/expr/scalar.h"
#include "weft/codegen/kernel/kernel.h"
#include "weft/support/check.h"

namespace weft::llvmgen {

using Bytes = std::vector<unsigned char>;

inline int ElementBytes(DType t) { return t == DType::kBool ? 1 : DTypeBits(t) / 8; }

/// A value: floats in `f`, integers and bool (normalised) in `i`.
struct Scalar {
  double f = 0;
  int64_t i = 0;
};

inline Scalar ReadElement(DType t, const unsigned char* from) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, size_t(ElementBytes(t)));
  Scalar s;
  if (IsFloat(t))
    s.f = scalar::BitsToDouble(t, bits);
  else
    s.i = scalar::Normalize(t, int64_t(bits));
  return s;
}

inline void WriteElement(DType t, Scalar s, unsigned char* to) {
  const uint64_t bits = IsFloat(t) ? scalar::DoubleToBits(t, s.f) : uint64_t(s.i);
  std::memcpy(to, &bits, size_t(ElementBytes(t)));
}

class KernelOracle {
 public:
  KernelOracle(const Kernel& kernel, std::vector<Bytes> inputs, std::vector<int64_t> symbols)
      : k_(kernel), buffers_(std::move(inputs)) {
    for (size_t i = 0; i < symbols.size(); ++i)
      bindings_[KernelSymbol(int(i)).symbol_name()] = symbols[i];
    for (size_t b = buffers_.size(); b < k_.buffers.size(); ++b)
      buffers_.emplace_back(size_t(Evaluate(k_.buffers[b].num_elements, bindings_)) *
                            size_t(ElementBytes(k_.buffers[b].dtype)));
  }

  const std::vector<Bytes>& Run() {
    index_.assign(k_.dims.size(), 0);
    Loop(0);
    return buffers_;
  }

 private:
  int64_t Extent(SymInt e) { return Evaluate(e, bindings_); }

  void Loop(size_t k) {
    if (k_.has_rows() && int(k) == k_.num_outer) {
      rows_.clear();
      for (const KernelStore& s : k_.stores) {
        if (s.per_row) Store(s);
      }
    }
    if (k == k_.dims.size()) {
      for (const KernelStore& s : k_.stores) {
        if (!s.per_row) Store(s);
      }
      return;
    }
    const int64_t n = Extent(k_.dims[k]);
    for (index_[k] = 0; index_[k] < n; ++index_[k]) Loop(k + 1);
    index_[k] = 0;
  }

  void Store(const KernelStore& s) {
    if (s.flag && Eval(*s.value).i == 0) return;
    Bytes& b = buffers_[size_t(s.buffer)];
    const DType t = k_.buffers[size_t(s.buffer)].dtype;
    const size_t at = size_t(Eval(*s.offset).i) * size_t(ElementBytes(t));
    WEFT_ICHECK(at + size_t(ElementBytes(t)) <= b.size(), "store out of bounds");
    WriteElement(t, Eval(*s.value), &b[at]);
  }

  Scalar Reduce(const ExprNode& n) {
    const ReduceOp op = n.reduce_op();
    const DType t = n.operand(0)->dtype();
    const bool f = IsFloat(t), arg = op == ReduceOp::kArgMin || op == ReduceOp::kArgMax;
    const bool max = op == ReduceOp::kMax || op == ReduceOp::kArgMax;
    int64_t total = 1;
    std::vector<int64_t> extents;
    for (SymInt e : n.extents()) extents.push_back(Extent(e)), total *= extents.back();
    Scalar acc;
    if (op == ReduceOp::kProd) acc = {1, 1};
    if (op == ReduceOp::kAll) acc.i = 1;
    if (op == ReduceOp::kMin || op == ReduceOp::kMax)
      acc = {max ? -INFINITY : INFINITY, f ? 0 : max ? scalar::MinInt(t) : scalar::MaxInt(t)};
    Scalar best;
    int64_t position = 0;
    for (int64_t p = 0; p < total; ++p) {
      int64_t rest = p;
      for (size_t k = extents.size(); k-- > 0; rest /= extents[k])
        vars_[{n.level(), int(k)}] = rest % extents[k];
      const Scalar x = Eval(*n.operand(0));
      if (arg) {
        const bool better =
            f ? (std::isnan(x.f) ? !std::isnan(best.f)
                                 : scalar::FloatCompare(max ? BinOp::kGt : BinOp::kLt, x.f, best.f))
              : scalar::IntBinary(max ? BinOp::kGt : BinOp::kLt, t, x.i, best.i);
        if (p == 0 || better) best = x, position = p;
        continue;
      }
      const BinOp b = op == ReduceOp::kSum    ? BinOp::kAdd
                      : op == ReduceOp::kProd ? BinOp::kMul
                      : op == ReduceOp::kMin  ? BinOp::kMin
                      : op == ReduceOp::kMax  ? BinOp::kMax
                      : op == ReduceOp::kAny  ? BinOp::kOr
                                              : BinOp::kAnd;
      if (f)
        acc.f = scalar::FloatBinary(b, acc.f, x.f);
      else
        acc.i = scalar::IntBinary(b, t, acc.i, x.i);
    }
    if (arg) return {0, position};
    acc.f = scalar::RoundArith(t, acc.f);
    return acc;
  }

  /// No variable of an enclosing reduction occurs.
  static bool IsClosed(const ExprNode& n) {
    for (const ExprNode* x : PostOrder({n.operand(0)})) {
      if (x->kind() == ExprKind::kReduceVar && x->level() > n.level()) return false;
    }
    return true;
  }

  static uint32_t Philox(uint64_t seed, uint64_t counter) {
    uint32_t c[4] = {uint32_t(counter), uint32_t(counter >> 32), 0, 0},
             k[2] = {uint32_t(seed), uint32_t(seed >> 32)};
    for (int round = 0; round < 10; ++round) {
      const uint64_t p = uint64_t{0xD2511F53u} * c[0], q = uint64_t{0xCD9E8D57u} * c[2];
      const uint32_t next[4] = {uint32_t(q >> 32) ^ c[1] ^ k[0], uint32_t(q),
                                uint32_t(p >> 32) ^ c[3] ^ k[1], uint32_t(p)};
      std::memcpy(c, next, sizeof c);
      k[0] += 0x9E3779B9u;
      k[1] += 0xBB67AE85u;
    }
    return c[0];
  }

  Scalar Eval(const ExprNode& n) {
    const DType t = n.dtype();
    const auto arg = [&](int i) { return Eval(*n.operand(i)); };
    Scalar r;
    switch (n.kind()) {
      case ExprKind::kConst:
        if (IsFloat(t))
          r.f = scalar::BitsToDouble(t, n.bits());
        else
          r.i = scalar::Normalize(t, int64_t(n.bits()));
        return r;
      case ExprKind::kDim:
        r.i = Extent(n.dim());
        return r;
      case ExprKind::kIndex:
        r.i = index_[size_t(n.index())];
        return r;
      case ExprKind::kReduceVar:
        r.i = vars_.at({n.level(), n.index()});
        return r;
      case ExprKind::kLoad: {
        if (n.has_guard() && arg(1).i == 0) return r;
        const Bytes& b = buffers_[size_t(n.buffer())];
        const int64_t at = arg(0).i;
        WEFT_ICHECK(at >= 0 && size_t(at + 1) * size_t(ElementBytes(t)) <= b.size(),
                    "load out of bounds");
        return ReadElement(t, &b[size_t(at) * size_t(ElementBytes(t))]);
      }
      case ExprKind::kUnary: {
        const DType from = n.operand(0)->dtype();
        const Scalar a = arg(0);
        if (!IsFloat(from))
          r.i = scalar::IntUnary(n.un_op(), from, a.i);
        else if (t == DType::kBool)
          r.i = scalar::FloatUnary(n.un_op(), a.f) != 0;
        else
          r.f = scalar::RoundArith(t, scalar::FloatUnary(n.un_op(), a.f));
        return r;
      }
      case ExprKind::kBinary: {
        const DType from = n.operand(0)->dtype();
        const Scalar a = arg(0), b = arg(1);
        if (!IsFloat(from))
          r.i = scalar::IntBinary(n.bin_op(), from, a.i, b.i);
        else if (scalar::IsCompare(n.bin_op()))
          r.i = scalar::FloatCompare(n.bin_op(), a.f, b.f);
        else
          r.f = scalar::RoundArith(t, scalar::FloatBinary(n.bin_op(), a.f, b.f));
        return r;
      }
      case ExprKind::kSelect:
        return arg(0).i ? arg(1) : arg(2);
      case ExprKind::kCast: {
        const DType from = n.operand(0)->dtype();
        const Scalar a = arg(0);
        if (IsFloat(from) && IsFloat(t))
          r.f = scalar::RoundTo(t, a.f);
        else if (IsFloat(from))
          r.i = scalar::DoubleToInt(t, a.f);
        else if (IsFloat(t))
          r.f = scalar::IntToFloat(from, a.i, t);
        else
          r.i = scalar::Normalize(t, a.i);
        return r;
      }
      case ExprKind::kBitcast: {
        unsigned char bytes[8] = {};
        WriteElement(n.operand(0)->dtype(), arg(0), bytes);
        return ReadElement(t, bytes);
      }
      case ExprKind::kFma:
        r.f = t == DType::kF64
                  ? std::fma(arg(0).f, arg(1).f, arg(2).f)
                  : double(std::fma(float(arg(0).f), float(arg(1).f), float(arg(2).f)));
        return r;
      case ExprKind::kCall:
        r.f = scalar::RoundArith(
            t, scalar::FloatCall(n.call(), arg(0).f, n.operands().size() > 1 ? arg(1).f : 0));
        return r;
      case ExprKind::kReduce: {
        if (!k_.has_rows() || !IsClosed(n)) return Reduce(n);
        const auto it = rows_.find(&n);
        if (it != rows_.end()) return it->second;
        return rows_[&n] = Reduce(n);
      }
      case ExprKind::kPhilox:
        r.i = Philox(uint64_t(arg(0).i), uint64_t(arg(1).i));
        return r;
      case ExprKind::kVariable:
        break;
    }
    WEFT_ICHECK(false, "expression kind {}", int(n.kind()));
  }

  const Kernel& k_;
  std::vector<Bytes> buffers_;
  SymBindings bindings_;
  std::vector<int64_t> index_;
  std::map<std::pair<int, int>, int64_t> vars_;
  std::map<const ExprNode*, Scalar> rows_;  ///< reductions of the current row
};

}  // namespace weft::llvmgen
