/// simplify_index.cc: proofs that make index arithmetic affine again.
///
/// A chain of Reshape, Transpose and Slice leaves offsets such as (i*512 + j) / 64 * 64 + (i*512 +
/// j) % 64. With the ranges of the loops:
///   (d*q + r) / d  ->  q + r / d            r / d  ->  0   where 0 <= r < d is proved
///   (d*q + r) % d  ->  r % d                r % d  ->  r   where 0 <= r < d is proved
///   (g*a + r) / (g*m)  ->  a / m            where 0 <= r < g is proved
///   (x / a) / b  ->  x / (a*b)
///   c*d*(x / d) + c*(x % d)  ->  c*x
/// and comparisons, Min, Max and Select are decided where the range of the difference of both sides
/// tells. What cannot be proved stays.
#include <algorithm>
#include <numeric>

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

/// Work per simplification; index arithmetic is small, and what is not stays as it is.
constexpr int kMaxDepth = 24;

/// One level further down while it lives.
struct Deeper {
  explicit Deeper(int* depth) : depth_(depth) { ++*depth_; }
  ~Deeper() { --*depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  int* depth_;
};

}  // namespace

IndexSimplifier::IndexSimplifier(const std::vector<SymInt>& dims, const Facts& facts)
    : dims_(dims), own_(WithPoints(dims, facts)), facts_(own_ ? *own_ : facts) {}

std::optional<IndexSimplifier::Bounds> IndexSimplifier::BoundsOfAtom(const Expr& atom) {
  switch (atom->kind()) {
    case ExprKind::kIndex:
      if (atom->index() >= int(dims_.size())) return std::nullopt;
      return Bounds{0, dims_[atom->index()] - 1};
    case ExprKind::kBinary: {
      const BinOp op = atom->bin_op();
      if (op == BinOp::kFloorMod || op == BinOp::kFloorDiv) {
        const IndexForm d = FormOf(atom->operand(1));
        if (!d.terms.empty() || facts_.LessEqual(1, d.constant) != Proof::kYes) return std::nullopt;
        if (op == BinOp::kFloorMod) return Bounds{0, d.constant - 1};
        const auto x = BoundsOf(FormOf(atom->operand(0)));
        if (!x) return std::nullopt;
        return Bounds{FloorDiv(x->lo, d.constant), FloorDiv(x->hi, d.constant)};
      }
      if (op != BinOp::kMin && op != BinOp::kMax) return std::nullopt;
      const auto a = BoundsOf(FormOf(atom->operand(0))), b = BoundsOf(FormOf(atom->operand(1)));
      if (!a || !b) return std::nullopt;
      return op == BinOp::kMin ? Bounds{Min(a->lo, b->lo), Min(a->hi, b->hi)}
                               : Bounds{Max(a->lo, b->lo), Max(a->hi, b->hi)};
    }
    case ExprKind::kSelect: {
      const auto a = BoundsOf(FormOf(atom->operand(1))), b = BoundsOf(FormOf(atom->operand(2)));
      if (!a || !b) return std::nullopt;
      return Bounds{Min(a->lo, b->lo), Max(a->hi, b->hi)};
    }
    default:
      return std::nullopt;
  }
}

std::optional<IndexSimplifier::Bounds> IndexSimplifier::BoundsOf(const IndexForm& f) {
  if (depth_ >= kMaxDepth) return std::nullopt;
  const Deeper deeper(&depth_);
  std::optional<Bounds> sum = Bounds{f.constant, f.constant};
  try {
    for (const auto& [atom, c] : f.terms) {
      const auto b = BoundsOfAtom(atom);
      const bool up = NonNegative(c), down = !up && facts_.LessEqual(c, 0) == Proof::kYes;
      if (!b || (!up && !down)) {
        sum.reset();
        break;
      }
      sum->lo = sum->lo + c * (up ? b->lo : b->hi);
      sum->hi = sum->hi + c * (up ? b->hi : b->lo);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOverflow) throw;
    return std::nullopt;
  }
  return sum;
}

bool IndexSimplifier::Within(const IndexForm& f, SymInt d) {
  const auto b = BoundsOf(f);
  return b && NonNegative(b->lo) && facts_.Less(b->hi, d) == Proof::kYes;
}

IndexForm IndexSimplifier::Divide(const IndexForm& x, SymInt d) {
  IndexForm quotient, rest;
  for (const auto& [atom, c] : x.terms) {
    const SymInt q = ExactQuotient(c, d);
    if (q.known())
      quotient.Add(atom, q);
    else
      rest.Add(atom, c);
  }
  if (x.constant.is_const() && d.is_const()) {
    quotient.constant = FloorDiv(x.constant, d);
    rest.constant = Mod(x.constant, d);
  } else if (const SymInt q = ExactQuotient(x.constant, d); q.known()) {
    quotient.constant = q;
  } else {
    rest.constant = x.constant;
  }
  if (Within(rest, d)) return quotient;
  // One step along a symbolic or uneven remainder: a term may hide a multiple (n*(b+1) - n ...);
  // not searched for.
  if (rest.terms.size() == 1 && rest.constant.is(0) && rest.terms[0].second.is(1)) {
    const Expr& atom = rest.terms[0].first;
    if (atom->kind() == ExprKind::kBinary && atom->bin_op() == BinOp::kFloorDiv) {
      const IndexForm inner = FormOf(atom->operand(1));
      if (inner.terms.empty() && facts_.LessEqual(1, inner.constant) == Proof::kYes &&
          depth_ < kMaxDepth) {
        const Deeper deeper(&depth_);
        quotient.AddForm(Divide(FormOf(atom->operand(0)), inner.constant * d), 1);
        return quotient;
      }
    }
  }
  // Candidates for g: the coefficients themselves, where they divide d.
  for (const auto& [atom, g] : rest.terms) {
    if (!g.known() || g.is(1) || g.is(-1) || facts_.LessEqual(1, g) != Proof::kYes) continue;
    const SymInt m = ExactQuotient(d, g);
    if (!m.known()) continue;
    IndexForm high, low;
    for (const auto& [a, c] : rest.terms) {
      const SymInt q = ExactQuotient(c, g);
      if (q.known())
        high.Add(a, q);
      else
        low.Add(a, c);
    }
    if (rest.constant.is_const() && g.is_const()) {
      high.constant = FloorDiv(rest.constant, g);
      low.constant = Mod(rest.constant, g);
    } else if (const SymInt q = ExactQuotient(rest.constant, g); q.known()) {
      high.constant = q;
    } else {
      low.constant = rest.constant;
    }
    if (!Within(low, g)) continue;
    if (Within(high, m)) return quotient;
    quotient.Add(Expr::Binary(BinOp::kFloorDiv, high.ToExpr(), Expr::Dim(m)), 1);
    return quotient;
  }
  const Expr atom = Expr::Binary(BinOp::kFloorDiv, rest.ToExpr(), Expr::Dim(d));
  quotient.AddForm(FormOf(atom), 1);
  return quotient;
}

IndexForm IndexSimplifier::Modulo(const IndexForm& x, SymInt d) {
  IndexForm rest;
  for (const auto& [atom, c] : x.terms) {
    if (!ExactQuotient(c, d).known()) rest.Add(atom, c);
  }
  if (x.constant.is_const() && d.is_const())
    rest.constant = Mod(x.constant, d);
  else if (!ExactQuotient(x.constant, d).known())
    rest.constant = x.constant;
  if (Within(rest, d)) return rest;
  // (x % (a*d)) % d  ->  x % d
  if (rest.terms.size() == 1 && rest.constant.is(0) && rest.terms[0].second.is(1)) {
    const Expr& atom = rest.terms[0].first;
    if (atom->kind() == ExprKind::kBinary && atom->bin_op() == BinOp::kFloorMod) {
      const IndexForm inner = FormOf(atom->operand(1));
      if (inner.terms.empty() && ExactQuotient(inner.constant, d).known() && depth_ < kMaxDepth) {
        const Deeper deeper(&depth_);
        return Modulo(FormOf(atom->operand(0)), d);
      }
    }
  }
  // A common factor leaves together: (g*a + r) % (g*m)  ->  g*(a % m) + r where 0 <= r < g.
  for (const auto& [atom, g] : rest.terms) {
    if (g.is(1) || g.is(-1) || facts_.LessEqual(1, g) != Proof::kYes) continue;
    const SymInt m = ExactQuotient(d, g);
    if (!m.known()) continue;
    IndexForm high, low;
    for (const auto& [a, c] : rest.terms) {
      const SymInt q = ExactQuotient(c, g);
      if (q.known())
        high.Add(a, q);
      else
        low.Add(a, c);
    }
    if (const SymInt q = ExactQuotient(rest.constant, g); q.known())
      high.constant = q;
    else
      low.constant = rest.constant;
    if (!Within(low, g)) continue;
    IndexForm result = low;
    if (Within(high, m))
      result.AddForm(high, g);
    else
      result.AddForm(FormOf(Expr::Binary(BinOp::kFloorMod, high.ToExpr(), Expr::Dim(m))), g);
    return result;
  }
  return FormOf(Expr::Binary(BinOp::kFloorMod, rest.ToExpr(), Expr::Dim(d)));
}

/// Replaces x % d by x - d * (x / d) wherever that makes the sum shorter.
void IndexSimplifier::Recombine(IndexForm* f) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [atom, c] : f->terms) {
      if (atom->kind() != ExprKind::kBinary || atom->bin_op() != BinOp::kFloorMod) continue;
      const IndexForm d = FormOf(atom->operand(1));
      if (!d.terms.empty() || facts_.LessEqual(1, d.constant) != Proof::kYes) continue;
      const IndexForm x = FormOf(atom->operand(0));
      IndexForm other = *f;
      other.Add(atom, -c);
      other.AddForm(x, c);
      other.AddForm(Divide(x, d.constant), -(c * d.constant));
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
  IndexForm diff = FormOf(a);
  diff.AddForm(FormOf(b), -1);
  const auto r = BoundsOf(diff);
  if (!r) return std::nullopt;
  const auto yes = [](Proof p) { return p == Proof::kYes; };
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
  return i && d && d->terms.empty() && Within(*i, d->constant);
}

/// One node whose operands are simple already.
Expr IndexSimplifier::Simplify(const Expr& e) {
  if (e->kind() == ExprKind::kDim) return Expr::Dim(facts_.Simplify(e->dim()));
  if (e->kind() != ExprKind::kBinary && e->kind() != ExprKind::kUnary) return e;
  if (IsUnsignedInside(e)) return Expr::Bool(true);
  if (e->operand(0)->dtype() != DType::kI64) return e;
  try {
    if (e->kind() == ExprKind::kBinary) {
      const BinOp op = e->bin_op();
      const Expr &a = e->operand(0), &b = e->operand(1);
      if (op >= BinOp::kLt) {
        const auto truth = Decide(op, a, b);
        return truth ? Expr::Bool(*truth) : e;
      }
      if (op == BinOp::kMin || op == BinOp::kMax) {
        const auto less = Decide(BinOp::kLe, a, b), more = Decide(BinOp::kGe, a, b);
        if (less && *less) return op == BinOp::kMin ? a : b;
        if (more && *more) return op == BinOp::kMin ? b : a;
        return e;
      }
      if (op == BinOp::kFloorDiv || op == BinOp::kFloorMod) {
        const IndexForm d = FormOf(b);
        if (!d.terms.empty() || facts_.LessEqual(1, d.constant) != Proof::kYes) return e;
        const SymInt divisor = d.constant;
        IndexForm f =
            op == BinOp::kFloorDiv ? Divide(Normal(a), divisor) : Modulo(Normal(a), divisor);
        Recombine(&f);
        return f.ToExpr();
      }
      // Division that truncates is floor division where nothing is negative.
      if (op == BinOp::kDiv || op == BinOp::kMod) {
        const auto x = BoundsOf(FormOf(a));
        if (!x || !NonNegative(x->lo)) return e;
        const Expr floor =
            Expr::Binary(op == BinOp::kDiv ? BinOp::kFloorDiv : BinOp::kFloorMod, a, b);
        return floor->kind() == ExprKind::kBinary && floor != e ? Simplify(floor) : floor;
      }
    }
    return Normal(e).ToExpr();
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
