/// sym_fuzz_test.cc: random expressions against an independent evaluator, the text round trip,
/// programs and facts.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "fuzz_util.h"
#include "weft/sym/apply.h"
#include "weft/sym/sym.h"

namespace weft {
namespace {

using fuzz::Bindings;
using fuzz::Eval;
using fuzz::Pick;
using fuzz::RandomTree;
using fuzz::TryBuild;

std::vector<int64_t> RandomArgs(std::mt19937_64& rng) {
  std::vector<int64_t> args(4);
  for (int64_t& a : args) a = Pick(rng, 0, 3) == 0 ? Pick(rng, 0, 2) : Pick(rng, 0, 40);
  return args;
}

TEST_CASE("sym fuzz: canonical forms agree with direct evaluation, 10^5 pairs") {
  std::mt19937_64 rng(20240607);
  int64_t compared = 0, equal_pairs = 0, not_built = 0;
  for (int pair = 0; pair < 100000; ++pair) {
    const auto ta = RandomTree(rng, 1 + pair % 4), tb = RandomTree(rng, 1 + pair % 3);
    const auto ea = TryBuild(*ta), eb = TryBuild(*tb);
    if (!ea || !eb) ++not_built;
    const bool same = ea && eb && *ea == *eb;
    equal_pairs += same;
    for (int trial = 0; trial < 4; ++trial) {
      const std::vector<int64_t> args = RandomArgs(rng);
      const auto va = Eval(*ta, args), vb = Eval(*tb, args);
      if (va) {
        // What cannot be built has no value for any arguments.
        REQUIRE_MESSAGE(ea.has_value(), "a tree with a value was refused");
        ++compared;
        const int64_t got = Evaluate(*ea, Bindings(args));
        if (got != static_cast<int64_t>(*va)) {
          FAIL_CHECK(ea->ToString() << " at a=" << args[0] << " b=" << args[1] << " n=" << args[2]
                                    << " w=" << args[3] << " is " << got << ", expected "
                                    << static_cast<int64_t>(*va));
        }
      }
      if (same && va && vb) REQUIRE(*va == *vb);
    }
  }
  MESSAGE("compared " << compared << " values, " << equal_pairs << " equal pairs, " << not_built
                      << " pairs without a form");
  CHECK(compared > 200000);
}

TEST_CASE("sym fuzz: Parse(ToString(e)) is e, and so is what the postfix form says") {
  std::mt19937_64 rng(7);
  struct Rebuild : SymVisitor {
    std::vector<SymInt> stack;
    void Const(int64_t v) override { stack.push_back(v); }
    void Sym(SymInt s) override { stack.push_back(s); }
    void Op(char op) override {
      const SymInt b = stack.back();
      stack.pop_back();
      stack.back() = ApplySymOp(op, stack.back(), b);
    }
  };
  for (int i = 0; i < 40000; ++i) {
    const auto e = TryBuild(*RandomTree(rng, 1 + i % 5));
    if (!e) continue;
    const std::string text = e->ToString();
    const SymInt again = SymInt::Parse(text);
    if (!(again == *e)) FAIL_CHECK(text << " reads back as " << again.ToString());
    Rebuild r;
    VisitPostfix(*e, r);
    REQUIRE(r.stack.size() == 1);
    // Built in another order, so the form may differ; the values may not.
    const std::vector<int64_t> args = RandomArgs(rng);
    try {
      const int64_t v = Evaluate(*e, Bindings(args));
      REQUIRE(Evaluate(r.stack[0], Bindings(args)) == v);
    } catch (const UserError&) {
    }
  }
}

TEST_CASE("sym fuzz: programs agree with Evaluate") {
  std::mt19937_64 rng(99);
  std::vector<SymInt> symbols;
  for (const std::string& s : fuzz::SymbolNames()) symbols.push_back(SymInt::Symbol(s));
  for (int round = 0; round < 300; ++round) {
    SymProgram program(symbols);
    std::vector<SymInt> added;
    const std::vector<int64_t> args = RandomArgs(rng);
    std::vector<int64_t> expected;
    while (added.size() < 20) {
      const auto e = TryBuild(*RandomTree(rng, 4));
      if (!e) continue;
      try {
        expected.push_back(Evaluate(*e, Bindings(args)));
      } catch (const UserError&) {
        continue;
      }
      added.push_back(*e);
      REQUIRE(program.Add(*e) == static_cast<int>(added.size()) - 1);
    }
    std::vector<int64_t> results(added.size());
    program.Run(args.data(), results.data());
    CHECK(results == expected);
  }
}

TEST_CASE("sym fuzz: what Facts prove holds for every value the facts allow") {
  std::mt19937_64 rng(5);
  int64_t proved = 0, unknown = 0;
  for (int i = 0; i < 20000; ++i) {
    Facts facts;
    // a in [lo, hi], b a multiple of 4, n == w + k or n == 2*w.
    const int64_t lo = Pick(rng, 0, 5), hi = lo + Pick(rng, 0, 20), k = Pick(rng, -2, 3);
    const SymInt a = SymInt::Symbol("a"), b = SymInt::Symbol("b"), n = SymInt::Symbol("n"),
                 w = SymInt::Symbol("w");
    facts.SetRange(a, {lo, hi});
    facts.SetDivisor(b, 4);
    const bool doubled = Pick(rng, 0, 1) == 1;
    REQUIRE(facts.AddEqual(n, doubled ? 2 * w : w + k));
    const auto tx = RandomTree(rng, 3), ty = RandomTree(rng, 3);
    const auto x = TryBuild(*tx), y = TryBuild(*ty);
    if (!x || !y) continue;
    Proof eq, le, dv;
    SymInt sx;
    Range rx;
    int64_t div = 1;
    try {
      eq = facts.Equal(*x, *y);
      le = facts.LessEqual(*x, *y);
      dv = facts.Divides(3, *x);
      sx = facts.Simplify(*x);
      rx = facts.RangeOf(*x);
      div = facts.DivisorOf(*x);
    } catch (const UserError&) {
      continue;  // the facts show that the expression has no value
    }
    (eq == Proof::kUnknown ? unknown : proved) += 1;
    for (int trial = 0; trial < 6; ++trial) {
      std::vector<int64_t> args = {Pick(rng, lo, hi), 4 * Pick(rng, 0, 9), 0, Pick(rng, 0, 20)};
      args[2] = doubled ? 2 * args[3] : args[3] + k;
      if (args[2] < 0) continue;
      const auto vx = Eval(*tx, args), vy = Eval(*ty, args);
      const std::string where = x->ToString() + " vs " + y->ToString();
      if (vx) {
        const auto v = static_cast<int64_t>(*vx);
        CHECK_MESSAGE((rx.lo <= v && v <= rx.hi), where);
        CHECK_MESSAGE((div == 0 ? v == 0 : v % div == 0), where);
        CHECK_MESSAGE(Evaluate(sx, Bindings(args)) == v, where);
        if (dv == Proof::kYes) CHECK_MESSAGE(v % 3 == 0, where);
        if (dv == Proof::kNo) CHECK_MESSAGE(v % 3 != 0, where);
      }
      if (!vx || !vy) continue;
      if (eq == Proof::kYes) CHECK_MESSAGE(*vx == *vy, where);
      if (eq == Proof::kNo) CHECK_MESSAGE(*vx != *vy, where);
      if (le == Proof::kYes) CHECK_MESSAGE(*vx <= *vy, where);
      if (le == Proof::kNo) CHECK_MESSAGE(*vx > *vy, where);
    }
  }
  MESSAGE(proved << " pairs decided, " << unknown << " unknown");
  CHECK(proved > 1000);
}

TEST_CASE("sym fuzz: at the ends of 64 bits results are right or refused") {
  std::mt19937_64 rng(64);
  int64_t compared = 0;
  for (int i = 0; i < 30000; ++i) {
    const auto t = RandomTree(rng, 1 + i % 4, true);
    try {
      const SymInt e = Build(*t);
      REQUIRE(SymInt::Parse(e.ToString()) == e);
      std::vector<int64_t> args(4);
      for (int64_t& a : args)
        a = Pick(rng, 0, 3) == 0 ? INT64_MAX - Pick(rng, 0, 1) : Pick(rng, 0, 9);
      Facts facts;
      facts.RangeOf(e);
      facts.LessEqual(e, 7);
      facts.Divides(3, e);
      const int64_t v = Evaluate(e, Bindings(args));
      const auto expected = Eval(*t, args, INT64_MAX);
      if (!expected) continue;
      ++compared;
      CHECK_MESSAGE(v == static_cast<int64_t>(*expected), e.ToString());
    } catch (const UserError&) {
    }
  }
  CHECK(compared > 1000);
}

TEST_CASE("sym fuzz: facts that a run meets are never refused, however large what proves them") {
  std::mt19937_64 rng(81);
  const auto symbol = [](int k) { return SymInt::Symbol(fuzz::SymbolNames()[size_t(k)]); };
  int64_t recorded = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<int64_t> args(4);
    for (int64_t& a : args) a = Pick(rng, 1, 24);
    const SymBindings run = Bindings(args);
    // Quotients of products by products, as chains of Reshape make them.
    const auto product = [&] {
      SymInt p = Pick(rng, 1, 96);
      for (int k = 0; k < 4; ++k)
        if (Pick(rng, 0, 2) == 0) p = p * symbol(k);
      return p;
    };
    Facts facts;
    std::vector<SymInt> sizes;
    for (int64_t n = Pick(rng, 1, 5); n > 0; --n) {
      const SymInt whole = sizes.empty() || Pick(rng, 0, 1) ? product() : sizes.back();
      const SymInt part = product();
      const int64_t a = Evaluate(whole, run), b = Evaluate(part, run);
      if (a % b == 0) {
        const SymInt q = ExactDiv(whole, part);
        const std::string what = whole.ToString() + " / " + part.ToString();
        CHECK_MESSAGE(facts.AddEqual(q * part, whole), what);
        sizes.push_back(Pick(rng, 0, 1) ? q : q * product());
      }
      CHECK_MESSAGE(facts.AddEqual(whole, Evaluate(whole, run)), whole.ToString());
      ++recorded;
    }
    facts.CheckHolds(run);
    for (const SymInt x : sizes) {
      const int64_t v = Evaluate(x, run);
      const Range r = facts.RangeOf(x);
      CHECK((r.lo <= v && v <= r.hi));
      CHECK(Evaluate(facts.Simplify(x), run) == v);
      CHECK(facts.Equal(x, v) != Proof::kNo);
      CHECK(facts.Less(x, v) != Proof::kYes);
      CHECK((facts.DivisorOf(x) == 0 || v % facts.DivisorOf(x) == 0));
    }
  }
  CHECK(recorded > 4000);
}

TEST_CASE("sym fuzz: what follows from equalities of any form holds where they do") {
  std::mt19937_64 rng(1024);
  int64_t recorded = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::vector<int64_t> args = RandomArgs(rng);
    const SymBindings run = Bindings(args);
    Facts facts;
    const auto followed = [&](int depth) -> std::optional<std::pair<SymInt, int64_t>> {
      const auto tree = RandomTree(rng, depth);
      const auto e = TryBuild(*tree);
      const auto v = Eval(*tree, args);
      if (!e || !v) return std::nullopt;
      return std::pair(*e, static_cast<int64_t>(*v));
    };
    for (int k = 0; k < 3; ++k) {
      const auto x = followed(3), y = followed(2);
      if (!x || !y) continue;
      const SymInt other = y->first + (x->second - y->second);
      CHECK_MESSAGE(facts.AddEqual(x->first, other), x->first.ToString()
                                                         << " == " << other.ToString());
      ++recorded;
    }
    facts.CheckHolds(run);
    for (int k = 0; k < 3; ++k) {
      const auto x = followed(3), y = followed(3);
      if (!x || !y) continue;
      const std::string where = x->first.ToString() + " vs " + y->first.ToString();
      try {
        CHECK_MESSAGE(Evaluate(facts.Simplify(x->first), run) == x->second, where);
        const Range r = facts.RangeOf(x->first);
        CHECK_MESSAGE((r.lo <= x->second && x->second <= r.hi), where);
        const Proof equal = facts.Equal(x->first, y->first);
        if (equal != Proof::kUnknown)
          CHECK_MESSAGE((equal == Proof::kYes) == (x->second == y->second), where);
      } catch (const UserError& e) {
        CHECK_MESSAGE(e.code() != ErrorCode::kShapeMismatch, where);
      }
    }
  }
  CHECK(recorded > 20000);
}

TEST_CASE("sym fuzz: threads intern the same nodes") {
  std::vector<std::vector<SymInt>> built(4);
  std::vector<std::thread> threads;
  for (auto& out : built) {
    threads.emplace_back([&out] {
      std::mt19937_64 rng(4242);
      for (int i = 0; i < 3000; ++i)
        out.push_back(TryBuild(*RandomTree(rng, 4)).value_or(SymInt()));
    });
  }
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < built[0].size(); ++i) {
    for (size_t t = 1; t < built.size(); ++t) REQUIRE(built[t][i].same(built[0][i]));
  }
}

}  // namespace
}  // namespace weft
