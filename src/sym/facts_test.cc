/// facts_test.cc: ranges, divisors, equalities, proofs and their text.
#include <doctest/doctest.h>

#include "tests/support/code_of.h"
#include "weft/support/error.h"
#include "weft/sym/sym.h"

namespace weft {
namespace {

SymInt S(const char* name) { return SymInt::Symbol(name); }
const SymInt a = S("a"), b = S("b"), c = S("c"), d = S("d"), h = S("h"), w = S("w"), n = S("n"),
             u0 = S("u0");

TEST_CASE("facts: symbols are extents") {
  const Facts f;
  CHECK(f.RangeOf(h).lo == 0);
  CHECK(f.RangeOf(h).hi == INT64_MAX);
  CHECK(f.LessEqual(0, h * w) == Proof::kYes);
  CHECK(f.Less(h, h + 1) == Proof::kYes);
  CHECK(f.Less(h, h) == Proof::kNo);
  CHECK(f.LessEqual(h, w) == Proof::kUnknown);
  CHECK(f.Equal(h, w) == Proof::kUnknown);
  CHECK(f.Equal(h, h + 1) == Proof::kNo);
  CHECK(f.Equal(2 * h, 2 * w + 1) == Proof::kNo);
  CHECK(f.Equal(SymInt(), SymInt()) == Proof::kUnknown);
  CHECK(f.ProvedNot1(2 * h));
  CHECK_FALSE(f.ProvedNot1(h));
  CHECK(f.DivisorOf(4 * h + 6) == 2);
  CHECK(f.DivisorOf(0) == 0);
  CHECK(f.Divides(2, 4 * h + 1) == Proof::kNo);
  CHECK(f.Divides(2, h) == Proof::kUnknown);
}

TEST_CASE("facts: proofs through division, min, max and broadcast") {
  const Facts f;
  CHECK(f.LessEqual(FloorDiv(h, 2), h) == Proof::kYes);
  CHECK(f.LessEqual(2 * FloorDiv(h, 2), h) == Proof::kYes);
  CHECK(f.LessEqual(h, 2 * CeilDiv(h, 2)) == Proof::kYes);
  CHECK(f.LessEqual(Min(h, w), w) == Proof::kYes);
  CHECK(f.LessEqual(h, Max(h, w)) == Proof::kYes);
  CHECK(f.LessEqual(Min(h, w), Max(h, w)) == Proof::kYes);
  CHECK(f.LessEqual(Bcast(h, w), h + w) == Proof::kYes);
  CHECK(f.LessEqual(h, Bcast(h, w)) == Proof::kUnknown);  // bcast(1, 0) is 0
  CHECK(f.LessEqual(Mod(h, w), h) == Proof::kYes);
  CHECK(f.LessEqual(h, FloorDiv(h, 2)) == Proof::kUnknown);
}

TEST_CASE("facts: ranges") {
  Facts f;
  f.SetRange(h, {1, 8});
  CHECK(f.RangeOf(2 * h + 1).hi == 17);
  CHECK(f.Less(0, h) == Proof::kYes);
  CHECK(f.Simplify(FloorDiv(h, 9)).is(0));
  CHECK(f.Simplify(Mod(h, 16)) == h);
  CHECK(f.Simplify(Max(h, 9)).is(9));
  CHECK(f.LessEqual(w, h * w) == Proof::kYes);
  f.SetRange(3 * w - 6, {0, INT64_MAX});  // w >= 2
  CHECK(f.RangeOf(w).lo == 2);
  CHECK(f.Simplify(Bcast(w, n)) == w);
  CHECK(f.ProvedNot1(w));
  f.SetRange(h, {3, 3});
  CHECK(f.Simplify(h * w) == 3 * w);
  CHECK(CodeOf([&] { f.SetRange(w, {0, 1}); }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] { f.SetRange(n, {INT64_MIN, -1}); }) == ErrorCode::kShapeMismatch);
  f.SetRange(a * b, {1, INT64_MAX});
  CHECK(f.Equal(a * b, 0) == Proof::kNo);
}

TEST_CASE("facts: divisors") {
  Facts f;
  f.SetDivisor(h, 8);
  CHECK(f.DivisorOf(h * w) == 8);
  CHECK(f.Divides(4, h + 12) == Proof::kYes);
  CHECK(f.Divides(4, h + 2) == Proof::kNo);
  CHECK(f.Simplify(Mod(h + w, 4)) == Mod(w, 4));
  CHECK(f.Simplify(Mod(h, 8)).is(0));
  CHECK(f.ProvedNot1(h));
  f.SetDivisor(h, 12);
  CHECK(f.DivisorOf(h) == 24);
  f.SetDivisor(2 * w, 4);  // w is even
  CHECK(f.Divides(2, w) == Proof::kYes);
  CHECK(CodeOf([&] { f.SetDivisor(2 * n + 1, 2); }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] { f.SetDivisor(n, 0); }) == ErrorCode::kApiMisuse);
  f.SetDivisor(a + b, 4);
  CHECK(f.Divides(4, a + b + 8) == Proof::kYes);
}

TEST_CASE("facts: a named extent stays what it is called where it is a product of sizes by data") {
  const SymInt u1 = SymInt::Unbacked(1);
  Facts f;
  CHECK(f.AddEqual(n, u0 * u1));
  CHECK(f.Simplify(n) == n);
  CHECK(f.ProvedEqual(n, u0 * u1));
  CHECK_FALSE(f.AddEqual(n, u0 * u1 + 1));
  // One factor alone gives way, and so does a name for one of names.
  Facts one, named;
  CHECK(one.AddEqual(n, u0));
  CHECK(one.Simplify(u0) == n);
  CHECK(named.AddEqual(n, a * u0));
  CHECK(named.Simplify(n) == a * u0);
}

TEST_CASE("facts: equalities") {
  Facts f;
  CHECK(f.AddEqual(b, a));
  CHECK(f.Simplify(b) == a);
  CHECK(f.ProvedEqual(b * h, a * h));
  CHECK(f.AddEqual(c, b));
  CHECK(f.Simplify(c) == a);
  CHECK(f.assumptions() == 2);
  CHECK(f.AddEqual(c, a));  // known already
  CHECK(f.assumptions() == 2);
  CHECK_FALSE(f.AddEqual(a, b + 1));
  CHECK(f.AddEqual(u0, 2 * a + 1, false));
  CHECK(f.assumptions() == 2);
  CHECK(f.Simplify(u0) == 2 * a + 1);
  // A later equality reaches what was recorded before.
  CHECK(f.AddEqual(a, n));
  CHECK(f.Simplify(u0) == 2 * f.Simplify(n) + 1);
  CHECK(f.ProvedEqual(u0, 2 * c + 1));
  // The value inherits what was known of the symbol.
  Facts g;
  g.SetRange(w, {4, 16});
  g.SetDivisor(w, 4);
  CHECK(g.AddEqual(w, h));
  CHECK(g.RangeOf(h).lo == 4);
  CHECK(g.Divides(4, h) == Proof::kYes);
  CHECK_FALSE(g.AddEqual(h, 5));
  CHECK_FALSE(g.AddEqual(h, 20));
  CHECK(g.RangeOf(h).hi == 16);
  CHECK(g.AddEqual(h, 8));
  CHECK(g.Simplify(w * n) == 8 * n);
  // An extent that equals n - 2 makes n at least 2.
  Facts k;
  CHECK(k.AddEqual(u0, n - 2));
  CHECK(k.RangeOf(n).lo == 2);
  CHECK_FALSE(k.AddEqual(n, 1));
}

TEST_CASE("facts: equalities with a minimum, a maximum or another atom") {
  Facts f;
  CHECK(f.AddEqual(Min(h + n, 1024), h + n));
  CHECK(f.RangeOf(h + n).hi == 1024);
  CHECK(f.ProvedEqual(Max(0, Min(h + n, 1024) - n), h));
  // One operand is left: 1024 is not 1.
  Facts g;
  CHECK(g.AddEqual(Min(h, 1024), 1));
  CHECK(g.ProvedEqual(h, 1));
  CHECK_FALSE(g.AddEqual(Max(h, 4), 3));
  // Near miss: either may be it.
  Facts either;
  CHECK(either.AddEqual(Min(h, n), 1));
  CHECK(either.Equal(h, 1) == Proof::kUnknown);
  // The atom gives way, not a symbol in it: Simplify would go round.
  Facts k;
  CHECK(k.AddEqual(Bcast(w, h + n), h + n));
  CHECK(k.Simplify(a * Bcast(w, h + n) + 1) == a * h + a * n + 1);
  CHECK(k.Simplify(h) == h);
  CHECK(k.AddEqual(h, 2 * a));
  CHECK(k.ProvedEqual(Bcast(w, 2 * a + n), 2 * a + n));
}

TEST_CASE("facts: products of equal element counts") {
  Facts f;
  CHECK(f.AddEqual(a * b, c * d));
  CHECK(f.ProvedEqual(a * b * h, c * d * h));
  CHECK(f.ProvedEqual(3 * a * b - c * d, 2 * c * d));
  CHECK_FALSE(f.ProvedEqual(a, c));
  CHECK(f.AddEqual(d, b));
  CHECK_FALSE(f.ProvedEqual(a, c));  // b may be 0
  Facts g;
  g.SetRange(b, {1, INT64_MAX});
  CHECK(g.AddEqual(a * b, c * b));
  CHECK(g.ProvedEqual(a, c));
  Facts k;
  CHECK(k.AddEqual(2 * a, 3 * b));
  CHECK(k.ProvedEqual(4 * a, 6 * b));
  CHECK(k.AddEqual(FloorDiv(h, 2), 3));
  CHECK(k.ProvedEqual(FloorDiv(h, 2) * w, 3 * w));
}

TEST_CASE("facts: text round trip, copies are independent") {
  Facts f;
  f.SetRange(h, {1, 8});
  f.SetRange(a - w, {INT64_MIN, 3});
  f.SetDivisor(n + 2, 4);
  f.AddEqual(c, b + 1);
  f.AddEqual(u0, h, false);
  f.AddEqual(a * b, n * w);
  const std::vector<std::string> lines = f.ToStrings();
  Facts again;
  for (const std::string& line : lines) again.Parse(line);
  CHECK(again.ToStrings() == lines);
  CHECK(again.assumptions() == f.assumptions());
  Facts simple;
  simple.Parse("n in [1, 8]");
  simple.Parse("n % 4 == 0");
  simple.Parse("a == b");
  CHECK(simple.ToStrings() == std::vector<std::string>{"b == a", "n in [1, 8]", "n % 4 == 0"});
  for (const char* bad : {"n", "n in [1, 2", "n in 3", "n in [1, h]", "n = 3"}) {
    CHECK_MESSAGE(CodeOf([&] { simple.Parse(bad); }) == ErrorCode::kSyntax, bad);
  }
  CHECK(CodeOf([&] { simple.Parse("n == 9"); }) == ErrorCode::kShapeMismatch);
  Facts copy = simple;
  copy.AddEqual(a, 7);
  CHECK(copy.Simplify(b).is(7));
  CHECK(simple.Simplify(b) == a);
}

TEST_CASE("facts: many equalities stay cheap") {
  Facts f;
  for (int i = 1; i < 5000; ++i) {
    CHECK(f.AddEqual(SymInt::Unbacked(i), SymInt::Unbacked(i - 1)));
  }
  CHECK(f.ProvedEqual(SymInt::Unbacked(0), SymInt::Unbacked(4999)));
}

TEST_CASE("facts: what a proof takes more than 64 bits for is unknown, and still demanded") {
  // [a, 8] as [-1, 3], then as [16, 3].
  Facts f;
  const SymInt rows = FloorDiv(8 * a, 3);
  REQUIRE(f.AddEqual(rows * 3, 8 * a));
  REQUIRE(f.AddEqual(rows * 3, 48));
  f.CheckHolds({{"a", 6}});
  CHECK(CodeOf([&] { f.CheckHolds({{"a", 7}}); }) == ErrorCode::kShapeMismatch);
  // Coefficients that no sum of both sides holds.
  const int64_t big = int64_t{1} << 62;
  Facts g;
  REQUIRE(g.AddEqual(SymInt(big) * h - SymInt(big) * w, SymInt(big) * w - SymInt(big) * h + big));
  CHECK(g.Equal(SymInt(big) * h, -(SymInt(big) * w)) != Proof::kYes);
  CHECK(CodeOf([&] { g.CheckHolds({{"h", 1}, {"w", 1}}); }) == ErrorCode::kShapeMismatch);
  // Said again, it is the same demand.
  Facts again;
  for (const std::string& fact : g.ToStrings()) again.Parse(fact);
  CHECK(again.ToStrings() == g.ToStrings());
  CHECK(CodeOf([&] { again.CheckHolds({{"h", 1}, {"w", 1}}); }) == ErrorCode::kShapeMismatch);
}

TEST_CASE("facts about some symbols are those that mention no other") {
  const SymInt a = SymInt::Symbol("a"), b = SymInt::Symbol("b"), c = SymInt::Symbol("c"),
               d = SymInt::Symbol("d");
  Facts f;
  REQUIRE(f.AddEqual(a, b + 1));
  REQUIRE(f.AddEqual(c, b + d));
  REQUIRE(f.AddEqual(b * d, d * d, false));
  f.SetRange(b, {2, 9});
  f.SetRange(d - b, {0, 5});
  f.SetDivisor(d, 4);
  const Facts ab = f.About({a, b});
  std::string text;
  for (const std::string& fact : ab.ToStrings()) text += fact + "; ";
  CHECK(text == "b == a - 1; a in [3, 10]; ");
  CHECK(ab.assumptions() == 1);
  CHECK(ab.RangeOf(a).lo == 3);
  CHECK(ab.RangeOf(d).hi == INT64_MAX);
  CHECK(ab.DivisorOf(d) == 1);
  // It goes on like any other.
  Facts more = f.About({a, b, d});
  REQUIRE(more.AddEqual(b, 4));
  CHECK(more.ProvedEqual(a, 5));
  CHECK(f.About({a, b, c, d}).ToStrings() == f.ToStrings());
  CHECK(f.About({}).empty());
}

}  // namespace
}  // namespace weft
