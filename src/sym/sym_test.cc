/// sym_test.cc: the rules of symbolic arithmetic, each with a hit and a near miss, and the contract
/// of sym.h.
#include "weft/sym/sym.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

#include "tests/support/code_of.h"
#include "weft/support/error.h"

namespace weft {
namespace {

SymInt S(const char* name) { return SymInt::Symbol(name); }
SymInt P(const char* text) { return SymInt::Parse(text); }

const SymInt a = S("a"), b = S("b"), h = S("h"), w = S("w"), n = S("n");

TEST_CASE("sym: handles, unknown and constants") {
  CHECK(sizeof(SymInt) == 8);
  CHECK_FALSE(SymInt().known());
  CHECK_FALSE(SymInt() == SymInt());
  CHECK(SymInt().same(SymInt()));
  CHECK(SymInt(3) == SymInt(int64_t{3}));
  CHECK(SymInt(1 << 20) == SymInt(1 << 20));
  CHECK(SymInt(7).is(7));
  CHECK(SymInt(7).try_value() == 7);
  CHECK_FALSE(h.try_value().has_value());
  CHECK(h.symbol_name() == "h");
  CHECK(S("h") == h);
  CHECK(SymInt::Unbacked(3) == S("u3"));
  CHECK(CodeOf([] { return h.value(); }) == ErrorCode::kInternal);
  CHECK(CodeOf([] { return S("1x"); }) == ErrorCode::kSyntax);
  CHECK(CodeOf([] { return S(""); }) == ErrorCode::kSyntax);
  CHECK(S("batch.0_$") == S("batch.0_$"));
  // Unknown spreads, but for a factor 0.
  CHECK_FALSE((h + SymInt()).known());
  CHECK_FALSE(Bcast(SymInt(), 1).known());
  CHECK((SymInt() * 0).is(0));
  CHECK(Product({SymInt(), 0}).is(0));
  CHECK(Product({}).is(1));
  CHECK_FALSE(Product({h, SymInt()}).known());
}

TEST_CASE("sym: sums and products are canonical") {
  CHECK(h + w == w + h);
  CHECK((h + 1) * (h - 1) == h * h - 1);
  CHECK((h + w) - w == h);
  CHECK((h - h).is(0));
  CHECK((2 * h + w + 1).ToString() == "2*h + w + 1");
  CHECK((1 - h).ToString() == "-h + 1");
  CHECK((h * w * 3 - 4).ToString() == "3*h*w - 4");
  CHECK(P("2*h + w//2 + 1").ToString() == "2*h + w//2 + 1");
  CHECK((2 * FloorDiv(w, 3)).ToString() == "2*(w//3)");
  CHECK((-FloorDiv(w, 3)).ToString() == "-(w//3)");
  CHECK_FALSE(h + 1 == h + 2);
  const std::vector<SymInt> symbols = (w * h + FloorDiv(a, w)).Symbols();
  CHECK(symbols == std::vector<SymInt>{a, h, w});
}

TEST_CASE("sym: floor division and modulo") {
  CHECK(FloorDiv(768 * h, 256) == 3 * h);
  CHECK(FloorDiv(2 * h + 1, 2) == h);
  CHECK(FloorDiv(3 * h, 2) == h + FloorDiv(h, 2));
  CHECK(FloorDiv(4 * h + 3, 6) == FloorDiv(2 * h + 1, 3));
  CHECK(FloorDiv(FloorDiv(h, 2), 3) == FloorDiv(h, 6));
  CHECK(FloorDiv(FloorDiv(h - 1, 2) + 1, 2) == FloorDiv(h + 1, 4));
  CHECK(FloorDiv(FloorDiv(h, w), 3) == FloorDiv(h, 3 * w));
  CHECK(FloorDiv(h * w + w, w) == h + 1);
  CHECK(FloorDiv(h * w + a, w) == h + FloorDiv(a, w));
  CHECK(FloorDiv(a * h, a * w) == FloorDiv(h, w));
  CHECK(FloorDiv(h, -2) == FloorDiv(-h, 2));
  CHECK(CeilDiv(h, 2) == FloorDiv(h + 1, 2));
  CHECK(-FloorDiv(-h, 2) == CeilDiv(h, 2));
  CHECK(CeilDiv(h, w) == FloorDiv(h - 1, w) + 1);
  CHECK(FloorDiv(Mod(h, 4), 4).is(0));
  CHECK(FloorDiv(Mod(h, w), w).is(0));
  CHECK(FloorDiv(7, 2).is(3));
  CHECK(FloorDiv(-7, 2).is(-4));
  CHECK(Mod(-7, 2).is(1));
  CHECK(Mod(7, -2).is(-1));
  // Near misses.
  CHECK_FALSE(FloorDiv(h, 2) * 2 == h);
  CHECK_FALSE(FloorDiv(FloorDiv(h, 2) + w, 3) == FloorDiv(h + w, 6));
  CHECK_FALSE(FloorDiv(Mod(h, 4), 3).is(0));
  CHECK(FloorDiv(h, w).ToString() == "h//w");

  CHECK(Mod(4 * h + 1, 4).is(1));
  CHECK(Mod(h + 4, 4) == Mod(h, 4));
  CHECK(Mod(2 * h, 4) == 2 * Mod(h, 2));
  CHECK(Mod(2 * h + 1, 4) == 2 * Mod(h, 2) + 1);
  CHECK(Mod(Mod(h, 8), 4) == Mod(h, 4));
  CHECK(Mod(Mod(h, 4), 8) == Mod(h, 4));
  CHECK_FALSE(Mod(Mod(h, 6), 4) == Mod(h, 4));
  CHECK(Mod(h * w + 3 * w, w).is(0));
  CHECK(Mod(a * h, a * w) == a * Mod(h, w));
  CHECK(Mod(h, 1).is(0));
  // p = q*(p//q) + p%q, both ways.
  CHECK(h - 2 * FloorDiv(h, 2) == Mod(h, 2));
  CHECK(h + w - 2 * FloorDiv(h + w, 2) == Mod(h + w, 2));
  CHECK(2 * FloorDiv(h, 2) + Mod(h, 2) == h);
  CHECK(h - w * FloorDiv(h, w) == Mod(h, w));
  CHECK(w * FloorDiv(h, w) + Mod(h, w) == h);
  CHECK(3 * h * a - 6 * a * FloorDiv(h, 2) == 3 * a * Mod(h, 2));
  CHECK((h - 3 * FloorDiv(h, 2)).ToString() == "h - 3*(h//2)");
  // The third way: rounded down and up.
  CHECK(h - Mod(h, 7) == 7 * FloorDiv(h, 7));
  CHECK(h + Mod(-h, 7) == 7 * CeilDiv(h, 7));
  CHECK(h + w + Mod(Mod(7 - Mod(h, 7), 7), 7) == w + 7 * CeilDiv(h, 7));
  CHECK(a * h - a * Mod(h, w) == a * w * FloorDiv(h, w));
  CHECK((h + Mod(h, 7)).ToString() == "h + h%7");
  CHECK((2 * h + Mod(-h, 7)).ToString() == "2*h + (6*h)%7");

  for (const auto& divide : {FloorDiv, Mod, CeilDiv, ExactDiv}) {
    CHECK(CodeOf([&] { return divide(h, 0); }) == ErrorCode::kInvalidModel);
    CHECK(CodeOf([&] { return divide(4, 0); }) == ErrorCode::kInvalidModel);
  }
}

TEST_CASE("sym: exact division") {
  CHECK(ExactDiv(6 * a * b, 2 * a) == 3 * b);
  CHECK(ExactDiv(h * w + w, w) == h + 1);
  CHECK(ExactDiv((a + b) * (a + b), a + b) == a + b);
  CHECK(ExactDiv((a + 1) * (b + 2) * h, (b + 2) * h) == a + 1);
  CHECK(ExactDiv(h, 2) == FloorDiv(h, 2));
  CHECK(ExactDiv(a * h, a * w) == FloorDiv(h, w));
  CHECK(ExactDiv(-6 * a, -3) == 2 * a);
}

TEST_CASE("sym: min and max") {
  CHECK(Max(h, 0) == h);
  CHECK(Max(h - 1, 0).ToString() == "max(0, h - 1)");
  CHECK(Min(h, h + 1) == h);
  CHECK(Max(h, h + w) == h + w);
  CHECK(Max(Max(a, b), Max(b, 3)) == Max(3, Max(b, a)));
  CHECK(Max(Max(a, 2), 5) == Max(a, 5));
  CHECK(Min(Min(a, 2), 5) == Min(a, 2));
  CHECK(Max(a, Min(a, b)) == a);
  CHECK(Min(a, Max(a, b)) == a);
  CHECK(Min(h, -1).is(-1));
  CHECK(Min(Mod(h, 4), 3) == Mod(h, 4));
  CHECK_FALSE(Min(Mod(h, 4), 2) == Mod(h, 4));
  CHECK_FALSE(Max(a, b) == a);
  CHECK(Max(h, 1).ToString() == "max(1, h)");
}

TEST_CASE("sym: broadcast") {
  // The smaller of n and a constant gives way to n: where it is not n it has to be 1.
  CHECK(Bcast(Min(h, 1024), h) == h);
  CHECK(Bcast(h, Min(h, w + 1)) == h);
  CHECK_FALSE(Bcast(h, Min(h, w)) == h);  // w may be 0
  CHECK_FALSE(Bcast(h, Min(w, 1024)) == h);
  CHECK(Bcast(a, a) == a);
  CHECK(Bcast(a, 1) == a);
  CHECK(Bcast(1, a) == a);
  CHECK(Bcast(2, a).is(2));
  CHECK(Bcast(0, a).is(0));
  CHECK(Bcast(0, 1).is(0));
  CHECK(Bcast(1, 1).is(1));
  const SymInt ab = Bcast(a, b);
  CHECK_FALSE(ab == a);
  CHECK_FALSE(ab == b);
  CHECK(ab == Bcast(b, a));
  CHECK(Bcast(Bcast(a, b), Bcast(b, h)) == Bcast(a, Bcast(h, b)));
  CHECK(ab.ToString() == "bcast(a, b)");
  CHECK(Bcast(a + 2, b) == a + 2);
  CHECK(Bcast(2 * a, b) == 2 * a);
  CHECK_FALSE(Bcast(a + 1, b) == a + 1);
  CHECK(CodeOf([] { return Bcast(2, 3); }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([] { return Bcast(0, 2); }) == ErrorCode::kShapeMismatch);
  CHECK(Evaluate(ab, {{"a", 1}, {"b", 0}}) == 0);
  CHECK(Evaluate(ab, {{"a", 5}, {"b", 1}}) == 5);
  CHECK(CodeOf([&] { return Evaluate(ab, {{"a", 5}, {"b", 4}}); }) == ErrorCode::kShapeMismatch);
}

TEST_CASE("sym: overflow is an error, never a wrapped value") {
  const int64_t big = INT64_MAX;
  CHECK(CodeOf([&] { return SymInt(big) + 1; }) == ErrorCode::kOverflow);
  CHECK(CodeOf([&] { return SymInt(big) * h * 2; }) == ErrorCode::kOverflow);
  CHECK(CodeOf([&] { return -SymInt(INT64_MIN); }) == ErrorCode::kOverflow);
  CHECK(CodeOf([&] { return Evaluate(h * h, {{"h", int64_t{1} << 40}}); }) == ErrorCode::kOverflow);
  CHECK(SymInt(INT64_MIN).ToString() == "-9223372036854775808");
  for (const SymInt e : {SymInt(INT64_MIN), SymInt(INT64_MIN) * h, h + SymInt(INT64_MIN),
                         a * a + SymInt(INT64_MIN) * h}) {
    CHECK(P(e.ToString().c_str()) == e);
  }
  CHECK(FloorDiv(INT64_MIN, h).known());
  CHECK(CodeOf([&] { return FloorDiv(INT64_MIN, -1); }) == ErrorCode::kOverflow);
}

TEST_CASE("sym: order and hash depend on the expression alone") {
  std::vector<SymInt> v = {h * w,    h + 1, SymInt(3),  w,        FloorDiv(h, 2),
                           SymInt(), h,     SymInt(-1), Max(a, b)};
  std::sort(v.begin(), v.end(), [](SymInt x, SymInt y) { return SymInt::Compare(x, y) < 0; });
  std::string order;
  for (const SymInt e : v) order += e.ToString() + "; ";
  CHECK(order == "?; -1; 3; h; w; h//2; max(a, b); h*w; h + 1; ");
  // Part of cache keys: a change of these is a change of format.
  CHECK(h.hash() == S("h").hash());
  CHECK(h.hash() != w.hash());
  CHECK((h + w).hash() == (w + h).hash());
}

TEST_CASE("sym: Parse accepts any spelling and refuses the rest") {
  CHECK(P(" 2 * ( h+1 )//2 ") == h + 1);
  CHECK(P("min(h, w, 3)") == Min(Min(h, w), 3));
  CHECK(P("-h*w - -3") == 3 - h * w);
  CHECK(P("h//2//3") == FloorDiv(h, 6));
  CHECK_FALSE(P("?").known());
  CHECK(P("min") == S("min"));
  for (const char* bad : {"", "h +", "(h", "h)", "2h", "foo(h)", "h / 2", "99999999999999999999",
                          "min()", "h,w", "@"}) {
    CHECK_MESSAGE(CodeOf([&] { return P(bad); }) == ErrorCode::kSyntax, bad);
  }
  CHECK(CodeOf([] { return P(std::string(100000, '(').c_str()); }) == ErrorCode::kSyntax);
  CHECK(CodeOf([] { return P(std::string(100000, '-').c_str()); }) == ErrorCode::kSyntax);
}

TEST_CASE("sym: size stays bounded, and what was replaced still evaluates") {
  // A sum of more terms than the limit becomes one symbol, the same each time.
  SymInt sum = 0;
  SymBindings bindings;
  for (int i = 0; i < kMaxTerms + 10; ++i) {
    sum = sum + S(("s" + std::to_string(i)).c_str());
    bindings["s" + std::to_string(i)] = i;
  }
  CHECK(sum.ToString().size() < 400);
  CHECK(Evaluate(sum, bindings) == (kMaxTerms + 10) * (kMaxTerms + 9) / 2);
  CHECK(P(sum.ToString().c_str()) == sum);
  // Deep nests and powers, too; evaluation does not recurse through the symbols that stand for
  // them.
  SymInt deep = h;
  for (int i = 0; i < 20000; ++i)
    deep = i % 2 == 0 ? Max(deep, 2 + SymInt(i % 5) + w) - 1 : FloorDiv(deep * 3, 2);
  CHECK(deep.ToString().size() < 20000);
  SymInt chain = h;
  int64_t expected = 4;
  for (int i = 0; i < 30000; ++i) {
    chain = FloorDiv(3 * chain, 2) - FloorDiv(chain * 2, 5) + Mod(chain, 7);
    expected = expected * 3 / 2 - expected * 2 / 5 + expected % 7;
    if (expected > (int64_t{1} << 40)) break;
  }
  CHECK(Evaluate(chain, {{"h", 4}}) == expected);
  SymInt power = h;
  for (int i = 0; i < 6; ++i) power = power * power;
  CHECK(Evaluate(power, {{"h", 1}}) == 1);
  SymProgram program({h});
  program.Add(power);
  program.Add(chain);
  const int64_t arg = 1;
  int64_t results[2];
  program.Run(&arg, results);
  CHECK(results[0] == 1);
  // A symbol that stands for what may be negative is not taken for an extent.
  SymInt negative = -1000000;
  for (int i = 0; i < kMaxTerms + 1; ++i)
    negative = negative - S(("s" + std::to_string(i)).c_str());
  CHECK(Facts().RangeOf(negative).lo == INT64_MIN);
  CHECK_FALSE(Max(negative, 0) == negative);
}

TEST_CASE("sym: no user's symbol has the name of a symbol that stands for an expression") {
  SymInt large = 0, negative = -1;
  for (int i = 0; i < kMaxTerms + 1; ++i) {
    const SymInt s = S(("t" + std::to_string(i)).c_str());
    large = large + s;
    negative = negative - s;
  }
  for (const SymInt e : {large, negative}) {
    const std::string name = e.Symbols().at(0).symbol_name();
    CAPTURE(name);
    REQUIRE(e == e.Symbols()[0]);
    CHECK(name.find('$') != std::string::npos);
    CHECK(CodeOf([&] { SymInt::Symbol(name); }) == ErrorCode::kSyntax);
    CHECK(SymInt::Parse(e.ToString()) == e);  // what was printed is read back
    // Without the mark it is a name like any other, an extent that stands for nothing.
    std::string plain = name;
    plain.erase(plain.find('$'), 1);
    CHECK_FALSE(S(plain.c_str()) == e);
    CHECK(Facts().RangeOf(S(plain.c_str())).lo == 0);
    CHECK(Evaluate(S(plain.c_str()), {{plain, 7}}) == 7);
  }
  CHECK(S("x$1").ToString() == "x$1");
}

TEST_CASE("sym: programs share work, check their symbols and their arithmetic") {
  SymProgram p({h, w});
  CHECK(p.Add(h * w) == 0);
  CHECK(p.Add(FloorDiv(h * w + 1, 2)) == 1);
  CHECK(p.Add(SymInt(5)) == 2);
  CHECK(CodeOf([&] { p.Add(a); }) == ErrorCode::kBadBinding);
  CHECK(CodeOf([&] { p.Add(SymInt()); }) == ErrorCode::kBadBinding);
  CHECK(CodeOf([&] { SymProgram({h, h}); }) == ErrorCode::kApiMisuse);
  CHECK(p.num_results() == 3);
  CHECK(p.symbols() == std::vector<SymInt>{h, w});
  int64_t args[2] = {3, 5}, results[3];
  p.Run(args, results);
  CHECK(results[0] == 15);
  CHECK(results[1] == 8);
  CHECK(results[2] == 5);
  args[0] = args[1] = int64_t{1} << 33;
  CHECK(CodeOf([&] { p.Run(args, results); }) == ErrorCode::kOverflow);
  CHECK(CodeOf([] { return Evaluate(h + a, {{"h", 1}}); }) == ErrorCode::kBadBinding);
  CHECK(CodeOf([] {
          return Evaluate(FloorDiv(h, w), {{"h", 1}, {"w", 0}});
        }) == ErrorCode::kInvalidModel);
  SymProgram empty;
  CHECK(empty.Add(SymInt(2) * 21) == 0);
  int64_t r = 0;
  empty.Run(nullptr, &r);
  CHECK(r == 42);
}

TEST_CASE("sym: an extent of a kernel is no symbol that a name makes, nor hidden behind one") {
  const SymInt e0 = SymInt::Extent(0), e12 = SymInt::Extent(12);
  CHECK(e12.extent_number() == 12);
  CHECK(e12.ToString() == "$12");
  CHECK_FALSE(h.extent_number());
  CHECK_FALSE(SymInt::Symbol("d12").extent_number());
  CHECK(CodeOf([] { SymInt::Symbol("$12"); }) == ErrorCode::kSyntax);
  CHECK(CodeOf([] { SymInt::Parse("$12 + 1"); }) == ErrorCode::kSyntax);
  const SymInt sum = FloorDiv(e0 * e12 + 63, 64) * 64;
  CHECK(SymInt::ParseExtents(sum.ToString()) == sum);
  for (const char* text : {"h", "$", "$x", "$-1", "$99999999999999999999", "d0"})
    CHECK(CodeOf([&] { SymInt::ParseExtents(text); }) == ErrorCode::kSyntax);
  // Far beyond the sizes at which other expressions get a symbol of their own.
  SymInt product = 1, tower = e0;
  for (int k = 0; k < 40; ++k) product = product * (SymInt::Extent(k % 3) + 1);
  for (int k = 0; k < 60; ++k) tower = Max(FloorDiv(tower * e12 + 7, 3), k);
  for (const SymInt e : {product, tower})
    for (const SymInt s : e.Symbols()) CHECK(s.extent_number());
  CHECK(Evaluate(FloorDiv(product, product), {{"$0", 1}, {"$1", 1}, {"$2", 1}}) == 1);
}

TEST_CASE("sym: steps may leave 64 bits where the value does not; data wraps as data does") {
  const int64_t large = int64_t{1} << 40;
  const SymInt area = h * w - h * n;  // h * (w - n), multiplied out
  const SymBindings run = {{"h", large}, {"w", large}, {"n", large - 1}};
  CHECK(Evaluate(area, run) == large);
  SymProgram p({h, w, n});
  p.Add(area);
  p.Add(h * w);
  const int64_t args[] = {large, large, large - 1};
  int64_t results[2];
  std::vector<char> left;
  CHECK_FALSE(p.RunModulo(args, results, &left));
  CHECK(results[0] == large);
  CHECK(results[1] == 0);  // 2^80 modulo 2^64
  CHECK(left == std::vector<char>{0, 1});
  CHECK(CodeOf([&] { p.Run(args, results); }) == ErrorCode::kOverflow);
}

TEST_CASE("sym: a program knows what a symbol stands for") {
  SymProgram p({h});
  p.Define(SymInt::Extent(1), h * h);
  p.Define(SymInt::Extent(2), SymInt::Extent(1) + 1);
  p.Add(SymInt::Extent(2) * 2);
  const int64_t args[] = {3};
  int64_t result = 0;
  p.Run(args, &result);
  CHECK(result == 20);
  CHECK(CodeOf([&] { p.Define(SymInt::Extent(2), h); }) == ErrorCode::kApiMisuse);
  CHECK(CodeOf([&] { p.Define(SymInt::Extent(3), w); }) == ErrorCode::kBadBinding);
}

TEST_CASE("sym: data is followed where no real size makes it wrap") {
  CHECK(NeverWraps(INT64_MAX));
  CHECK(NeverWraps(h));
  CHECK(NeverWraps(h * w * n * 64 + 7));
  CHECK(NeverWraps(FloorDiv(h + 1, 2) - 1));
  CHECK(NeverWraps(FloorDiv(h, 2) * FloorDiv(w, 2) * 512));
  CHECK_FALSE(NeverWraps(h * INT64_MAX));
  CHECK_FALSE(NeverWraps(h + INT64_MAX));
  CHECK_FALSE(NeverWraps(h * (int64_t{1} << 40)));
  CHECK_FALSE(NeverWraps(h - INT64_MAX));
  SymInt power = 1;
  for (int k = 0; k < 12; ++k) power = power * h;
  CHECK_FALSE(NeverWraps(power));
  CHECK(NeverWraps32(h * w * 50257 - 1));
  CHECK_FALSE(NeverWraps32(h * INT32_MAX));
  CHECK_FALSE(NeverWraps32(FloorDiv(h * (1 << 24), 2)));
  CHECK(NeverWraps(h * INT32_MAX));
}

}  // namespace
}  // namespace weft
