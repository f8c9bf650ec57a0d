/// sum.cc: canonical sums of products, and division of polynomials.
///
/// A sum is an integer polynomial over atoms. Terms are in graded lexicographic order, which is a
/// monomial order (a < b implies a*m < b*m), so that long division terminates. Products are
/// expanded; what the expansion would blow up is replaced by a symbol that stands for it.
#include <algorithm>

#include "node.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft::sym {

FactorList::FactorList(const Node* mono) : single_{mono, 1}, data_(&single_), size_(1) {
  if (mono == nullptr) {
    size_ = 0;
  } else if (mono->kind == Kind::kProduct) {
    data_ = mono->factors.data();
    size_ = mono->factors.size();
  }
}

const Node* MonomialOf(std::vector<Factor> factors) {
  if (factors.empty()) return nullptr;
  if (factors.size() == 1 && factors[0].power == 1) return factors[0].atom;
  Node n(Kind::kProduct);
  n.factors = std::move(factors);
  return Intern(std::move(n));
}

const Node* MulMonomials(const Node* a, const Node* b) {
  if (a == nullptr) return b;
  if (b == nullptr) return a;
  const FactorList fa(a), fb(b);
  std::vector<Factor> out;
  out.reserve(fa.size() + fb.size());
  size_t i = 0, j = 0;
  while (i < fa.size() && j < fb.size()) {
    if (fa[i].atom == fb[j].atom) {
      out.push_back({fa[i].atom, fa[i].power + fb[j].power});
      ++i, ++j;
    } else if (CompareNodes(fa[i].atom, fb[j].atom) < 0) {
      out.push_back(fa[i++]);
    } else {
      out.push_back(fb[j++]);
    }
  }
  for (; i < fa.size(); ++i) out.push_back(fa[i]);
  for (; j < fb.size(); ++j) out.push_back(fb[j]);
  return MonomialOf(std::move(out));
}

bool DivideMonomials(const Node* a, const Node* b, const Node** quotient) {
  const FactorList fa(a), fb(b);
  std::vector<Factor> out;
  size_t j = 0;
  for (const Factor& f : fa) {
    int32_t power = f.power;
    if (j < fb.size() && fb[j].atom == f.atom) power -= fb[j++].power;
    if (power < 0) return false;
    if (power > 0) out.push_back({f.atom, power});
  }
  if (j != fb.size()) return false;
  *quotient = MonomialOf(std::move(out));
  return true;
}

const Node* CommonMonomial(const Node* a, const Node* b) {
  bool first = true;
  std::vector<Factor> common;
  for (const Node* side : {a, b}) {
    const Poly poly = PolyOf(side);
    if (poly.constant != 0) return nullptr;
    for (const Term& t : poly.terms) {
      const FactorList factors(t.mono);
      if (first) {
        common.assign(factors.begin(), factors.end());
        first = false;
        continue;
      }
      std::vector<Factor> next;
      for (const Factor& c : common) {
        for (const Factor& f : factors) {
          if (f.atom == c.atom) next.push_back({c.atom, std::min(c.power, f.power)});
        }
      }
      common = std::move(next);
    }
  }
  return MonomialOf(std::move(common));
}

void Poly::AddScaled(const Node* node, int64_t scale) {
  if (scale == 0) return;
  switch (node->kind) {
    case Kind::kConst:
      constant = CheckedAdd(constant, CheckedMul(node->constant, scale));
      break;
    case Kind::kSum:
      constant = CheckedAdd(constant, CheckedMul(node->constant, scale));
      for (const Term& t : node->terms) terms.push_back({t.mono, CheckedMul(t.coef, scale)});
      break;
    default:
      terms.push_back({node, scale});
  }
}

void Poly::Collect() {
  const auto before = [](const Term& a, const Term& b) {
    return CompareMonomials(a.mono, b.mono) < 0;
  };
  if (!std::is_sorted(terms.begin(), terms.end(), before))
    std::sort(terms.begin(), terms.end(), before);
  size_t out = 0;
  for (size_t i = 0; i < terms.size();) {
    Term t = terms[i++];
    // In 128 bits, so that an intermediate sum that overflows but cancels is no error and the order
    // is irrelevant.
    __int128 coef = t.coef;
    for (; i < terms.size() && terms[i].mono == t.mono; ++i) coef += terms[i].coef;
    if (coef == 0) continue;
    WEFT_CHECK(coef >= INT64_MIN && coef <= INT64_MAX, kOverflow,
               "a coefficient of a symbolic sum overflows 64 bits");
    t.coef = static_cast<int64_t>(coef);
    terms[out++] = t;
  }
  terms.resize(out);
}

Poly PolyOf(const Node* node) {
  Poly p;
  p.AddScaled(node, 1);
  return p;
}

namespace {

/// Index of `mono` in sorted terms, or -1.
int FindTerm(const std::vector<Term>& terms, const Node* mono) {
  for (size_t i = 0; i < terms.size(); ++i) {
    if (terms[i].mono == mono) return static_cast<int>(i);
  }
  return -1;
}

/// k * m as a node-free scale: the multiplier of an identity.
struct Multiplier {
  int64_t coef;
  const Node* mono;  ///< nullptr for 1
};

/// Splits term = k * (q * d) for the atom d = floordiv(p, q), q of one term; false where it is not
/// such a term.
bool SplitByDivisor(const Term& term, const Factor& d, Multiplier* k) {
  const Node* q = d.atom->args[1];
  if (d.power != 1 || q->kind == Kind::kSum) return false;
  const Node* rest = nullptr;
  if (!DivideMonomials(term.mono, d.atom, &rest)) return false;
  if (q->is_const()) {
    if (term.coef % q->constant != 0) return false;
    *k = {term.coef / q->constant, rest};
    return true;
  }
  const Node* mono = nullptr;
  if (!DivideMonomials(rest, q, &mono)) return false;
  *k = {term.coef, mono};
  return true;
}

/// True where the poly holds every non-constant term of scale * k * p with exactly that
/// coefficient. A constant of p is one more term when k has a monomial; otherwise it goes to the
/// poly's constant.
bool ContainsScaled(const Poly& poly, const Node* p, Multiplier k, int64_t scale,
                    std::vector<int>* at) {
  const Poly sub = PolyOf(p);
  at->clear();
  const auto matches = [&](const Node* mono, int64_t coef) {
    int64_t want;
    if (__builtin_mul_overflow(coef, k.coef, &want) || __builtin_mul_overflow(want, scale, &want))
      return false;
    const int i = FindTerm(poly.terms, MulMonomials(mono, k.mono));
    if (i < 0 || poly.terms[i].coef != want) return false;
    at->push_back(i);
    return true;
  };
  if (sub.terms.empty()) return false;
  for (const Term& t : sub.terms) {
    if (!matches(t.mono, t.coef)) return false;
  }
  return sub.constant == 0 || k.mono == nullptr || matches(nullptr, sub.constant);
}

/// One step of   k*p - k*q*floordiv(p, q)  ->  k*mod(p, q)
///         and   k*q*floordiv(p, q) + k*mod(p, q)  ->  k*p.
bool ApplyDivModIdentity(Poly* poly) {
  for (size_t i = 0; i < poly->terms.size(); ++i) {
    const Term term = poly->terms[i];
    if (!term.mono->has_div) continue;
    for (const Factor& f : FactorList(term.mono)) {
      Multiplier k;
      if (f.atom->kind != Kind::kFloorDiv || !SplitByDivisor(term, f, &k)) continue;
      const Node* p = f.atom->args[0];
      const Node* q = f.atom->args[1];
      std::vector<int> at;
      if (k.coef != INT64_MIN && ContainsScaled(*poly, p, k, -1, &at)) {
        const Poly sub = PolyOf(p);
        if (k.mono == nullptr)
          poly->constant = CheckedAdd(poly->constant, CheckedMul(k.coef, sub.constant));
        at.push_back(static_cast<int>(i));
        std::sort(at.rbegin(), at.rend());
        for (const int j : at) poly->terms.erase(poly->terms.begin() + j);
        Poly mod;
        mod.AddScaled(MakeMod(p, q), -k.coef);
        for (const Term& t : mod.terms)
          poly->terms.push_back({MulMonomials(t.mono, k.mono), t.coef});
        if (k.mono != nullptr && mod.constant != 0) {
          poly->terms.push_back({k.mono, mod.constant});
        } else {
          poly->constant = CheckedAdd(poly->constant, mod.constant);
        }
        poly->Collect();
        return true;
      }
      // mod(p, q) may be canonical in another form (a multiple, a sum); only the plain atom is
      // matched.
      const Node* mod = MakeMod(p, q);
      if (mod->kind != Kind::kMod) continue;
      const int j = FindTerm(poly->terms, MulMonomials(mod, k.mono));
      if (j < 0 || poly->terms[j].coef != k.coef) continue;
      const int first = std::min(j, static_cast<int>(i)), second = std::max(j, static_cast<int>(i));
      poly->terms.erase(poly->terms.begin() + second);
      poly->terms.erase(poly->terms.begin() + first);
      const Poly sub = PolyOf(p);
      for (const Term& t : sub.terms)
        poly->terms.push_back({MulMonomials(t.mono, k.mono), CheckedMul(t.coef, k.coef)});
      const int64_t constant = CheckedMul(sub.constant, k.coef);
      if (k.mono != nullptr && constant != 0) {
        poly->terms.push_back({k.mono, constant});
      } else {
        poly->constant = CheckedAdd(poly->constant, constant);
      }
      poly->Collect();
      return true;
    }
  }
  return false;
}

/// One step of   k*mod(p, q) - k*p'  ->  -k*q*floordiv(p', q)
/// where p' is p but for multiples of q: h + (-h)%7 is 7*((h + 6)//7), h rounded up.
bool ApplyModIdentity(Poly* poly) {
  for (size_t i = 0; i < poly->terms.size(); ++i) {
    const Term term = poly->terms[i];
    if (!term.mono->has_div) continue;
    for (const Factor& f : FactorList(term.mono)) {
      const Node* rest = nullptr;
      if (f.atom->kind != Kind::kMod || f.power != 1 ||
          !DivideMonomials(term.mono, f.atom, &rest) || term.coef == INT64_MIN)
        continue;
      const Node* q = f.atom->args[1];
      const int64_t k = term.coef, c = q->is_const() ? q->constant : 0;
      Poly p = PolyOf(f.atom->args[0]), left = *poly;
      left.terms[i].coef = 0;
      bool found = !p.terms.empty();
      for (Term& t : p.terms) {
        const int at = found ? FindTerm(left.terms, MulMonomials(t.mono, rest)) : -1;
        int64_t difference = 0;
        found = at >= 0 && left.terms[size_t(at)].coef != INT64_MIN &&
                left.terms[size_t(at)].coef % k == 0;
        if (!found) break;
        const int64_t own = -(left.terms[size_t(at)].coef / k);
        found = !__builtin_sub_overflow(own, t.coef, &difference) &&
                (c == 0 ? difference == 0 : difference % c == 0);
        t.coef = own;
        left.terms[size_t(at)].coef = 0;
      }
      if (!found) continue;
      const Node* factor = rest == nullptr ? ConstNode(k) : ScaleNode(rest, k);
      left.AddScaled(MulNodes(factor, ConstNode(p.constant)), 1);
      left.AddScaled(MulNodes(factor, MulNodes(q, MakeFloorDiv(FromPoly(p), q))), -1);
      left.Collect();
      if (left.terms.size() >= poly->terms.size()) continue;
      *poly = std::move(left);
      return true;
    }
  }
  return false;
}

}  // namespace

const Node* FromPoly(Poly poly) {
  poly.Collect();
  bool has_div = false;
  for (const Term& t : poly.terms) has_div |= t.mono->has_div;
  // Each step leaves fewer terms, so this ends.
  while (has_div && poly.terms.size() >= 2 && poly.terms.size() <= kMaxTerms) {
    const Poly before = poly;
    const bool applied =
        UnlessOverflow([&] { return ApplyDivModIdentity(&poly) || ApplyModIdentity(&poly); },
                       [&] {
                         poly = before;
                         return false;
                       });
    if (!applied) break;
  }
  if (poly.terms.empty()) return ConstNode(poly.constant);
  if (poly.terms.size() == 1 && poly.terms[0].coef == 1 && poly.constant == 0)
    return Bounded(poly.terms[0].mono);
  Node n(Kind::kSum);
  n.terms = std::move(poly.terms);
  n.constant = poly.constant;
  return Bounded(Intern(std::move(n)));
}

const Node* AddNodes(const Node* a, const Node* b, int64_t scale_b) {
  Poly p = PolyOf(a);
  p.AddScaled(b, scale_b);
  return FromPoly(std::move(p));
}

const Node* ScaleNode(const Node* a, int64_t k) {
  Poly p;
  p.AddScaled(a, k);
  return FromPoly(std::move(p));
}

const Node* MulNodes(const Node* a, const Node* b) {
  if (a->is_const()) return ScaleNode(b, a->constant);
  if (b->is_const()) return ScaleNode(a, b->constant);
  // Expanding more than this many products is not worth it; the symbol that stands for a factor
  // keeps the product.
  const auto count = [](const Node* n) { return n->terms.size() + 1; };
  const bool may_mint = !a->has_extent && !b->has_extent;
  if (may_mint && count(a) * count(b) > 4 * kMaxTerms) {
    const bool a_larger = count(a) != count(b) ? count(a) > count(b) : CompareNodes(a, b) > 0;
    return a_larger ? MulNodes(Mint(a), b) : MulNodes(a, Mint(b));
  }
  const Poly pa = PolyOf(a), pb = PolyOf(b);
  Poly out;
  out.constant = CheckedMul(pa.constant, pb.constant);
  for (const Term& t : pa.terms) {
    if (pb.constant != 0) out.terms.push_back({t.mono, CheckedMul(t.coef, pb.constant)});
    for (const Term& u : pb.terms) {
      out.terms.push_back({MulMonomials(t.mono, u.mono), CheckedMul(t.coef, u.coef)});
    }
  }
  if (pa.constant != 0) {
    for (const Term& u : pb.terms) out.terms.push_back({u.mono, CheckedMul(u.coef, pa.constant)});
  }
  // A monomial of too high a degree becomes a symbol before it enters the sum.
  for (Term& t : out.terms) {
    if (may_mint && t.mono->degree > kMaxDegree) t.mono = Mint(t.mono);
  }
  return FromPoly(std::move(out));
}

int64_t Content(const Node* p) {
  const Poly poly = PolyOf(p);
  int64_t g = Gcd(poly.constant, 0);
  for (const Term& t : poly.terms) g = Gcd(g, t.coef);
  return g;
}

bool PolyDivide(const Node* p, const Node* q, Poly* quotient, Poly* rest) {
  const Poly divisor = PolyOf(q);
  const Term lead = divisor.terms[0];
  *quotient = {};
  *rest = PolyOf(p);
  rest->Collect();
  // The reduced monomial strictly decreases, so each pass over the rest starts where the last one
  // stopped.
  for (int steps = 0; steps < kMaxTerms; ++steps) {
    size_t i = 0;
    const Node* mono = nullptr;
    for (; i < rest->terms.size(); ++i) {
      const Term& t = rest->terms[i];
      if ((lead.coef != -1 || t.coef != INT64_MIN) && t.coef % lead.coef == 0 &&
          DivideMonomials(t.mono, lead.mono, &mono)) {
        break;
      }
    }
    if (i == rest->terms.size()) {
      quotient->Collect();
      return true;
    }
    const int64_t k = rest->terms[i].coef / lead.coef;
    if (mono == nullptr) {
      quotient->constant = CheckedAdd(quotient->constant, k);
    } else {
      quotient->terms.push_back({mono, k});
    }
    for (const Term& t : divisor.terms) {
      int64_t coef;
      if (__builtin_mul_overflow(t.coef, k, &coef) || __builtin_sub_overflow(0, coef, &coef))
        return false;
      rest->terms.push_back({MulMonomials(t.mono, mono), coef});
    }
    int64_t coef;
    if (__builtin_mul_overflow(divisor.constant, k, &coef) ||
        __builtin_sub_overflow(0, coef, &coef))
      return false;
    if (mono == nullptr) {
      if (__builtin_add_overflow(rest->constant, coef, &rest->constant)) return false;
    } else if (coef != 0) {
      rest->terms.push_back({mono, coef});
    }
    rest->Collect();
    if (rest->terms.size() > kMaxTerms) return false;
  }
  return false;
}

bool PolyDivideExact(const Node* p, const Node* q, const Node** quotient) {
  if (q->is_const()) {
    const int64_t c = q->constant;
    Poly out = PolyOf(p);
    if (c == 0 || (c == -1 && out.constant == INT64_MIN) || out.constant % c != 0) return false;
    out.constant /= c;
    for (Term& t : out.terms) {
      if ((c == -1 && t.coef == INT64_MIN) || t.coef % c != 0) return false;
      t.coef /= c;
    }
    *quotient = FromPoly(std::move(out));
    return true;
  }
  Poly k, rest;
  if (!PolyDivide(p, q, &k, &rest) || !rest.terms.empty() || rest.constant != 0) return false;
  *quotient = FromPoly(std::move(k));
  return true;
}

}  // namespace weft::sym
