/// divmod.cc: floor division, modulo and exact division of canonical expressions.
///
/// Division rounds toward minus infinity and mod has the sign of the divisor, so p = q*(p//q) + p%q
/// for all q != 0. A divisor of 0 leaves an expression without a value; rules may therefore assume
/// q != 0, and with q >= 0 that q >= 1. Rules; c, d, g are constants > 0, everything else is any
/// expression:
///
///   p//q               = (-p)//(-q)              where q leads with a negative coefficient
///   (k*q)//q           = k
///   (c*a + b)//c       = a + b//c                coefficients of b smaller than c
///   (-b)//c            = -((b + c - 1)//c)       where b leads with a positive coefficient
///   (g*a + r)//(g*c)   = (a + r//g)//c           r constant
///   (a//d + e)//c      = (a + d*e)//(d*c)        no other floordiv or mod in e
///   (k*q + r)//q       = k + r//q                where r has fewer terms
///   (m*a)//(m*q)       = a//q                    m common; where it is 0 there is no value
///   (a//b)//q          = a//(b*q)                q >= 0
///   (a%q)//q           = 0                       q >= 0
///
///   p%q                = -((-p)%(-q))            where q leads with a negative coefficient
///   (k*q)%q            = 0
///   (c*a + b)%c        = b%c                     also where c divides every value of a term
///   (k*(a%d) + b)%c    = (k*a + b)%c             where c divides k*d
///   (g*a + r)%(g*c)    = g*((a + r//g)%c) + r%g  r constant
///   (k*q + r)%q        = r%q                     where r has fewer terms
///   (m*a)%(m*q)        = m*(a%q)                 m common
///   (a%q)%q            = a%q
///
/// Where ranges decide, a floordiv is a constant and a mod is its operand.
#include "interval.h"
#include "node.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft::sym {
namespace {

const Node* Negate(const Node* n) { return ScaleNode(n, -1); }

const Node* InternAtom(Kind kind, const Node* p, const Node* q) {
  Node n(kind);
  n.args = {p, q};
  return Bounded(Intern(std::move(n)));
}

size_t CountTerms(const Poly& p) { return p.terms.size() + (p.constant != 0); }

int64_t LeadingCoef(const Node* n) {
  if (n->is_const()) return n->constant;
  return n->kind == Kind::kSum ? n->terms[0].coef : 1;
}

/// Divides p and q by their common integer and monomial factor; false where it is 1.
bool CancelCommon(const Node** p, const Node** q, const Node** factor) {
  const int64_t g = Gcd(Content(*p), Content(*q));
  const Node* mono = CommonMonomial(*p, *q);
  if (g <= 1 && mono == nullptr) return false;
  *factor = mono == nullptr ? ConstNode(g) : ScaleNode(mono, g);
  const Node *p2 = nullptr, *q2 = nullptr;
  if (!PolyDivideExact(*p, *factor, &p2) || !PolyDivideExact(*q, *factor, &q2)) return false;
  *p = p2;
  *q = q2;
  return true;
}

/// p = k*q + r with fewer terms in r than in p.
bool SplitMultiples(const Node* p, const Node* q, const Node** k, const Node** r) {
  Poly quotient, rest;
  if (q->is_const() || !PolyDivide(p, q, &quotient, &rest)) return false;
  if (CountTerms(quotient) == 0 || CountTerms(rest) >= CountTerms(PolyOf(p))) return false;
  *k = FromPoly(std::move(quotient));
  *r = FromPoly(std::move(rest));
  return true;
}

/// The one term of p that is a bare floordiv with coefficient 1, where no other term holds a
/// floordiv or mod.
const Node* OnlyFloorDiv(const Node* p) {
  if (p->kind == Kind::kFloorDiv) return p;
  if (p->kind != Kind::kSum) return nullptr;
  const Node* found = nullptr;
  for (const Term& t : p->terms) {
    if (!t.mono->has_div) continue;
    if (found != nullptr || t.coef != 1 || t.mono->kind != Kind::kFloorDiv) return nullptr;
    found = t.mono;
  }
  return found;
}

const Node* FloorDivByConst(const Node* p, int64_t c) {
  Poly whole, rest;
  const Poly poly = PolyOf(p);
  int64_t g = c;
  for (const Term& t : poly.terms) {
    if (t.coef / c != 0) whole.terms.push_back({t.mono, t.coef / c});
    if (t.coef % c != 0) {
      rest.terms.push_back({t.mono, t.coef % c});
      g = Gcd(g, t.coef % c);
    }
  }
  whole.constant = FloorDivide(poly.constant, c);
  rest.constant = FloorModulo(poly.constant, c);
  if (CountTerms(whole) > 0) {
    const Node* tail = MakeFloorDiv(FromPoly(std::move(rest)), ConstNode(c));
    return AddNodes(FromPoly(std::move(whole)), tail);
  }
  if (LeadingCoef(p) < 0) {
    const Node* flipped = AddNodes(ConstNode(c - 1), p, -1);
    return Negate(MakeFloorDiv(flipped, ConstNode(c)));
  }
  if (g > 1) {
    for (Term& t : rest.terms) t.coef /= g;
    rest.constant /= g;
    return MakeFloorDiv(FromPoly(std::move(rest)), ConstNode(c / g));
  }
  if (const Node* d = OnlyFloorDiv(p); d != nullptr && d->args[1]->is_const()) {
    const Node* b = d->args[1];
    int64_t bc;
    if (!__builtin_mul_overflow(b->constant, c, &bc)) {
      const Node* e = AddNodes(p, d, -1);
      return MakeFloorDiv(AddNodes(d->args[0], MulNodes(b, e)), ConstNode(bc));
    }
  }
  if (p->kind == Kind::kFloorDiv && !p->args[1]->is_const()) {
    return MakeFloorDiv(p->args[0], ScaleNode(p->args[1], c));
  }
  return InternAtom(Kind::kFloorDiv, p, ConstNode(c));
}

const Node* ModByConst(const Node* p, int64_t c) {
  Poly poly = PolyOf(p);
  Poly next;
  next.constant = FloorModulo(poly.constant, c);
  bool changed = next.constant != poly.constant;
  int64_t g = c;
  for (const Term& t : poly.terms) {
    const int64_t coef = FloorModulo(t.coef, c);
    changed |= coef != t.coef;
    // A term whose every value is a multiple of c goes; in 128 bits since the product is only
    // tested.
    if (static_cast<__int128>(coef) * t.mono->divisor % c == 0) {
      changed = true;
      continue;
    }
    if (t.mono->kind == Kind::kMod && t.mono->args[1]->is_const() &&
        static_cast<__int128>(coef) * t.mono->args[1]->constant % c == 0) {
      next.AddScaled(t.mono->args[0], coef);
      changed = true;
      continue;
    }
    next.terms.push_back({t.mono, coef});
    g = Gcd(g, coef);
  }
  if (changed) return MakeMod(FromPoly(std::move(next)), ConstNode(c));
  if (g > 1) {
    const int64_t r = next.constant % g;
    for (Term& t : next.terms) t.coef /= g;
    next.constant /= g;
    const Node* inner = MakeMod(FromPoly(std::move(next)), ConstNode(c / g));
    return AddNodes(ScaleNode(inner, g), ConstNode(r));
  }
  return InternAtom(Kind::kMod, p, ConstNode(c));
}

void CheckDivisor(const Node* q) {
  WEFT_CHECK(!q->is_const() || q->constant != 0, kInvalidModel, "division of a dimension by zero");
}

}  // namespace

namespace {

const Node* FloorDivByRules(const Node* p, const Node* q) {
  if (LeadingCoef(q) < 0) return MakeFloorDiv(Negate(p), Negate(q));
  const Range r = RangeFloorDiv(p->range, q->range);
  if (r.lo == r.hi) return ConstNode(r.lo);
  const Node *quotient = nullptr, *rest = nullptr, *factor = nullptr;
  if (PolyDivideExact(p, q, &quotient)) return quotient;
  if (q->is_const()) return FloorDivByConst(p, q->constant);
  if (SplitMultiples(p, q, &quotient, &rest)) return AddNodes(quotient, MakeFloorDiv(rest, q));
  if (CancelCommon(&p, &q, &factor)) return MakeFloorDiv(p, q);
  if (q->range.lo >= 0) {
    if (p->kind == Kind::kFloorDiv) return MakeFloorDiv(p->args[0], MulNodes(p->args[1], q));
    if (p->kind == Kind::kMod && p->args[1] == q) return ConstNode(0);
  }
  return InternAtom(Kind::kFloorDiv, p, q);
}

const Node* ModByRules(const Node* p, const Node* q) {
  if (LeadingCoef(q) < 0) return Negate(MakeMod(Negate(p), Negate(q)));
  if (p->range.lo >= 0 && p->range.hi < q->range.lo) return p;
  if (q->is_const()) return ModByConst(p, q->constant);
  const Node *quotient = nullptr, *rest = nullptr, *factor = nullptr;
  if (PolyDivideExact(p, q, &quotient)) return ConstNode(0);
  if (SplitMultiples(p, q, &quotient, &rest)) return MakeMod(rest, q);
  if (CancelCommon(&p, &q, &factor)) return MulNodes(factor, MakeMod(p, q));
  if (p->kind == Kind::kMod && p->args[1] == q) return p;
  return InternAtom(Kind::kMod, p, q);
}

}  // namespace

// A rule whose result leaves 64 bits is no rule for these operands: the atom stands as it is.

const Node* MakeFloorDiv(const Node* p, const Node* q) {
  CheckDivisor(q);
  if (p->is_const() && q->is_const()) return ConstNode(FloorDivide(p->constant, q->constant));
  if (p->is_const() && p->constant == 0) return p;
  if (q->is_const() && q->constant == 1) return p;
  if (p == q) return ConstNode(1);
  return UnlessOverflow([&] { return FloorDivByRules(p, q); },
                        [&] { return InternAtom(Kind::kFloorDiv, p, q); });
}

const Node* MakeMod(const Node* p, const Node* q) {
  CheckDivisor(q);
  if (p->is_const() && q->is_const()) return ConstNode(FloorModulo(p->constant, q->constant));
  if (p->is_const() && p->constant == 0) return p;
  if ((q->is_const() && q->constant == 1) || p == q) return ConstNode(0);
  return UnlessOverflow([&] { return ModByRules(p, q); },
                        [&] { return InternAtom(Kind::kMod, p, q); });
}

const Node* MakeExactDiv(const Node* p, const Node* q) {
  CheckDivisor(q);
  const Node* quotient = nullptr;
  if (PolyDivideExact(p, q, &quotient)) return quotient;
  return MakeFloorDiv(p, q);
}

const Node* MakeAtom(Kind kind, std::vector<const Node*> args) {
  switch (kind) {
    case Kind::kFloorDiv:
      return MakeFloorDiv(args[0], args[1]);
    case Kind::kMod:
      return MakeMod(args[0], args[1]);
    case Kind::kBcast:
      return MakeBcast(std::move(args));
    default:
      return MakeMinMax(kind, std::move(args));
  }
}

}  // namespace weft::sym
