/// shape_test.cc: the five kinds of shape stay apart, print, parse and broadcast.
#include "weft/core/tensor/shape.h"

#include <doctest/doctest.h>

#include "tests/support/code_of.h"
#include "weft/core/tensor/demand.h"
#include "weft/support/error.h"

namespace weft {
namespace {

const SymInt n = SymInt::Symbol("n"), m = SymInt::Symbol("m");

TEST_CASE("rank-unknown, dim-unknown, symbolic, scalar and zero-size differ") {
  const Shape unknown, dim_unknown{SymInt(), 4}, symbolic{n, 4}, scalar = Shape::Scalar(),
                                                                 zero{0, 4};
  const Shape all[] = {unknown, dim_unknown, symbolic, scalar, zero};
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 5; ++j) CHECK(all[i].same(all[j]) == (i == j));
  }
  CHECK_FALSE(unknown.has_rank());
  CHECK_THROWS_AS(unknown.rank(), InternalError);
  CHECK(scalar.rank() == 0);
  CHECK(scalar.num_elements().is(1));
  CHECK(zero.num_elements().is(0));
  CHECK_FALSE(dim_unknown.num_elements().known());
  CHECK(symbolic.num_elements() == 4 * n);
  CHECK_FALSE(symbolic.is_static());
  CHECK(symbolic.fully_known());
  CHECK_FALSE(dim_unknown.fully_known());
  CHECK(zero.ints() == std::vector<int64_t>{0, 4});
  CHECK_THROWS_AS(symbolic.ints(), InternalError);
}

TEST_CASE("text round-trips") {
  const Shape shapes[] = {Shape(),
                          Shape::Scalar(),
                          Shape{2, 3},
                          Shape{n, 2 * m, 3},
                          Shape{SymInt(), 4},
                          Shape{Bcast(n, m), Min(n, 4)},
                          Shape{0},
                          Shape{n + m - 1}};
  for (const Shape& s : shapes) CHECK(Shape::Parse(s.ToString()).same(s));
  CHECK(Shape().ToString() == "?");
  CHECK(Shape::Scalar().ToString() == "[]");
  CHECK(Shape{n, 3}.ToString() == "[n, 3]");
  CHECK(Shape::Parse(" [ 2 ,n ] ").same(Shape{2, n}));
  for (const char* bad : {"", "[", "2, 3", "[2,]", "[,]", "[2, 3", "[2 3]", "[a b]"})
    CHECK_THROWS_AS(Shape::Parse(bad), UserError);
}

TEST_CASE("axes") {
  CHECK(NormalizeAxis(-1, 3) == 2);
  CHECK(NormalizeAxis(0, 1) == 0);
  CHECK_THROWS_AS(NormalizeAxis(3, 3), UserError);
  CHECK_THROWS_AS(NormalizeAxis(-4, 3), UserError);
  CHECK_THROWS_AS(NormalizeAxis(0, 0), UserError);
}

TEST_CASE("broadcast is never one side by guess") {
  CHECK(BroadcastShapes({2, 1}, {3}).same({2, 3}));
  CHECK(BroadcastShapes({n, 1}, {m}).same({n, m}));
  CHECK(BroadcastShapes({n}, {m}).same(Shape{Bcast(n, m)}));
  CHECK(BroadcastShapes({n}, {4}).same({4}));
  CHECK(BroadcastShapes({SymInt()}, {4}).same({4}));
  CHECK(BroadcastShapes({SymInt()}, {1}).same(Shape{SymInt()}));
  CHECK(BroadcastShapes({SymInt()}, {n}).same(Shape{SymInt()}));
  CHECK(BroadcastShapes(Shape(), {4}).same(Shape()));
  CHECK(BroadcastShapes({0}, {1}).same({0}));
  CHECK(BroadcastShapes({}, Shape::Scalar()).same(Shape()));
  CHECK_THROWS_AS(BroadcastShapes({2, 3}, {2, 4}), UserError);
  Facts facts;
  facts.AddEqual(n, m);
  const Shape s = BroadcastShapes({n}, {m}, &facts);
  CHECK((s.same({n}) || s.same({m})));
  Facts large;
  large.SetRange(n, {2, 100});
  CHECK(BroadcastShapes({n}, {m}, &large).same({n}));
}

TEST_CASE("a mask cut from a constant one broadcasts to the scores that it covers") {
  const SymInt past = SymInt::Symbol("past"), seq = SymInt::Symbol("seq");
  Facts facts;
  const Shape mask({Max(0, Min(past + seq, 1024) - past), Min(past + seq, 1024)}),
      scores({seq, past + seq});
  CHECK(BroadcastDemanded(mask, scores, &facts).same(scores));
  CHECK(BroadcastDemanded(scores, mask, &facts).same(scores));
  CHECK_NOTHROW(facts.CheckHolds({{"past", 1000}, {"seq", 24}}));
  CHECK(CodeOf([&] {
          facts.CheckHolds({{"past", 1000}, {"seq", 25}});
        }) == ErrorCode::kShapeMismatch);
  // Near miss: a mask of one row that covers any number of them demands nothing.
  Facts none;
  CHECK(BroadcastDemanded(Shape({1, 1}), scores, &none).same(scores));
  CHECK_NOTHROW(none.CheckHolds({{"past", 1000}, {"seq", 25}}));
}

TEST_CASE("element counts") {
  CHECK(NumElements({}) == 1);
  CHECK(NumElements({3, 0, INT64_MAX}) == 0);
  CHECK_THROWS_AS(NumElements({INT64_MAX, 2}), UserError);
  CHECK_THROWS_AS(NumElements({-1}), UserError);
}

}  // namespace
}  // namespace weft
