/// facts.cc: recording of facts, ranges and divisors under them, and rewriting by them.
#include "facts_impl.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft {

using sym::ConstNode;
using sym::Factor;
using sym::Kind;
using sym::Node;
using sym::Poly;
using sym::Term;

namespace sym {

Affine AffineOf(const Node* n) {
  if (n->is_const()) return {n, 0, n->constant};
  if (n->kind != Kind::kSum) return {n, 1, 0};
  Poly p = PolyOf(n);
  const int64_t offset = p.constant;
  int64_t g = 0;
  for (const Term& t : p.terms) g = Gcd(g, t.coef);
  // A coefficient of INT64_MIN has no negation; leave such a sum unscaled.
  bool scalable = true;
  for (const Term& t : p.terms) scalable &= t.coef != INT64_MIN;
  if (!scalable) g = 1;
  const int64_t scale = scalable && p.terms[0].coef < 0 ? -g : g;
  p.constant = 0;
  for (Term& t : p.terms) t.coef /= scale;
  return {FromPoly(std::move(p)), scale, offset};
}

bool Mentions(const Node* n, const Node* symbol) {
  if ((n->symbol_mask & symbol->symbol_mask) == 0) return false;
  bool found = false;
  VisitPostorder(
      n, [&](const Node* x) { found |= x == symbol; }, [](const Node*) { return false; });
  return found;
}

}  // namespace sym

Range Facts::Impl::RawRange(const Node* n) const {
  if (!Touches(n)) return n->range;
  Range r = n->range;
  switch (n->kind) {
    case Kind::kConst:
    case Kind::kSymbol:
      break;
    case Kind::kProduct: {
      Range product{1, 1};
      for (const Factor& f : n->factors) {
        const Range atom = RawRange(f.atom);
        Range power{1, 1};
        for (int i = 0; i < f.power; ++i) power = sym::RangeMul(power, atom);
        if (f.power % 2 == 0) power.lo = std::max<int64_t>(power.lo, 0);
        product = sym::RangeMul(product, power);
      }
      r = sym::RangeMeet(r, product);
      break;
    }
    case Kind::kSum: {
      Range sum{n->constant, n->constant};
      for (const Term& t : n->terms) {
        sum = sym::RangeAdd(sum, sym::RangeMul({t.coef, t.coef}, RawRange(t.mono)));
      }
      r = sym::RangeMeet(r, sum);
      break;
    }
    default: {
      Range atom = RawRange(n->args[0]);
      for (size_t i = 1; i < n->args.size(); ++i) {
        const Range b = RawRange(n->args[i]);
        switch (n->kind) {
          case Kind::kFloorDiv:
            atom = sym::RangeFloorDiv(atom, b);
            break;
          case Kind::kMod:
            atom = sym::RangeMod(atom, b);
            break;
          case Kind::kMin:
            atom = {std::min(atom.lo, b.lo), std::min(atom.hi, b.hi)};
            break;
          case Kind::kMax:
            atom = {std::max(atom.lo, b.lo), std::max(atom.hi, b.hi)};
            break;
          default:
            atom = sym::RangeJoin(atom, b);
            break;
        }
      }
      r = sym::RangeMeet(r, atom);
    }
  }
  if (!ranges.empty()) {
    const sym::Affine a = sym::AffineOf(n);
    const auto it = ranges.find(a.key);
    if (it != ranges.end()) {
      const Range scaled = sym::RangeMul(it->second, {a.scale, a.scale});
      r = sym::RangeMeet(r, sym::RangeAdd(scaled, {a.offset, a.offset}));
    }
  }
  return r;
}

int64_t Facts::Impl::RawDivisor(const Node* n) const {
  if (!Touches(n) || divisors.empty()) return n->divisor;
  int64_t d = n->divisor;
  // The least common multiple of two divisors is one; where it overflows, the larger one is kept.
  const auto improve = [&](int64_t other) {
    if (d == 0 || other == 0) return;
    int64_t lcm;
    d = __builtin_mul_overflow(d / sym::Gcd(d, other), other, &lcm) ? std::max(d, other) : lcm;
  };
  const auto multiply = [](int64_t a, int64_t b) {
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? std::max(a, b) : r;
  };
  switch (n->kind) {
    case Kind::kConst:
    case Kind::kSymbol:
      break;
    case Kind::kProduct: {
      int64_t product = 1;
      for (const Factor& f : n->factors) {
        const int64_t atom = RawDivisor(f.atom);
        for (int i = 0; i < f.power; ++i) product = multiply(product, atom);
      }
      improve(product);
      break;
    }
    case Kind::kSum: {
      int64_t g = sym::Gcd(n->constant, 0);
      for (const Term& t : n->terms)
        g = sym::Gcd(g, multiply(sym::Gcd(t.coef, 0), RawDivisor(t.mono)));
      if (n->constant != 0) {
        // The sum without its constant may have a divisor of its own.
        const Node* rest = sym::AddNodes(n, ConstNode(n->constant), -1);
        g = std::max(g, sym::Gcd(RawDivisor(rest), n->constant));
      }
      improve(g);
      break;
    }
    case Kind::kFloorDiv: {
      const Node* q = n->args[1];
      if (!q->is_const()) break;
      const int64_t p = RawDivisor(n->args[0]);
      if (p != 0 && p % q->constant == 0) improve(p / q->constant);
      break;
    }
    default: {
      int64_t g = 0;
      for (const Node* a : n->args) g = sym::Gcd(g, RawDivisor(a));
      improve(g);
    }
  }
  const auto it = divisors.find(n);
  if (it != divisors.end()) improve(it->second);
  return d;
}

const Node* Facts::Impl::Reduce(const Node* n) const {
  for (int round = 0; round < 4; ++round) {
    const Node* before = n;
    for (const Relation& r : relations) {
      if (r.atom != nullptr || (n->symbol_mask & r.zero->symbol_mask) == 0 || n->is_const())
        continue;
      Poly quotient, rest;
      if (sym::PolyDivide(n, r.zero, &quotient, &rest)) n = sym::FromPoly(std::move(rest));
    }
    if (n == before) break;
  }
  return n;
}

const Node* Facts::Impl::RebuildAtom(const Node* n, std::vector<const Node*> args) const {
  const Kind kind = n->kind;
  if (kind == Kind::kFloorDiv || kind == Kind::kMod) {
    const Range p = RawRange(args[0]), q = RawRange(args[1]);
    if (kind == Kind::kFloorDiv) {
      const Range r = sym::RangeFloorDiv(p, q);
      if (r.lo == r.hi) return ConstNode(r.lo);
    } else if (p.lo >= 0 && p.hi < q.lo) {
      return args[0];
    } else if (args[1]->is_const() && args[1]->constant > 0) {
      // Terms that the facts make multiples of the divisor go.
      const int64_t c = args[1]->constant;
      Poly kept = sym::PolyOf(args[0]);
      size_t out = 0;
      for (const Term& t : kept.terms) {
        if (static_cast<__int128>(t.coef) * RawDivisor(t.mono) % c != 0) kept.terms[out++] = t;
      }
      kept.terms.resize(out);
      args[0] = RawDivisor(args[0]) % c == 0 ? ConstNode(0) : sym::FromPoly(std::move(kept));
    }
  } else if (kind == Kind::kBcast) {
    for (const Node* a : args) {
      if (sym::NeverOne(RawRange(a), RawDivisor(a))) return a;
    }
  } else if (kind == Kind::kMin || kind == Kind::kMax) {
    for (size_t i = 0; i < args.size(); ++i) {
      for (size_t j = 0; j < args.size() && args.size() > 1; ++j) {
        if (i == j) continue;
        const Node* larger = kind == Kind::kMax ? args[i] : args[j];
        const Node* smaller = kind == Kind::kMax ? args[j] : args[i];
        if (RawRange(larger).lo < RawRange(smaller).hi &&
            RawRange(sym::AddNodes(larger, smaller, -1)).lo < 0)
          continue;
        args.erase(args.begin() + static_cast<std::ptrdiff_t>(j));
        if (j < i) --i;
        --j;
      }
    }
  }
  return sym::MakeAtom(kind, std::move(args));
}

const Node* Facts::Impl::SimplifyOnce(const Node* n, Memo& memo) const {
  if (!Touches(n)) return n;
  const auto found = memo.find(n);
  if (found != memo.end()) return found->second;
  const Node* result = n;
  switch (n->kind) {
    case Kind::kConst:
      break;
    case Kind::kSymbol: {
      const auto it = substitutions.find(n);
      if (it != substitutions.end()) result = it->second.value;
      break;
    }
    case Kind::kProduct:
      result = ConstNode(1);
      for (const Factor& f : n->factors) {
        const Node* atom = SimplifyOnce(f.atom, memo);
        for (int i = 0; i < f.power; ++i) result = sym::MulNodes(result, atom);
      }
      break;
    case Kind::kSum: {
      Poly p;
      p.constant = n->constant;
      for (const Term& t : n->terms) p.AddScaled(SimplifyOnce(t.mono, memo), t.coef);
      result = sym::FromPoly(std::move(p));
      break;
    }
    default: {
      std::vector<const Node*> args;
      for (const Node* a : n->args) args.push_back(SimplifyOnce(a, memo));
      result = RebuildAtom(n, std::move(args));
      for (const Relation& r : relations)
        if (r.atom == result) result = r.value;
    }
  }
  if (!relations.empty()) result = Reduce(result);
  if (!result->is_const() && !ranges.empty()) {
    const Range r = RawRange(result);
    if (r.lo == r.hi) result = ConstNode(r.lo);
  }
  memo.emplace(n, result);
  return result;
}

const Node* Facts::Impl::SimplifyOrThrow(const Node* n) const {
  // A rewrite can open another (a range that collapses, a term that cancels); few rounds are ever
  // needed.
  for (int round = 0; round < 4 && Touches(n); ++round) {
    Memo memo;
    const Node* next = SimplifyOnce(n, memo);
    if (next == n) break;
    n = next;
  }
  return n;
}

const Node* Facts::Impl::Simplify(const Node* n) const {
  return sym::UnlessOverflow([&] { return SimplifyOrThrow(n); }, [&] { return n; });
}

void Facts::Impl::SetRange(const Node* raw, Range r) {
  const Node* n = Simplify(raw);
  const auto contradiction = [&](Range known) {
    WEFT_THROW(kShapeMismatch, "{} is in [{}, {}], which excludes [{}, {}]", sym::PrintNode(n),
               known.lo, known.hi, r.lo, r.hi);
  };
  const Range known = RawRange(n);
  const Range met = sym::RangeMeet(known, r);
  if (met.lo > met.hi) contradiction(known);
  if (n->is_const() || (met.lo == known.lo && met.hi == known.hi)) return;
  // scale*key + offset in [lo, hi]: divide inward.
  const sym::Affine a = sym::AffineOf(n);
  Range key;
  const auto shifted = [&](int64_t v) { return static_cast<__int128>(v) - a.offset; };
  const auto floor_div = [&](__int128 v) {
    const __int128 q = v / a.scale;
    return q - (v % a.scale != 0 && (v < 0) != (a.scale < 0));
  };
  const auto ceil_div = [&](__int128 v) { return -floor_div(-v); };
  if (a.scale > 0) {
    if (met.lo != sym::kMinusInf) key.lo = sym::Clip(ceil_div(shifted(met.lo)));
    if (met.hi != sym::kPlusInf) key.hi = sym::Clip(floor_div(shifted(met.hi)));
  } else {
    if (met.hi != sym::kPlusInf) key.lo = sym::Clip(ceil_div(shifted(met.hi)));
    if (met.lo != sym::kMinusInf) key.hi = sym::Clip(floor_div(shifted(met.lo)));
  }
  const Range key_known = RawRange(a.key);
  const Range key_met = sym::RangeMeet(key_known, key);
  if (key_met.lo > key_met.hi) contradiction(known);
  if (key_met.lo == key_known.lo && key_met.hi == key_known.hi) return;
  ranges[a.key] = key_met;
  mask |= a.key->symbol_mask;
}

void Facts::Impl::SetDivisor(const Node* raw, int64_t d) {
  WEFT_CHECK(d > 0, kApiMisuse, "divisor {} is not positive", d);
  const Node* m = Simplify(sym::MakeMod(Simplify(raw), ConstNode(d)));
  const sym::Affine a = sym::AffineOf(m);
  if (a.scale == 0 && a.offset == 0) return;
  // raw % d = scale*(p % c) + offset, 0 <= offset < scale unless it is no multiple of scale.
  WEFT_CHECK(a.scale != 0 && a.offset % a.scale == 0, kShapeMismatch,
             "{} is never a multiple of {}", sym::PrintNode(raw), d);
  if (a.key->kind != Kind::kMod || !a.key->args[1]->is_const() || a.offset != 0) {
    WEFT_CHECK(AddEqual(m, ConstNode(0), false), kShapeMismatch, "{} is never a multiple of {}",
               sym::PrintNode(raw), d);
    return;
  }
  const Node* p = a.key->args[0];
  const int64_t c = a.key->args[1]->constant;
  int64_t& stored = divisors.emplace(p, 1).first->second;
  int64_t lcm;
  stored =
      __builtin_mul_overflow(stored / sym::Gcd(stored, c), c, &lcm) ? std::max(stored, c) : lcm;
  mask |= p->symbol_mask;
}

}  // namespace weft
