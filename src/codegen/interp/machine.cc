/// machine.cc: executes compiled blocks.
#include <algorithm>

#include "codegen/expr/scalar.h"
#include "interp.h"
#include "weft/core/tensor/visit_element.h"
#include "weft/support/check.h"

namespace weft::interp {
namespace {

/// d[i] = f(a[i], b[i]) where each operand may be one value for all lanes.
template <class R, class A, class F>
void Map2(R* d, const A* a, bool ua, const A* b, bool ub, int n, F f) {
  if (ub) {
    const A y = b[0];
    if (ua)
      std::fill(d, d + n, R(f(a[0], y)));
    else
      for (int i = 0; i < n; ++i) d[i] = f(a[i], y);
  } else if (ua) {
    const A x = a[0];
    for (int i = 0; i < n; ++i) d[i] = f(x, b[i]);
  } else {
    for (int i = 0; i < n; ++i) d[i] = f(a[i], b[i]);
  }
}

/// The same with the result rounded to f32 where `single`.
template <class F>
void Round2(bool single, double* d, const double* a, bool ua, const double* b, bool ub, int n,
            F f) {
  if (single)
    Map2(d, a, ua, b, ub, n, [f](double x, double y) { return double(float(f(x, y))); });
  else
    Map2(d, a, ua, b, ub, n, f);
}

/// Elements base, base + step ... as `To`: doubles of floats, int64_t of others.
template <class To>
void ReadElements(const Source& s, int64_t base, int64_t step, To* d, int n) {
  const auto copy = [&](auto element) {
    using E = decltype(element);
    const auto* p = static_cast<const typename E::Storage*>(s.data) + base;
    if (step == 1)
      for (int i = 0; i < n; ++i) d[i] = To(E::Load(p[i]));
    else
      for (int i = 0; i < n; ++i) d[i] = To(E::Load(p[i * step]));
  };
  if (s.raw)
    copy(PlainElement<To>());
  else
    VisitElement(s.dtype, copy);
}

[[noreturn]] void ThrowRange(int64_t index, int dim, const Source& s) {
  WEFT_THROW(kIndexRange, "index {} is out of range for size {} of dimension {}", index,
             s.dims[size_t(dim)], dim);
}

/// First word of Philox4x32-10 (Salmon et al., SC'11) with counter (lo, hi, 0, 0).
uint32_t Philox(uint64_t seed, uint64_t counter) {
  uint32_t c0 = uint32_t(counter), c1 = uint32_t(counter >> 32), c2 = 0, c3 = 0;
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0, p1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = uint32_t(p1 >> 32) ^ c1 ^ k0;
    c1 = uint32_t(p1);
    c2 = uint32_t(p0 >> 32) ^ c3 ^ k1;
    c3 = uint32_t(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c0;
}

}  // namespace

namespace {

/// Positions base, base + step ... of n lanes: else the last ones wrap, and are no line.
bool StaysIn64Bits(int64_t base, int64_t step, int n) {
  int64_t last;
  return !__builtin_mul_overflow(step, int64_t(n - 1), &last) &&
         !__builtin_add_overflow(base, last, &last);
}

}  // namespace

Machine::Machine(const Plan& plan, const std::vector<Source>& sources,
                 const std::vector<int64_t>& extents, InterpretMode mode)
    : sources_(sources),
      typed_(mode == InterpretMode::kTyped),
      positions_(extents.size()),
      registers_(size_t(plan.num_registers) * kLanes) {}

int64_t Machine::At(const Affine& a) {
  // Modulo 2^64, which is what the expression behind it is.
  auto v = uint64_t(a.constant);
  for (const auto& [loop, c] : a.loops) v += uint64_t(c) * uint64_t(positions_[size_t(loop)]);
  for (const auto& [reg, c] : a.registers) v += uint64_t(c) * uint64_t(I(reg)[0]);
  return int64_t(v);
}

void Machine::Run(const std::vector<Instr>& code, int lanes) {
  for (const Instr& in : code) Step(in, in.uniform ? 1 : lanes);
}

void Machine::Step(const Instr& in, int n) {
  switch (in.kind) {
    case ExprKind::kConst:
      if (IsFloat(in.dtype))
        D(in.dst)[0] = in.value;
      else
        I(in.dst)[0] = in.bits;
      break;
    case ExprKind::kIndex: {
      int64_t* d = I(in.dst);
      const int64_t first = positions_[size_t(in.source)];
      for (int i = 0; i < n; ++i) d[i] = first + i;
      break;
    }
    case ExprKind::kLoad:
      Load(in, n);
      break;
    case ExprKind::kUnary:
      Unary(in, n);
      break;
    case ExprKind::kBinary:
      Binary(in, n);
      break;
    case ExprKind::kCast:
    case ExprKind::kBitcast:
      Convert(in, n);
      break;
    case ExprKind::kSelect: {
      const int64_t* c = I(in.in[0]);
      // Bits move alike for doubles and integers.
      int64_t* d = I(in.dst);
      const int64_t *a = I(in.in[1]), *b = I(in.in[2]);
      const int sc = !in.in_uniform[0], sa = !in.in_uniform[1], sb = !in.in_uniform[2];
      for (int i = 0; i < n; ++i) d[i] = c[i * sc] ? a[i * sa] : b[i * sb];
      break;
    }
    case ExprKind::kFma: {
      double* d = D(in.dst);
      const double *a = D(in.in[0]), *b = D(in.in[1]), *c = D(in.in[2]);
      const int sa = !in.in_uniform[0], sb = !in.in_uniform[1], sc = !in.in_uniform[2];
      const bool single = typed_ && in.dtype != DType::kF64;
      for (int i = 0; i < n; ++i)
        d[i] = single ? double(std::fma(float(a[i * sa]), float(b[i * sb]), float(c[i * sc])))
                      : std::fma(a[i * sa], b[i * sb], c[i * sc]);
      break;
    }
    case ExprKind::kCall: {
      const auto op = CallOp(in.op);
      const int b = in.in[1] < 0 ? 0 : 1;
      Round2(typed_ && in.dtype != DType::kF64, D(in.dst), D(in.in[0]), in.in_uniform[0],
             D(in.in[b]), in.in_uniform[b], n,
             [op](double x, double y) { return scalar::FloatCall(op, x, y); });
      break;
    }
    default:
      Map2(I(in.dst), I(in.in[0]), in.in_uniform[0], I(in.in[1]), in.in_uniform[1], n,
           [](int64_t s, int64_t c) { return int64_t(Philox(uint64_t(s), uint64_t(c))); });
      break;
  }
}

void Machine::Load(const Instr& in, int n) {
  const Source& s = sources_[size_t(in.source)];
  const int rank = int(in.at.size());
  const bool to_float = IsFloat(in.dtype);
  int64_t base[16], step[16];
  WEFT_CHECK(rank <= 16, kLimit, "tensor of rank {}", rank);
  bool affine = true;
  if (in.guard >= 0 && in.guard_uniform && !I(in.guard)[0]) {
    std::fill_n(I(in.dst), n, 0);  // 0 and 0.0 have the same bits
    return;
  }
  for (int d = rank - 1; d >= 0; --d) {
    step[d] = 0;
    if (in.index[d] >= 0 && !in.index_uniform[d]) {
      base[d] = 0;
      affine = false;
      continue;
    }
    base[d] = in.index[d] >= 0 ? I(in.index[d])[0] : At(in.at[d]);
    if (in.index[d] < 0) step[d] = in.at[d].lane_step;
    affine = affine && StaysIn64Bits(base[d], step[d], n);
  }
  const int64_t* guard = in.guard >= 0 && !in.guard_uniform ? I(in.guard) : nullptr;
  // Lanes first .. end - 1 are read; a guard of padding leaves one run of them.
  int first = 0, end = n;
  if (affine && guard) {
    while (first < end && !guard[first]) ++first;
    while (end > first && !guard[end - 1]) --end;
    int64_t open = 0;
    for (int i = first; i < end; ++i) open += guard[i] != 0;
    affine = open == end - first;
  }
  if (affine) {
    std::fill_n(I(in.dst), first, 0);
    std::fill_n(I(in.dst) + end, n - end, 0);
    if (first == end) return;
    for (int d = 0; d < rank; ++d) {
      const int64_t low = base[d] + step[d] * first, high = base[d] + step[d] * (end - 1);
      if (low < 0 || low >= s.dims[d]) ThrowRange(low, d, s);
      if (high < 0 || high >= s.dims[d]) ThrowRange(high, d, s);
    }
    int64_t offset = 0, stride = 1, lane_step = 0;
    for (int d = rank - 1; d >= 0; --d) {
      offset += (base[d] + step[d] * first) * stride;
      if (end - first > 1) lane_step += step[d] * stride;  // else it may be of any size
      stride *= s.dims[d];
    }
    if (to_float)
      ReadElements(s, offset, lane_step, D(in.dst) + first, end - first);
    else
      ReadElements(s, offset, lane_step, I(in.dst) + first, end - first);
    return;
  }
  for (int i = 0; i < n; ++i) {
    if (guard && !guard[i]) {
      I(in.dst)[i] = 0;
      continue;
    }
    int64_t at = 0;
    for (int d = 0; d < rank; ++d) {
      const int64_t x = in.index[d] >= 0 && !in.index_uniform[d]
                            ? I(in.index[d])[i]
                            : int64_t(uint64_t(base[d]) + uint64_t(step[d]) * uint64_t(i));
      if (x < 0 || x >= s.dims[d]) ThrowRange(x, d, s);
      at = at * s.dims[d] + x;
    }
    if (to_float)
      ReadElements(s, at, 1, D(in.dst) + i, 1);
    else
      ReadElements(s, at, 1, I(in.dst) + i, 1);
  }
}

void Machine::Unary(const Instr& in, int n) {
  const auto op = UnOp(in.op);
  const bool predicate = op == UnOp::kIsNan || op == UnOp::kIsInf;
  if (!IsFloat(in.from)) {
    const int64_t* a = I(in.in[0]);
    for (int i = 0; i < n; ++i) I(in.dst)[i] = scalar::IntUnary(op, in.from, a[i]);
    return;
  }
  const double* a = D(in.in[0]);
  if (predicate) {
    for (int i = 0; i < n; ++i)
      I(in.dst)[i] = op == UnOp::kIsNan ? std::isnan(a[i]) : std::isinf(a[i]);
    return;
  }
  const bool single = typed_ && op == UnOp::kSqrt && in.dtype != DType::kF64;
  for (int i = 0; i < n; ++i) {
    const double v = scalar::FloatUnary(op, a[i]);
    D(in.dst)[i] = single ? double(float(v)) : v;
  }
}

void Machine::Binary(const Instr& in, int n) {
  const auto op = BinOp(in.op);
  const bool ua = in.in_uniform[0], ub = in.in_uniform[1];
  if (IsFloat(in.from)) {
    const double *a = D(in.in[0]), *b = D(in.in[1]);
    if (scalar::IsCompare(op))
      return Map2(I(in.dst), a, ua, b, ub, n,
                  [op](double x, double y) { return int64_t(scalar::FloatCompare(op, x, y)); });
    const bool single = typed_ && in.dtype != DType::kF64;
    double* d = D(in.dst);
    switch (op) {
      case BinOp::kAdd:
        return Round2(single, d, a, ua, b, ub, n, [](double x, double y) { return x + y; });
      case BinOp::kSub:
        return Round2(single, d, a, ua, b, ub, n, [](double x, double y) { return x - y; });
      case BinOp::kMul:
        return Round2(single, d, a, ua, b, ub, n, [](double x, double y) { return x * y; });
      case BinOp::kDiv:
        return Round2(single, d, a, ua, b, ub, n, [](double x, double y) { return x / y; });
      default:
        return Round2(single, d, a, ua, b, ub, n,
                      [op](double x, double y) { return scalar::FloatBinary(op, x, y); });
    }
  }
  const int64_t *a = I(in.in[0]), *b = I(in.in[1]);
  int64_t* d = I(in.dst);
  const DType t = in.from;
  if (t == DType::kI64) {
    // Index arithmetic: no normalising, no switch per lane.
    switch (op) {
      case BinOp::kAdd:
        return Map2(d, a, ua, b, ub, n,
                    [](int64_t x, int64_t y) { return int64_t(uint64_t(x) + uint64_t(y)); });
      case BinOp::kMul:
        return Map2(d, a, ua, b, ub, n,
                    [](int64_t x, int64_t y) { return int64_t(uint64_t(x) * uint64_t(y)); });
      case BinOp::kLt:
        return Map2(d, a, ua, b, ub, n, [](int64_t x, int64_t y) { return int64_t(x < y); });
      case BinOp::kLe:
        return Map2(d, a, ua, b, ub, n, [](int64_t x, int64_t y) { return int64_t(x <= y); });
      case BinOp::kGt:
        return Map2(d, a, ua, b, ub, n, [](int64_t x, int64_t y) { return int64_t(x > y); });
      case BinOp::kGe:
        return Map2(d, a, ua, b, ub, n, [](int64_t x, int64_t y) { return int64_t(x >= y); });
      case BinOp::kEq:
        return Map2(d, a, ua, b, ub, n, [](int64_t x, int64_t y) { return int64_t(x == y); });
      default:
        break;
    }
  }
  if (op == BinOp::kAnd)
    return Map2(d, a, ua, b, ub, n, [](int64_t x, int64_t y) { return x & y; });
  if (op == BinOp::kOr) return Map2(d, a, ua, b, ub, n, [](int64_t x, int64_t y) { return x | y; });
  Map2(d, a, ua, b, ub, n,
       [op, t](int64_t x, int64_t y) { return scalar::IntBinary(op, t, x, y); });
}

void Machine::Convert(const Instr& in, int n) {
  const DType from = in.from, to = in.dtype;
  if (in.kind == ExprKind::kBitcast) {
    for (int i = 0; i < n; ++i) {
      const uint64_t bits =
          IsFloat(from) ? scalar::DoubleToBits(from, D(in.in[0])[i]) : uint64_t(I(in.in[0])[i]);
      if (IsFloat(to))
        D(in.dst)[i] = scalar::BitsToDouble(to, bits);
      else
        I(in.dst)[i] = scalar::Normalize(to, int64_t(bits));
    }
    return;
  }
  if (IsFloat(from) && IsFloat(to)) {
    const double* a = D(in.in[0]);
    double* d = D(in.dst);
    if (!typed_ || to == DType::kF64)
      std::copy(a, a + n, d);
    else if (to == DType::kF32)
      for (int i = 0; i < n; ++i) d[i] = double(float(a[i]));
    else
      for (int i = 0; i < n; ++i) d[i] = scalar::RoundTo(to, a[i]);
  } else if (IsFloat(from)) {
    for (int i = 0; i < n; ++i) I(in.dst)[i] = scalar::DoubleToInt(to, D(in.in[0])[i]);
  } else if (IsFloat(to)) {
    for (int i = 0; i < n; ++i) {
      const int64_t v = I(in.in[0])[i];
      D(in.dst)[i] = typed_ ? scalar::IntToFloat(from, v, to) : scalar::IntToDouble(from, v);
    }
  } else {
    for (int i = 0; i < n; ++i) I(in.dst)[i] = scalar::Normalize(to, I(in.in[0])[i]);
  }
}

}  // namespace weft::interp
