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

}  // namespace weft::e2e
