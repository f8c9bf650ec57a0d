/// index_bounds.cc: how far integers in a kernel reach, and which sums of them cannot wrap.
///
/// i64 is the type of loops and offsets, and of data. A sum equals what it was read from modulo
/// 2^64 whatever its atoms hold, so adding and cancelling needs no proof. Dividing a sum or
/// ordering it does: the true value has to be one of 64 bits. A loop has a range and so have sums
/// of loops; an element of a tensor may be anything, and x + 1 may wrap.
///
/// Bounds with symbols. An extent is bounded by memory alone, and n * m by neither. What bounds it
/// are the sizes of the kernel: tensors, and loops that run together, have at most `kMostElements`
/// elements. Extents of one kernel are alike, so a product of as many of them as make up such a
/// size, with a coefficient not far above its, is taken to be one; longer products and larger
/// coefficients are taken to wrap.
#include <algorithm>
#include <cmath>
#include <limits>

#include "index_form.h"
#include "weft/support/check.h"
#include "weft/sym/apply.h"

namespace weft {
namespace {

/// Bytes that a process can address on x86-64 and AArch64; a loop over more points does not end.
constexpr double kMostElements = 0x1p47;
/// Sums of rounded terms below it are below 2^63 for certain.
constexpr double kFits = 0x1p62;
/// Work per simplification; index arithmetic is small, and what is not stays as it is.
constexpr int kMaxDepth = 24;

using Bounds = IndexSimplifier::Bounds;
using Monomial = IndexSimplifier::Monomial;

constexpr int64_t kLeast = INT64_MIN, kMost = INT64_MAX;
Bounds Anything() { return {kLeast, kMost}; }

/// A symbolic integer as a sum of monomials; what is neither a sum nor a product is an atom.
class MonomialReader final : public SymVisitor {
 public:
  static std::vector<Monomial> Read(SymInt e) {
    MonomialReader reader;
    VisitPostfix(e, reader);
    return std::move(reader.stack_.back().sum);
  }
  void Const(int64_t v) override { stack_.push_back({SymInt(v), {{{}, double(v)}}}); }
  void Sym(SymInt symbol) override { stack_.push_back({symbol, {{{symbol}, 1}}}); }
  void Op(char op) override {
    Entry b = std::move(stack_.back());
    stack_.pop_back();
    Entry& a = stack_.back();
    a.value = ApplySymOp(op, a.value, b.value);
    if (op == '+' || op == '-') {
      for (Monomial& m : b.sum) {
        if (op == '-') m.coefficient = -m.coefficient;
        a.sum.push_back(std::move(m));
      }
    } else if (op == '*') {
      std::vector<Monomial> product;
      for (const Monomial& x : a.sum) {
        for (const Monomial& y : b.sum) product.push_back(Times(x, y));
      }
      a.sum = std::move(product);
    } else {
      a.sum = {{{a.value}, 1}};
    }
  }

 private:
  struct Entry {
    SymInt value;
    std::vector<Monomial> sum;
  };
  static Monomial Times(const Monomial& x, const Monomial& y) {
    Monomial product{x.factors, x.coefficient * y.coefficient};
    product.factors.insert(product.factors.end(), y.factors.begin(), y.factors.end());
    std::sort(product.factors.begin(), product.factors.end(),
              [](SymInt a, SymInt b) { return SymInt::Compare(a, b) < 0; });
    return product;
  }
  std::vector<Entry> stack_;
};

/// Values of an integer type narrower than i64; everything for others.
Bounds BoundsOfType(DType t) {
  if (t == DType::kBool) return {0, 1};
  if (!IsInt(t) || DTypeBits(t) == 64) return Anything();
  const int64_t top = int64_t{1} << (DTypeBits(t) - (IsSigned(t) ? 1 : 0));
  return {IsSigned(t) ? -top : 0, top - 1};
}

/// Smaller and larger of two ends; one without a bound decides nothing, or all.
SymInt Smaller(SymInt a, SymInt b) {
  if (a.is(kLeast) || b.is(kMost)) return a;
  return b.is(kLeast) || a.is(kMost) ? b : Min(a, b);
}
SymInt Larger(SymInt a, SymInt b) {
  if (a.is(kMost) || b.is(kLeast)) return a;
  return b.is(kMost) || a.is(kLeast) ? b : Max(a, b);
}

}  // namespace

IndexSimplifier::Deeper::Deeper(IndexSimplifier* owner) : depth_(&owner->depth_) { ++*depth_; }
bool IndexSimplifier::IsDeep() const { return depth_ >= kMaxDepth; }

void IndexSimplifier::SetSizes(const std::vector<SymInt>& sizes) {
  for (SymInt size : sizes) {
    if (size.is_const()) continue;
    try {
      for (Monomial& m : MonomialReader::Read(facts_.Simplify(size))) {
        m.coefficient = std::fabs(m.coefficient);
        if (!m.factors.empty()) sizes_.push_back(std::move(m));
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOverflow) throw;
    }
  }
}

bool IndexSimplifier::FitsInt64(SymInt e) {
  if (e.is_const()) return true;
  const SymInt simple = facts_.Simplify(e);
  const Range r = facts_.RangeOf(simple);
  if (r.lo != kLeast && r.hi != kMost) return true;
  double sum = 0;
  for (const Monomial& m : MonomialReader::Read(simple)) {
    const double c = std::fabs(m.coefficient);
    double most = m.factors.empty()       ? c
                  : m.factors.size() == 1 ? c * kMostElements
                                          : std::numeric_limits<double>::infinity();
    for (const Monomial& size : sizes_) {
      if (!m.factors.empty() && m.factors.size() <= size.factors.size())
        most = std::min(most, std::max(1.0, c / size.coefficient) * kMostElements);
    }
    sum += most;
  }
  return sum < kFits;
}

SymInt IndexSimplifier::PositiveDivisor(const Expr& e) {
  const IndexForm d = FormOf(e);
  const bool good =
      d.terms.empty() && facts_.LessEqual(1, d.constant) == Proof::kYes && FitsInt64(d.constant);
  return good ? d.constant : SymInt();
}

Bounds IndexSimplifier::BoundsOfValue(const Expr& e) {
  return BoundsOf(FormOf(e)).value_or(Anything());
}

/// Operands are shared: without a memo a chain of selections is looked at once a path.
Bounds IndexSimplifier::BoundsOfAtom(const Expr& atom) {
  if (const Bounds* known = atom_bounds_.Find(atom.get())) return *known;
  const Bounds found = FindBoundsOfAtom(atom);
  if (atom_bounds_.Set(atom.get(), found)) alive_.push_back(atom);
  return found;
}

Bounds IndexSimplifier::FindBoundsOfAtom(const Expr& atom) {
  switch (atom->kind()) {
    case ExprKind::kIndex:
      if (atom->index() >= int(dims_.size())) return Anything();
      return {0, dims_[size_t(atom->index())] - 1};
    case ExprKind::kCast:
      return BoundsOfType(atom->operand(0)->dtype());
    case ExprKind::kBinary: {
      const BinOp op = atom->bin_op();
      if (op == BinOp::kFloorMod || op == BinOp::kFloorDiv) {
        const SymInt d = PositiveDivisor(atom->operand(1));
        if (!d.known()) return Anything();
        if (op == BinOp::kFloorMod) return {0, d - 1};
        const Bounds x = BoundsOfValue(atom->operand(0));
        if (!d.is_const() && (x.lo.is(kLeast) || x.hi.is(kMost))) return Anything();
        return {FloorDiv(x.lo, d), FloorDiv(x.hi, d)};
      }
      if (op != BinOp::kMin && op != BinOp::kMax) return Anything();
      const Bounds a = BoundsOfValue(atom->operand(0)), b = BoundsOfValue(atom->operand(1));
      return op == BinOp::kMin ? Bounds{Smaller(a.lo, b.lo), Smaller(a.hi, b.hi)}
                               : Bounds{Larger(a.lo, b.lo), Larger(a.hi, b.hi)};
    }
    case ExprKind::kSelect: {
      const Bounds a = BoundsOfValue(atom->operand(1)), b = BoundsOfValue(atom->operand(2));
      return {Smaller(a.lo, b.lo), Larger(a.hi, b.hi)};
    }
    default:
      return Anything();
  }
}

std::optional<Bounds> IndexSimplifier::TrueBounds(const IndexForm& f) {
  if (IsDeep()) return std::nullopt;
  const Deeper deeper(this);
  Bounds sum{f.constant, f.constant};
  try {
    for (const auto& [atom, c] : f.terms) {
      const bool up = NonNegative(c);
      if (!up && facts_.LessEqual(c, 0) != Proof::kYes) return std::nullopt;
      const Bounds b = BoundsOfAtom(atom);
      sum.lo = sum.lo + c * (up ? b.lo : b.hi);
      sum.hi = sum.hi + c * (up ? b.hi : b.lo);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOverflow) throw;
    return std::nullopt;
  }
  return sum;
}

std::optional<Bounds> IndexSimplifier::BoundsOf(const IndexForm& f) {
  const auto b = TrueBounds(f);
  return b && FitsInt64(b->lo) && FitsInt64(b->hi) ? b : std::nullopt;
}

bool IndexSimplifier::Within(const IndexForm& f, SymInt d) {
  const auto b = TrueBounds(f);
  return b && NonNegative(b->lo) && facts_.Less(b->hi, d) == Proof::kYes;
}

}  // namespace weft
