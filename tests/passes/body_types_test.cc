/// body_types_test.cc: what bodies are inferred to be, for operands of one call, then of another.
#include "weft/core/pass/body_types.h"

#include <doctest/doctest.h>

#include "tests/support/e2e_util.h"
#include "weft/core/graph/graph_attr_types.h"

namespace weft::e2e {

TEST_CASE("sizes that begin in a body are other sizes than those of its operands") {
  const Graph body = FromText(
      "graph (%x: f32?, %y: f32?) -> (%i, %j) {\n"
      "  %i = NonZero(%x) : ?\n  %j = NonZero(%y) : ?\n}\n");
  const std::vector<Type> types(2, Type(DType::kF32));
  const SymInt n = SymInt::Symbol("n"), u0 = SymInt::Unbacked(0), u1 = SymInt::Unbacked(1);
  const auto size = [](const Graph& g, size_t i) {
    return g.GetAttr<ShapeMap>("shape")[g.outputs[i]][1];
  };
  BodyOperands operands;
  operands.types = types;
  operands.shapes = {Shape({n, 4}), Shape({n})};
  const Graph first = InferBody(body, operands);
  CHECK(size(first, 0) == u0);
  CHECK(size(first, 1) == u1);
  CHECK(first.GetAttr<Facts>("facts").LessEqual(u1, n) == Proof::kYes);
  // The graph around it has sizes of these numbers, which have nothing to do with those.
  operands.shapes = {Shape({u1}), Shape({u0, u1})};
  const Graph second = InferBody(first, operands);
  for (size_t i : {0, 1})
    for (SymInt outer : {u0, u1}) CHECK(size(second, i) != outer);
  CHECK(size(second, 0) != size(second, 1));
  CHECK(second.GetAttr<Facts>("facts").LessEqual(u1, n) != Proof::kYes);
  CHECK(second.GetAttr<Facts>("facts").LessEqual(size(second, 0), u1) == Proof::kYes);
}

TEST_CASE("a result keeps the number of its size when another one gets a rank") {
  const Graph body = FromText(
      "graph (%c: bool[], %x: f32?, %y: f32?) -> (%a, %b) {\n"
      "  %a, %b = If(%c, %x, %y) {num_captures = 2,\n"
      "    then_branch = graph (%p: f32?, %q: f32?) -> (%v, %w) {\n"
      "      %v = Neg(%p) : ?\n      %w = Neg(%q) : ?\n    },\n"
      "    else_branch = graph (%p: f32?, %q: f32?) -> (%v, %w) {\n"
      "      %v = Concat(%p, %p) {axis = 0} : ?\n      %w = Concat(%q, %q) {axis = 0} : ?\n"
      "    }} : ?, ?\n}\n");
  BodyOperands operands;
  operands.types = {Type(DType::kBool), Type(DType::kF32), Type(DType::kF32)};
  operands.shapes = {Shape::Scalar(), Shape(), Shape({SymInt::Symbol("n")})};
  const Graph first = InferBody(body, operands);
  const auto shape = [](const Graph& g, size_t i) {
    return g.GetAttr<ShapeMap>("shape")[g.outputs[i]];
  };
  CHECK(!shape(first, 0).has_rank());
  operands.shapes[1] = Shape({SymInt::Symbol("m")});
  const Graph second = InferBody(first, operands);
  CHECK(shape(second, 1)[0] == shape(first, 1)[0]);
  CHECK(shape(second, 0)[0] != shape(second, 1)[0]);
  CHECK(!second.AttrOr<Facts>("facts").ProvedEqual(shape(second, 0)[0], shape(second, 1)[0]));
}

}  // namespace weft::e2e
