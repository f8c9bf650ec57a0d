/// equalities.cc: recording of equalities, and the public face of Facts with its text form.
#include <algorithm>

#include "facts_impl.h"
#include "weft/support/check.h"

namespace weft {

using sym::ConstNode;
using sym::Factor;
using sym::Kind;
using sym::Node;
using sym::Poly;
using sym::SymbolKind;
using sym::Term;

namespace {

/// Symbols that the user did not name give way first. A property of the symbol, so that the choice
/// does not depend on what the process did before.
bool IsFresh(const Node* symbol) {
  return symbol->symbol_kind == SymbolKind::kUnbacked || symbol->symbol_kind == SymbolKind::kMinted;
}

/// The symbol that 0 == d is solved for, with its term: coefficient 1 or -1, and nowhere else in d.
/// The last in Compare order, so that the first stays as representative.
const Term* SolvableTerm(const Node* d) {
  const Term* best = nullptr;
  const Term* end = d->terms.data() + d->terms.size();
  for (const Term* t = d->terms.data(); t != end; ++t) {
    if (t->mono->kind != Kind::kSymbol || (t->coef != 1 && t->coef != -1)) continue;
    const bool elsewhere = std::any_of(d->terms.data(), end, [&](const Term& o) {
      return o.mono != t->mono && sym::Mentions(o.mono, t->mono);
    });
    if (elsewhere) continue;
    const bool fresh = IsFresh(t->mono), best_fresh = best != nullptr && IsFresh(best->mono);
    if (best == nullptr || fresh > best_fresh ||
        (fresh == best_fresh && sym::CompareNodes(t->mono, best->mono) > 0)) {
      best = t;
    }
  }
  return best;
}

/// A product of sizes that data decide. An extent that has a name keeps it: the run begins with it,
/// and comes to know the factors later or never.
bool IsProductOfUnbacked(const Node* value) {
  const std::vector<SymInt> symbols = SymInt(value).Symbols();
  return value->kind == Kind::kProduct && symbols.size() > 1 &&
         std::all_of(symbols.begin(), symbols.end(), [](SymInt s) { return s.is_unbacked(); });
}

/// The atom, no symbol, that 0 == d is solved for, with its term: coefficient 1 or -1, and nowhere
/// else in d. The largest, so that what stays is simpler.
const Term* SolvableAtom(const Node* d) {
  const Term* best = nullptr;
  for (const Term& t : d->terms) {
    if (!t.mono->is_atom() || t.mono->kind == Kind::kSymbol || (t.coef != 1 && t.coef != -1))
      continue;
    const bool elsewhere = std::any_of(d->terms.begin(), d->terms.end(), [&](const Term& o) {
      return o.mono != t.mono && sym::Mentions(o.mono, t.mono);
    });
    if (elsewhere) continue;
    if (best == nullptr || t.mono->size > best->mono->size ||
        (t.mono->size == best->mono->size && sym::CompareNodes(t.mono, best->mono) > 0))
      best = &t;
  }
  return best;
}

std::string Interval(Range r) {
  return fmt::format("[{}, {}]", r.lo == sym::kMinusInf ? "-inf" : std::to_string(r.lo),
                     r.hi == sym::kPlusInf ? "inf" : std::to_string(r.hi));
}

}  // namespace

bool Facts::Impl::Substitute(const Node* symbol, const Node* value, bool assumed) {
  const Range met = sym::RangeMeet(RawRange(symbol), RawRange(value));
  if (met.lo > met.hi) return false;
  // Facts that mention the symbol are said again of its value. A contradiction among them undoes
  // everything.
  std::vector<std::pair<const Node*, Range>> moved_ranges = {{value, RawRange(symbol)}};
  std::vector<std::pair<const Node*, int64_t>> moved_divisors;
  std::vector<Relation> moved_relations;
  for (const auto& [key, range] : ranges) {
    if (key != symbol && sym::Mentions(key, symbol)) moved_ranges.emplace_back(key, range);
  }
  for (const auto& [key, d] : divisors) {
    if (sym::Mentions(key, symbol)) moved_divisors.emplace_back(key, d);
  }
  for (const Relation& r : relations) {
    if (sym::Mentions(r.zero, symbol)) moved_relations.push_back(r);
  }
  const Range value_range = RawRange(value);
  const bool adds_range = met.lo != value_range.lo || met.hi != value_range.hi;
  const bool can_fail = adds_range || moved_ranges.size() > 1 || !moved_divisors.empty() ||
                        !moved_relations.empty() || users.count(symbol) != 0;
  std::unique_ptr<Impl> backup = can_fail ? std::make_unique<Impl>(*this) : nullptr;
  try {
    // The first is the symbol's own, to be met with what is known of the value.
    for (size_t i = 1; i < moved_ranges.size(); ++i) ranges.erase(moved_ranges[i].first);
    ranges.erase(symbol);
    for (const auto& [key, d] : moved_divisors) divisors.erase(key);
    relations.erase(
        std::remove_if(relations.begin(), relations.end(),
                       [&](const Relation& r) { return sym::Mentions(r.zero, symbol); }),
        relations.end());
    substitutions[symbol] = {value, assumed};
    mask |= symbol->symbol_mask | value->symbol_mask;
    const auto note_users = [&](const Node* key, const Node* rhs) {
      for (const SymInt s : SymInt(rhs).Symbols()) users[s.node()].push_back(key);
    };
    // Right-hand sides stay free of substituted symbols.
    const auto it = users.find(symbol);
    if (it != users.end()) {
      const std::vector<const Node*> keys = std::move(it->second);
      users.erase(it);
      for (const Node* key : keys) {
        Equality& e = substitutions.at(key);
        if (!sym::Mentions(e.value, symbol)) continue;
        e.value = SimplifyOrThrow(e.value);
        note_users(key, e.value);
      }
    }
    note_users(symbol, value);
    for (const auto& [key, range] : moved_ranges) SetRange(key, range);
    for (const auto& [key, d] : moved_divisors) SetDivisor(key, d);
    for (const Relation& r : moved_relations) {
      const int counted = assumptions;
      WEFT_CHECK(AddEqual(r.zero, ConstNode(0), r.assumed), kShapeMismatch, "{} is not 0",
                 sym::PrintNode(r.zero));
      assumptions = counted;
    }
  } catch (const UserError& e) {
    if (backup == nullptr) throw;
    *this = *backup;
    // Too large is no contradiction.
    if (e.code() == ErrorCode::kOverflow) throw;
    return false;
  }
  return true;
}

bool Facts::Impl::AddEqual(const Node* a, const Node* b, bool assumed) {
  const auto add = [&] { return AddEqualOrThrow(a, b, assumed); };
  const auto demand = [&] {
    demands.push_back({a, b, {}, 1, assumed});
    if (assumed) ++assumptions;
    return true;
  };
  return sym::UnlessOverflow(add, demand);
}

/// min(a, b) == a says that a <= b; min(a, b) == v, where b cannot be v, that a is and b >= v.
bool Facts::Impl::AddExtremum(const Node* atom, const Node* value, bool assumed, bool* solved) {
  std::vector<const Node*> distances, candidates;
  for (const Node* a : atom->args) {
    const Node* above = sym::AddNodes(a, value, -1);
    distances.push_back(atom->kind == Kind::kMin ? above : sym::ScaleNode(above, -1));
    if (IsZero(above) != Proof::kNo) candidates.push_back(a);
  }
  if (candidates.empty()) return false;
  const bool is_operand =
      std::find(candidates.begin(), candidates.end(), value) != candidates.end();
  *solved = is_operand || candidates.size() == 1;
  if (!*solved) return true;
  const Impl backup = *this;
  try {
    for (const Node* d : distances) SetRange(d, {0, sym::kPlusInf});
    if (!is_operand && AddEqualOrThrow(candidates[0], value, assumed)) return true;
    if (is_operand) {
      assumptions += assumed;
      return true;
    }
  } catch (const UserError& e) {
    *this = backup;
    // Too large is no contradiction.
    if (e.code() == ErrorCode::kOverflow) throw;
    return false;
  }
  *this = backup;
  return false;
}

bool Facts::Impl::AddEqualOrThrow(const Node* a, const Node* b, bool assumed) {
  const Node* d = sym::AddNodes(SimplifyOrThrow(a), SimplifyOrThrow(b), -1);
  const Proof proof =
      sym::UnlessOverflow([&] { return IsZero(d); }, [] { return Proof::kUnknown; });
  if (proof != Proof::kUnknown) return proof == Proof::kYes;
  d = SimplifyOrThrow(d);
  // Common factors that are never 0 say nothing.
  const int64_t content = sym::Content(d);
  if (content > 1) sym::PolyDivideExact(d, ConstNode(content), &d);
  if (const Node* common = sym::CommonMonomial(d, d); common != nullptr) {
    std::vector<Factor> nonzero;
    for (const Factor& f : sym::FactorList(common)) {
      const Range r = RawRange(f.atom);
      if (r.lo > 0 || r.hi < 0) nonzero.push_back(f);
    }
    if (!nonzero.empty()) sym::PolyDivideExact(d, sym::MonomialOf(std::move(nonzero)), &d);
  }
  const Poly poly = sym::PolyOf(d);
  for (const Term& term : poly.terms) {
    if (term.mono->kind != Kind::kMin && term.mono->kind != Kind::kMax) continue;
    if (term.coef != 1 && term.coef != -1) continue;
    bool solved = false;
    if (!AddExtremum(term.mono, sym::AddNodes(term.mono, d, -term.coef), assumed, &solved))
      return false;
    if (solved) return true;
  }
  const Term* t = d->kind == Kind::kSum ? SolvableTerm(d) : nullptr;
  // c*s + rest == 0 with c = +-1 gives s = -c*rest = s - c*d.
  const Node* value = t ? sym::AddNodes(t->mono, d, -t->coef) : nullptr;
  if (d->kind == Kind::kSymbol) {
    if (!Substitute(d, ConstNode(0), assumed)) return false;
  } else if (t && (IsFresh(t->mono) || !IsProductOfUnbacked(value))) {
    if (!Substitute(t->mono, value, assumed)) return false;
  } else {
    if (d->kind == Kind::kSum && d->terms[0].coef < 0 && d->terms[0].coef != INT64_MIN)
      d = sym::ScaleNode(d, -1);
    Relation r{d, assumed};
    if (const Term* atom = d->kind == Kind::kSum ? SolvableAtom(d) : nullptr) {
      r.atom = atom->mono;
      r.value = sym::AddNodes(atom->mono, d, -atom->coef);
    } else if (d->is_atom()) {
      r.atom = d;
      r.value = ConstNode(0);
    }
    relations.push_back(r);
    mask |= d->symbol_mask;
  }
  if (assumed) ++assumptions;
  return true;
}

Facts::Facts() : impl_(std::make_unique<Impl>()) {}
Facts::~Facts() = default;
Facts::Facts(const Facts& o) : impl_(std::make_unique<Impl>(*o.impl_)) {}
Facts::Facts(Facts&& o) noexcept = default;
Facts& Facts::operator=(const Facts& o) {
  if (this != &o) impl_ = std::make_unique<Impl>(*o.impl_);
  return *this;
}
Facts& Facts::operator=(Facts&&) noexcept = default;

void Facts::SetRange(SymInt e, Range r) {
  if (!e.known()) return;  // nothing can be said of a value that has no name
  sym::UnlessOverflow([&] { impl_->SetRange(e.node(), r); },
                      [&] {
                        impl_->demands.push_back({e.node(), nullptr, r, 1, true});
                      });
}

void Facts::SetDivisor(SymInt e, int64_t d) {
  if (!e.known()) return;
  sym::UnlessOverflow([&] { impl_->SetDivisor(e.node(), d); },
                      [&] {
                        impl_->demands.push_back({e.node(), nullptr, {}, d, true});
                      });
}

bool Facts::AddEqual(SymInt a, SymInt b, bool if_run_succeeds) {
  if (!a.known() || !b.known()) return true;
  return impl_->AddEqual(a.node(), b.node(), if_run_succeeds);
}

Range Facts::RangeOf(SymInt e) const {
  if (!e.known()) return {};
  return sym::UnlessOverflow([&] { return impl_->RangeOf(e.node()); },
                             [&] { return e.node()->range; });
}

int64_t Facts::DivisorOf(SymInt e) const {
  if (!e.known()) return 1;
  const auto ask = [&] {
    const int64_t raw = impl_->RawDivisor(e.node()),
                  simplified = impl_->RawDivisor(impl_->Simplify(e.node()));
    // Both divide the value; 0 stands for the constant 0.
    return raw == 0 || simplified == 0 ? 0 : std::max(raw, simplified);
  };
  return sym::UnlessOverflow(ask, [&] { return e.node()->divisor; });
}

SymInt Facts::Simplify(SymInt e) const { return e.known() ? SymInt(impl_->Simplify(e.node())) : e; }

Facts Facts::About(const std::vector<SymInt>& symbols) const {
  const auto other = [&](const Node* n) {
    const std::vector<SymInt> in = SymInt(n).Symbols();
    return std::any_of(in.begin(), in.end(), [&](SymInt s) {
      return std::find(symbols.begin(), symbols.end(), s) == symbols.end();
    });
  };
  Facts about;
  Impl& kept = *about.impl_;
  for (const auto& [symbol, e] : impl_->substitutions) {
    if (other(symbol) || other(e.value)) continue;
    kept.substitutions.emplace(symbol, e);
    for (SymInt s : SymInt(e.value).Symbols()) kept.users[s.node()].push_back(symbol);
    kept.assumptions += e.assumed;
  }
  for (const Impl::Relation& r : impl_->relations) {
    if (other(r.zero)) continue;
    kept.relations.push_back(r);
    kept.assumptions += r.assumed;
  }
  for (const Impl::Demand& d : impl_->demands)
    if (!other(d.a) && (d.b == nullptr || !other(d.b))) kept.demands.push_back(d);
  for (const auto& [key, range] : impl_->ranges)
    if (!other(key)) kept.ranges.emplace(key, range);
  for (const auto& [key, divisor] : impl_->divisors)
    if (!other(key)) kept.divisors.emplace(key, divisor);
  kept.mask = impl_->mask;
  return about;
}

int Facts::assumptions() const { return impl_->assumptions; }

bool Facts::empty() const {
  return impl_->substitutions.empty() && impl_->relations.empty() && impl_->ranges.empty() &&
         impl_->divisors.empty() && impl_->demands.empty();
}

std::vector<std::string> Facts::ToStrings() const {
  std::vector<std::string> out;
  std::map<const Node*, Impl::Equality, Impl::Less> sorted(impl_->substitutions.begin(),
                                                           impl_->substitutions.end());
  for (const auto& [symbol, e] : sorted) {
    out.push_back(fmt::format("{} == {}{}", symbol->name, sym::PrintNode(e.value),
                              e.assumed ? "" : " always"));
  }
  std::vector<Impl::Relation> relations = impl_->relations;
  std::sort(relations.begin(), relations.end(),
            [](const Impl::Relation& a, const Impl::Relation& b) {
              return sym::CompareNodes(a.zero, b.zero) < 0;
            });
  for (const Impl::Relation& r : relations) {
    out.push_back(fmt::format("{} == 0{}", sym::PrintNode(r.zero), r.assumed ? "" : " always"));
  }
  for (const auto& [key, r] : impl_->ranges) {
    out.push_back(fmt::format("{} in {}", sym::PrintNode(key), Interval(r)));
  }
  for (const auto& [key, d] : impl_->divisors) {
    out.push_back(fmt::format("{} % {} == 0", sym::PrintOperand(key), d));
  }
  for (const Impl::Demand& d : impl_->demands) {
    const std::string a = sym::PrintNode(d.a);
    if (d.b != nullptr)
      out.push_back(fmt::format("{} == {}{}", a, sym::PrintNode(d.b), d.assumed ? "" : " always"));
    else if (d.divisor > 1)
      out.push_back(fmt::format("{} % {} == 0", sym::PrintOperand(d.a), d.divisor));
    else
      out.push_back(fmt::format("{} in {}", a, Interval(d.range)));
  }
  return out;
}

void Facts::CheckHolds(const SymBindings& bindings) const {
  const auto bound = [&](SymInt e) {
    for (SymInt s : e.Symbols())
      if (!bindings.count(s.symbol_name())) return false;
    return true;
  };
  const auto in_range = [&](SymInt e, Range r) {
    if (!bound(e)) return;
    const int64_t v = Evaluate(e, bindings);
    WEFT_CHECK(r.lo <= v && v <= r.hi, kShapeMismatch, "{} must be in {}, it is {}", e.ToString(),
               Interval(r), v);
  };
  const auto divisible = [&](SymInt e, int64_t d) {
    if (!bound(e)) return;
    const int64_t v = Evaluate(e, bindings);
    WEFT_CHECK(v % d == 0, kShapeMismatch, "{} must be a multiple of {}, it is {}", e.ToString(), d,
               v);
  };
  const auto equal = [&](SymInt a, SymInt b) {
    if (!bound(a) || !bound(b)) return;
    const int64_t x = Evaluate(a, bindings), y = Evaluate(b, bindings);
    WEFT_CHECK(x == y, kShapeMismatch, "{} == {} must hold, but {} != {} for these dimensions",
               a.ToString(), b.ToString(), x, y);
  };
  std::map<const Node*, Impl::Equality, Impl::Less> sorted(impl_->substitutions.begin(),
                                                           impl_->substitutions.end());
  for (const auto& [symbol, e] : sorted) equal(SymInt(symbol), SymInt(e.value));
  for (const Impl::Relation& r : impl_->relations) {
    const SymInt zero(r.zero);
    // A difference that leaves 64 bits is not 0.
    sym::UnlessOverflow([&] { equal(zero, 0); },
                        [&] {
                          WEFT_THROW(kShapeMismatch,
                                     "{} == 0 must hold, but it does not for these dimensions",
                                     zero.ToString());
                        });
  }
  for (const auto& [key, r] : impl_->ranges) in_range(SymInt(key), r);
  for (const auto& [key, d] : impl_->divisors) divisible(SymInt(key), d);
  for (const Impl::Demand& d : impl_->demands) {
    if (d.b != nullptr) equal(SymInt(d.a), SymInt(d.b));
    in_range(SymInt(d.a), d.range);
    divisible(SymInt(d.a), d.divisor);
  }
}

void Facts::Parse(std::string_view fact) {
  const auto fail = [&](const char* expected) {
    WEFT_THROW(kSyntax, "expected {} in the fact '{}'", expected, fact.substr(0, 200));
  };
  if (const size_t in = fact.find(" in ["); in != std::string_view::npos) {
    const std::string_view bounds = fact.substr(in + 5);
    const size_t comma = bounds.find(", ");
    if (comma == std::string_view::npos || bounds.empty() || bounds.back() != ']')
      fail("'[lo, hi]'");
    const std::string_view lo = bounds.substr(0, comma),
                           hi = bounds.substr(comma + 2, bounds.size() - comma - 3);
    const auto bound = [&](std::string_view text) {
      const auto v = SymInt::Parse(text).try_value();
      if (!v) fail("a number or inf");
      return *v;
    };
    Range r;
    if (lo != "-inf") r.lo = bound(lo);
    if (hi != "inf") r.hi = bound(hi);
    SetRange(SymInt::Parse(fact.substr(0, in)), r);
    return;
  }
  const size_t eq = fact.find(" == ");
  if (eq == std::string_view::npos) fail("'in' or '=='");
  std::string_view right = fact.substr(eq + 4);
  constexpr std::string_view kAlways = " always";
  const bool always =
      right.size() > kAlways.size() && right.substr(right.size() - kAlways.size()) == kAlways;
  if (always) right.remove_suffix(kAlways.size());
  const SymInt a = SymInt::Parse(fact.substr(0, eq)), b = SymInt::Parse(right);
  const Node* n = a.node();
  if (!always && b.is(0) && n != nullptr && n->kind == Kind::kMod && n->args[1]->is_const()) {
    SetDivisor(SymInt(n->args[0]), n->args[1]->constant);
    return;
  }
  WEFT_CHECK(AddEqual(a, b, !always), kShapeMismatch, "'{}' contradicts what is known", fact);
}

}  // namespace weft
