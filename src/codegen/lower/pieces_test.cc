/// Tests of pieces.h: what is taken for consecutive pieces, and what is not. What the copies
/// do is tested end to end (src/backends/cuda/launch/launcher_test.cc).
#include "pieces.h"

#include <doctest/doctest.h>

#include <functional>

namespace weft {
namespace {

/// [2, 3 inputs, 4] out of [2, 3, 4] each, by a balanced tree; `leaf` may change
/// what piece k reads.
ComputeSpec Pieces(int inputs, const std::function<Expr(int, const Expr&)>& leaf) {
  ComputeSpec spec;
  for (int i = 0; i < inputs; ++i) spec.inputs.push_back({DType::kF32, {2, 3, 4}});
  spec.outputs.push_back({DType::kF32, {2, 3 * inputs, 4}});
  const std::function<Expr(int, int, Expr)> pick = [&](int lo, int hi, const Expr& guard) {
    const Expr at = Expr::Index(1);
    if (hi - lo == 1)
      return leaf(lo, Expr::Load(lo, DType::kF32,
                                 {Expr::Index(0), at - Expr::Int(3 * lo), Expr::Index(2)}, guard));
    const int mid = (lo + hi) / 2;
    const Expr left = Lt(at, Expr::Int(3 * mid));
    return Expr::Select(left, pick(lo, mid, guard ? And(guard, left) : left),
                        pick(mid, hi, guard ? And(guard, Not(left)) : Not(left)));
  };
  spec.values = {pick(0, inputs, Expr())};
  return spec;
}
Expr Same(int, const Expr& e) { return e; }

TEST_CASE("pieces: copies by what each is told") {
  for (const bool flat : {true, false}) {
    const auto lowered = LowerPieces(Pieces(70, Same), flat);
    REQUIRE(lowered);
    REQUIRE(lowered->parts.size() == 70);
    CHECK(lowered->Kernels().size() == 1);
    CHECK(lowered->kernel->dims.size() == (flat ? 1 : 2));
    for (int i = 0; i < 70; ++i) {
      const KernelPart& p = lowered->parts[size_t(i)];
      CHECK(p.operands == std::vector<int>{i, 70});
      // Points or runs, begin, elements of the result, a run, what lies between two.
      const std::vector<int64_t> want{flat ? 24 : 2, 12 * i, 2 * 210 * 4, 12, 69 * 12};
      for (size_t k = 0; k < want.size(); ++k)
        CHECK(lowered->symbols[size_t(p.first_symbol) + k].value() == want[k]);
    }
  }
}

TEST_CASE("pieces: near misses are one kernel") {
  CHECK_FALSE(LowerPieces(Pieces(64, Same), true));
  const auto changed = [](const std::function<Expr(const Expr&)>& change) {
    return LowerPieces(Pieces(70, [&](int k, const Expr& e) { return k == 40 ? change(e) : e; }),
                       true);
  };
  const auto load = [](const Expr& e, const Expr& row, const Expr& guard) {
    return Expr::Load(e->buffer(), DType::kF32, {Expr::Index(0), row, Expr::Index(2)}, guard);
  };
  CHECK(changed([](const Expr& e) { return e; }));
  CHECK_FALSE(changed([](const Expr& e) { return -e; }));
  CHECK_FALSE(changed([](const Expr&) { return Expr::Const(DType::kF32, 1); }));
  // Another order of rows, and a part of them.
  CHECK_FALSE(changed([&](const Expr& e) {
    return load(e, Expr::Int(122) - Expr::Index(1), e->operands().back());
  }));
  CHECK_FALSE(changed([&](const Expr& e) {
    return load(e, e->operand(1), And(e->operands().back(), Lt(Expr::Index(2), Expr::Int(3))));
  }));
  // A chain: each piece by all that were refused before.
  ComputeSpec chain = Pieces(70, Same);
  Expr value = Expr::Load(69, DType::kF32,
                          {Expr::Index(0), Expr::Index(1) - Expr::Int(3 * 69), Expr::Index(2)});
  for (int k = 68; k >= 0; --k)
    value = Expr::Select(
        Lt(Expr::Index(1), Expr::Int(3 * (k + 1))),
        Expr::Load(k, DType::kF32,
                   {Expr::Index(0), Expr::Index(1) - Expr::Int(3 * k), Expr::Index(2)}),
        value);
  chain.values = {value};
  CHECK_FALSE(LowerPieces(chain, true));
  // A result that is longer than its pieces.
  ComputeSpec longer = Pieces(70, Same);
  longer.outputs[0].dims[1] = 3 * 70 + 1;
  CHECK_FALSE(LowerPieces(longer, true));
}

}  // namespace
}  // namespace weft
