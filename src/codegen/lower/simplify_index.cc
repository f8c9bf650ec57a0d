/// simplify_index.cc: proofs that make index arithmetic affine again.
///
/// A chain of Reshape, Transpose and Slice leaves offsets such as (i*512 + j) / 64 * 64 + (i*512 +
/// j) % 64. With the ranges of the loops:
///   (d*q + r) / d  ->  q + r / d            r / d  ->  0   where 0 <= r < d is proved
///   (d*q + r) % d  ->  r % d                r % d  ->  r   where 0 <= r < d is proved
///   (g*a + r) / (g*m)  ->  a / m            where 0 <= r < g is proved
///   (x / a) / b  ->  x / (a*b)
///   c*d*(x / d) + c*(x % d)  ->  c*x
/// where the sum that is divided cannot wrap, and comparisons, Min, Max and Select are decided
/// where the range of the difference of both sides tells, neither of which may wrap. Modulo 2^64,
/// which is how data computes, only the sums themselves hold. What cannot be proved stays.

#include "index_form.h"
#include "weft/support/check.h"

namespace weft {
namespace {

/// x / d where it leaves no remainder; unknown otherwise.
SymInt ExactQuotient(SymInt x, SymInt d) {
  if (x.is(0)) return 0;
  if (x.is_const() && d.is_const())
    return x.value() % d.value() == 0 ? SymInt(x.value() / d.value()) : SymInt();
  const SymInt q = FloorDiv(x, d);
  return q * d == x ? q : SymInt();
}

/// `facts` and that every extent is at least 1; nothing where all are integers.
std::optional<Facts> WithPoints(const std::vector<SymInt>& dims, const Facts& facts) {
  std::optional<Facts> own;
  for (SymInt d : dims) {
    if (d.is_const()) continue;
    if (!own) own = facts;
    try {
      own->SetRange(d, {1, INT64_MAX});
      // A product of sizes (never negative) is at least 1 only where each of them is.
      if (facts.Simplify(d) == Product(d.Symbols())) {
        for (SymInt s : d.Symbols()) own->SetRange(s, {1, INT64_MAX});
      }
    } catch (const Error& error) {
      // Known to be empty: no point will ever be computed.
      if (error.code() != ErrorCode::kShapeMismatch) throw;
    }
  }
  return own;
}

/// Of the product of all where none are given; what leaves 64 bits is no size.
std::vector<SymInt> SizesOr(const std::vector<SymInt>& sizes, const std::vector<SymInt>& dims) {
  if (!sizes.empty()) return sizes;
  try {
    return {Product(dims)};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOverflow) throw;
    return {};
  }
}

bool IsPowerOfTwo(SymInt d) {
  return d.is_const() && d.value() > 0 && (d.value() & (d.value() - 1)) == 0;
}

Expr FloorDivide(const IndexForm& x, SymInt d) {
  return Expr::Binary(BinOp::kFloorDiv, x.ToExpr(), Expr::Dim(d));
}
Expr FloorModulo(const IndexForm& x, SymInt d) {
  return Expr::Binary(BinOp::kFloorMod, x.ToExpr(), Expr::Dim(d));
}

/// x = d * quotient + rest, term by term. A constant that d does not divide is split as well where
/// `floors`, else it stays in the rest.
struct Split {
  IndexForm quotient, rest;
};
Split SplitTerms(const IndexForm& x, SymInt d, bool floors) {
  Split s;
  for (const auto& [atom, c] : x.terms) {
    const SymInt q = ExactQuotient(c, d);
    if (q.known())
      s.quotient.Add(atom, q);
    else
      s.rest.Add(atom, c);
  }
  if (floors && x.constant.is_const() && d.is_const()) {
    s.quotient.constant = FloorDiv(x.constant, d);
    s.rest.constant = Mod(x.constant, d);
  } else if (const SymInt q = ExactQuotient(x.constant, d); q.known()) {
    s.quotient.constant = q;
  } else {
    s.rest.constant = x.constant;
  }
  return s;
}

}  // namespace

IndexSimplifier::IndexSimplifier(const std::vector<SymInt>& dims, const Facts& facts,
                                 const std::vector<SymInt>& sizes)
    : dims_(dims), own_(WithPoints(dims, facts)), facts_(own_ ? *own_ : facts) {
  SetSizes(SizesOr(sizes, dims));
}

IndexForm IndexSimplifier::Divide(const IndexForm& x, SymInt d) {
  if (!CannotWrap(x)) return FormOf(FloorDivide(x, d));
  auto [quotient, rest] = SplitTerms(x, d, true);
  if (Within(rest, d)) return quotient;
  // Less a multiple of d it may leave 64 bits where x does not.
  if (!CannotWrap(rest)) return FormOf(FloorDivide(x, d));
  // One step along a symbolic or uneven remainder: a term may hide a multiple (n*(b+1) - n ...);
  // not searched for.
  if (rest.terms.size() == 1 && rest.constant.is(0) && rest.terms[0].second.is(1)) {
    const Expr& atom = rest.terms[0].first;
    if (atom->kind() == ExprKind::kBinary && atom->bin_op() == BinOp::kFloorDiv) {
      const SymInt inner = PositiveDivisor(atom->operand(1));
      if (inner.known() && !IsDeep() && FitsInt64(inner * d)) {
        const Deeper deeper(this);
        quotient.AddForm(Divide(FormOf(atom->operand(0)), inner * d), 1);
        return quotient;
      }
    }
  }
  // Candidates for g: the coefficients themselves, where they divide d.
  for (const auto& [atom, g] : rest.terms) {
    if (!g.known() || g.is(1) || g.is(-1) || facts_.LessEqual(1, g) != Proof::kYes) continue;
    const SymInt m = ExactQuotient(d, g);
    if (!m.known()) continue;
    const auto [high, low] = SplitTerms(rest, g, true);
    if (!Within(low, g)) continue;
    if (Within(high, m)) return quotient;
    quotient.Add(FloorDivide(high, m), 1);
    return quotient;
  }
  quotient.AddForm(FormOf(FloorDivide(rest, d)), 1);
  return quotient;
}

IndexForm IndexSimplifier::Modulo(const IndexForm& x, SymInt d) {
  // A power of two divides 2^64: what wraps has the same remainder.
  const bool may_wrap = IsPowerOfTwo(d);
  if (!may_wrap && !CannotWrap(x)) return FormOf(FloorModulo(x, d));
  const IndexForm rest = SplitTerms(x, d, true).rest;
  if (Within(rest, d)) return rest;
  if (!may_wrap && !CannotWrap(rest)) return FormOf(FloorModulo(x, d));
  // (x % (a*d)) % d  ->  x % d
  if (rest.terms.size() == 1 && rest.constant.is(0) && rest.terms[0].second.is(1)) {
    const Expr& atom = rest.terms[0].first;
    if (atom->kind() == ExprKind::kBinary && atom->bin_op() == BinOp::kFloorMod) {
      const SymInt inner = PositiveDivisor(atom->operand(1));
      if (inner.known() && ExactQuotient(inner, d).known() && !IsDeep()) {
        const Deeper deeper(this);
        return Modulo(FormOf(atom->operand(0)), d);
      }
    }
  }
  // A common factor leaves together: (g*a + r) % (g*m)  ->  g*(a % m) + r where 0 <= r < g.
  for (const auto& [atom, g] : rest.terms) {
    if (g.is(1) || g.is(-1) || facts_.LessEqual(1, g) != Proof::kYes) continue;
    const SymInt m = ExactQuotient(d, g);
    if (!m.known()) continue;
    const auto [high, low] = SplitTerms(rest, g, false);
    if (!Within(low, g)) continue;
    IndexForm result = low;
    if (Within(high, m))
      result.AddForm(high, g);
    else
      result.AddForm(FormOf(FloorModulo(high, m)), g);
    return result;
  }
  return FormOf(FloorModulo(rest, d));
}

/// Replaces x % d by x - d * (x / d) wherever that makes the sum shorter.
void IndexSimplifier::Recombine(IndexForm* f) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [atom, c] : f->terms) {
      if (atom->kind() != ExprKind::kBinary || atom->bin_op() != BinOp::kFloorMod) continue;
      const SymInt d = PositiveDivisor(atom->operand(1));
      if (!d.known()) continue;
      const IndexForm x = FormOf(atom->operand(0));
      IndexForm other = *f;
      other.Add(atom, -c);
      other.AddForm(x, c);
      other.AddForm(Divide(x, d), -(c * d));
      if (other.terms.size() >= f->terms.size()) continue;
      *f = std::move(other);
      changed = true;
      break;
    }
  }
}

IndexForm IndexSimplifier::Normal(const Expr& e) {
  IndexForm f = FormOf(e);
  try {
    Recombine(&f);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOverflow) throw;
  }
  return f;
}

std::optional<bool> IndexSimplifier::Decide(BinOp op, const Expr& a, const Expr& b) {
  const IndexForm x = FormOf(a), y = FormOf(b);
  IndexForm diff = x;
  diff.AddForm(y, -1);
  const auto r = TrueBounds(diff);
  if (!r) return std::nullopt;
  const auto yes = [](Proof p) { return p == Proof::kYes; };
  // Equal sums are equal however they wrap.
  if (r->lo == r->hi && facts_.ProvedEqual(r->lo, 0))
    return op == BinOp::kLe || op == BinOp::kGe || op == BinOp::kEq;
  const bool ordered = CannotWrap(x) && CannotWrap(y);
  // Of two values that differ by less than 2^64 at least the difference tells.
  if (!ordered && (op < BinOp::kEq || !CannotWrap(diff))) return std::nullopt;
  const bool negative = yes(facts_.Less(r->hi, 0)), positive = yes(facts_.Less(0, r->lo));
  const bool at_most = negative || yes(facts_.LessEqual(r->hi, 0)),
             at_least = positive || NonNegative(r->lo);
  // Divisibility may exclude equality where ranges do not: n % 4 == 0 is never 1.
  const bool never = r->lo == r->hi && facts_.Equal(r->lo, 0) == Proof::kNo;
  switch (op) {
    case BinOp::kLt:
      return negative ? std::optional(true) : at_least ? std::optional(false) : std::nullopt;
    case BinOp::kLe:
      return at_most ? std::optional(true) : positive ? std::optional(false) : std::nullopt;
    case BinOp::kGt:
      return positive ? std::optional(true) : at_most ? std::optional(false) : std::nullopt;
    case BinOp::kGe:
      return at_least ? std::optional(true) : negative ? std::optional(false) : std::nullopt;
    case BinOp::kEq:
      if (at_most && at_least) return true;
      return negative || positive || never ? std::optional(false) : std::nullopt;
    case BinOp::kNe:
      if (negative || positive || never) return true;
      return at_most && at_least ? std::optional(false) : std::nullopt;
    default:
      return std::nullopt;
  }
}

/// u64(i) < u64(d), which says 0 <= i < d in one comparison (index_check.cc), and is proved.
bool IndexSimplifier::IsUnsignedInside(const Expr& e) {
  if (e->kind() != ExprKind::kBinary || e->bin_op() != BinOp::kLt) return false;
  const auto signed_form = [](const Expr& u) -> std::optional<IndexForm> {
    if (u->dtype() != DType::kU64) return std::nullopt;
    if (u->kind() == ExprKind::kConst) return FormOf(Expr::Int(u->const_int()));
    if (u->kind() != ExprKind::kCast || u->operand(0)->dtype() != DType::kI64) return std::nullopt;
    return FormOf(u->operand(0));
  };
  const auto i = signed_form(e->operand(0)), d = signed_form(e->operand(1));
  return i && d && d->terms.empty() && FitsInt64(d->constant) && Within(*i, d->constant);
}

/// An operation on i64 whose operands are simple already.
Expr IndexSimplifier::SimplifyBinary(const Expr& e) {
  const BinOp op = e->bin_op();
  const Expr &a = e->operand(0), &b = e->operand(1);
  if (op >= BinOp::kLt) {
    const auto truth = Decide(op, a, b);
    return truth ? Expr::Bool(*truth) : e;
  }
  switch (op) {
    case BinOp::kMin:
    case BinOp::kMax: {
      const auto less = Decide(BinOp::kLe, a, b), more = Decide(BinOp::kGe, a, b);
      if (less && *less) return op == BinOp::kMin ? a : b;
      if (more && *more) return op == BinOp::kMin ? b : a;
      return e;
    }
    case BinOp::kFloorDiv:
    case BinOp::kFloorMod: {
      const SymInt d = PositiveDivisor(b);
      if (!d.known()) return e;
      IndexForm f = op == BinOp::kFloorDiv ? Divide(Normal(a), d) : Modulo(Normal(a), d);
      Recombine(&f);
      return f.ToExpr();
    }
    // Division that truncates is floor division where nothing is negative; by 0 both give 0.
    case BinOp::kDiv:
    case BinOp::kMod: {
      if (!NonNegative(BoundsOfValue(a).lo) || !NonNegative(BoundsOfValue(b).lo)) return e;
      const Expr floor =
          Expr::Binary(op == BinOp::kDiv ? BinOp::kFloorDiv : BinOp::kFloorMod, a, b);
      return floor->kind() == ExprKind::kBinary && floor != e ? Simplify(floor) : floor;
    }
    default:
      return Normal(e).ToExpr();
  }
}

/// One node whose operands are simple already.
Expr IndexSimplifier::Simplify(const Expr& e) {
  if (e->kind() == ExprKind::kDim) return Expr::Dim(facts_.Simplify(e->dim()));
  if (e->kind() != ExprKind::kBinary && e->kind() != ExprKind::kUnary) return e;
  if (IsUnsignedInside(e)) return Expr::Bool(true);
  if (e->operand(0)->dtype() != DType::kI64) return e;
  try {
    return e->kind() == ExprKind::kBinary ? SimplifyBinary(e) : Normal(e).ToExpr();
  } catch (const Error& error) {
    // Sizes beyond 64 bits: leave the arithmetic as it stands.
    if (error.code() != ErrorCode::kOverflow) throw;
    return e;
  }
}

Expr IndexSimplifier::Run(const Expr& root, const std::function<Expr(const Expr&)>& at_load) {
  alive_.push_back(root);
  std::vector<std::pair<const ExprNode*, size_t>> stack{{root.get(), 0}};
  while (!stack.empty()) {
    auto& [n, next] = stack.back();
    const size_t operands = n->kind() == ExprKind::kReduce ? 0 : n->operands().size();
    if (memo_.Contains(n)) {
      stack.pop_back();
      continue;
    }
    if (next < operands) {
      const ExprNode* operand = n->operands()[next++].get();
      if (!memo_.Contains(operand)) stack.emplace_back(operand, 0);
      continue;
    }
    Expr e = ExprPool::FromNode(n);
    if (operands) {
      Exprs rebuilt;
      for (const Expr& o : n->operands()) rebuilt.push_back(*memo_.Find(o.get()));
      e = ExprPool::Remake(*n, std::move(rebuilt));
    }
    if (at_load && n->kind() == ExprKind::kLoad && e->kind() == ExprKind::kLoad)
      e = at_load(e);
    else
      e = Simplify(e);
    memo_.Set(n, std::move(e));
    stack.pop_back();
  }
  return *memo_.Find(root.get());
}

Expr SimplifyIndex(const Expr& e, const std::vector<SymInt>& dims, const Facts& facts) {
  return IndexSimplifier(dims, facts).Run(e);
}

}  // namespace weft
