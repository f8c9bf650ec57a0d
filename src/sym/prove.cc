/// prove.cc: proofs about expressions: intervals, divisibility, the sign of canonical differences,
/// and case splits.
///
/// Nothing here guesses: yes and no are proved for all values the facts allow, everything else is
/// unknown. The search is bounded, so a proof may be missed but never takes long.
#include <algorithm>

#include "facts_impl.h"
#include "weft/support/check.h"

namespace weft {

using sym::ConstNode;
using sym::Kind;
using sym::Node;
using sym::Poly;
using sym::Term;

namespace {

/// Sub-goals one question may open.
constexpr int kBudget = 48;

}  // namespace

bool Facts::Impl::NonNegative(const Node* raw, int* budget) const {
  if (--*budget < 0) return false;
  const Node* d = Simplify(raw);
  if (RawRange(d).lo >= 0) return true;
  if (d->is_const()) return false;
  // m*e >= 0 from m >= 0 and e >= 0.
  if (const Node* m = sym::CommonMonomial(d, d); m != nullptr && m != d && RawRange(m).lo >= 0) {
    const Node* e = nullptr;
    if (sym::PolyDivideExact(d, m, &e) && NonNegative(e, budget)) return true;
  }
  // d >= 0 by bounds of the atom of one term.
  const auto by = [&](const Term& t) {
    const Node* atom = t.mono;
    if (!atom->is_atom() || atom->kind == Kind::kSymbol) return false;
    const Node* rest = sym::AddNodes(d, atom, -t.coef);
    const auto with = [&](const Node* replacement) {
      return sym::AddNodes(rest, replacement, t.coef);
    };
    switch (atom->kind) {
      case Kind::kFloorDiv: {
        // p - (c-1) <= c*(p//c) <= p. With integers, c*d >= -(c-1) already gives d >= 0.
        if (!atom->args[1]->is_const()) return false;
        const int64_t c = atom->args[1]->constant;
        const Node* p =
            t.coef < 0 ? atom->args[0] : sym::AddNodes(atom->args[0], ConstNode(c - 1), -1);
        const Node* scaled = sym::AddNodes(sym::ScaleNode(rest, c), p, t.coef);
        return NonNegative(sym::AddNodes(scaled, ConstNode(c - 1)), budget);
      }
      case Kind::kMod:
        // 0 <= p % q <= p for p >= 0.
        return t.coef < 0 && RawRange(atom->args[0]).lo >= 0 && RawRange(atom->args[1]).lo >= 0 &&
               NonNegative(with(atom->args[0]), budget);
      default: {
        // min, max and bcast are one of their operands; -min and max are at least each of them.
        const bool any =
            (atom->kind == Kind::kMin && t.coef < 0) || (atom->kind == Kind::kMax && t.coef > 0);
        bool all = true;
        for (const Node* a : atom->args) {
          const bool holds = NonNegative(with(a), budget);
          if (any && holds) return true;
          all &= holds;
          if (!any && !all) break;
        }
        return !any && all;
      }
    }
  };
  const Poly poly = sym::PolyOf(d);
  // Bounds that leave 64 bits prove nothing; those of another term may.
  return std::any_of(poly.terms.begin(), poly.terms.end(), [&](const Term& t) {
    return sym::UnlessOverflow([&] { return by(t); }, [] { return false; });
  });
}

bool Facts::Impl::ProvedNonNegative(const Node* d) const {
  int budget = kBudget;
  return sym::UnlessOverflow([&] { return NonNegative(d, &budget); }, [] { return false; });
}

Proof Facts::Impl::IsZero(const Node* raw) const {
  const Node* d = Simplify(raw);
  if (d->is_const()) return d->constant == 0 ? Proof::kYes : Proof::kNo;
  const Range r = RawRange(d);
  if (r.lo > 0 || r.hi < 0) return Proof::kNo;
  // A multiple of g plus a constant that is none.
  if (d->kind == Kind::kSum && d->constant != 0) {
    const Node* rest = sym::AddNodes(d, ConstNode(d->constant), -1);
    const int64_t g = RawDivisor(rest);
    if (g > 1 && d->constant % g != 0) return Proof::kNo;
  }
  const Node* minus = sym::ScaleNode(d, -1);
  const Node* one = ConstNode(1);
  if (ProvedNonNegative(d)) {
    if (ProvedNonNegative(minus)) return Proof::kYes;
    return ProvedNonNegative(sym::AddNodes(d, one, -1)) ? Proof::kNo : Proof::kUnknown;
  }
  return ProvedNonNegative(sym::AddNodes(minus, one, -1)) ? Proof::kNo : Proof::kUnknown;
}

Proof Facts::Impl::Divides(int64_t d, const Node* raw) const {
  const Node* n = Simplify(raw);
  if (n->is_const()) return n->constant % d == 0 ? Proof::kYes : Proof::kNo;
  if (RawDivisor(n) % d == 0) return Proof::kYes;
  const Node* m = Simplify(sym::MakeMod(n, ConstNode(d)));
  if (m->is_const()) return m->constant == 0 ? Proof::kYes : Proof::kNo;
  const sym::Affine a = sym::AffineOf(m);
  if (a.offset == 0 && a.key->kind == Kind::kMod && a.key->args[1]->is_const()) {
    const auto it = divisors.find(a.key->args[0]);
    if (it != divisors.end() && it->second % a.key->args[1]->constant == 0) return Proof::kYes;
  }
  return RawRange(m).lo > 0 ? Proof::kNo : Proof::kUnknown;
}

namespace {

/// Differences and scaled bounds may leave 64 bits; then nothing is proved.
template <class Ask>
Proof UnknownOnOverflow(Ask ask) {
  return sym::UnlessOverflow(ask, [] { return Proof::kUnknown; });
}

}  // namespace

Proof Facts::Equal(SymInt a, SymInt b) const {
  if (!a.known() || !b.known()) return Proof::kUnknown;
  if (a == b) return Proof::kYes;
  return UnknownOnOverflow([&] { return impl_->IsZero(sym::AddNodes(a.node(), b.node(), -1)); });
}

Proof Facts::LessEqual(SymInt a, SymInt b) const {
  if (!a.known() || !b.known()) return Proof::kUnknown;
  if (a == b) return Proof::kYes;
  return UnknownOnOverflow([&] {
    const Node* d = sym::AddNodes(b.node(), a.node(), -1);
    if (impl_->ProvedNonNegative(d)) return Proof::kYes;
    const Node* greater = sym::AddNodes(ConstNode(-1), d, -1);
    return impl_->ProvedNonNegative(greater) ? Proof::kNo : Proof::kUnknown;
  });
}

Proof Facts::Less(SymInt a, SymInt b) const {
  switch (LessEqual(b, a)) {
    case Proof::kYes:
      return Proof::kNo;
    case Proof::kNo:
      return Proof::kYes;
    default:
      return Proof::kUnknown;
  }
}

Proof Facts::Divides(int64_t d, SymInt e) const {
  WEFT_CHECK(d > 0, kApiMisuse, "divisor {} is not positive", d);
  if (!e.known()) return Proof::kUnknown;
  return UnknownOnOverflow([&] { return impl_->Divides(d, e.node()); });
}

}  // namespace weft
