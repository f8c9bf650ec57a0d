/// variable_test.cc: declarations in both forms, and random inputs made from them.
#include "weft/core/graph/variable.h"

#include <doctest/doctest.h>

#include "weft/core/pass/evaluator.h"
#include "weft/support/error.h"

namespace weft {
namespace {

/// A graph of one variable that is its output, as a dictionary of 2016 declares it.
Graph OneVariable(AttrDict declared) {
  Graph g;
  const NodePtr v = g.AddInput("v");
  v->attrs.dict = std::move(declared);
  g.outputs = {NodeEntry(v)};
  return g;
}

TEST_CASE("variable: declarations as values and as texts") {
  const Graph values = OneVariable({{"dtype", DType::kI32}, {"shape", Shape{2, 3}}});
  const Graph texts = OneVariable({{"dtype", "i32"}, {"shape", "[2, 3]"}});
  for (const Graph* g : {&values, &texts}) {
    const NodePtr v = g->inputs()[0];
    CHECK(DeclaredType(v) == Type(DType::kI32));
    REQUIRE(DeclaredShape(v).has_value());
    CHECK(DeclaredShape(v)->ints() == std::vector<int64_t>{2, 3});
    const RandomInputs r = MakeRandomInputs(*g, 1);
    REQUIRE(r.tensors.size() == 1);
    CHECK(r.tensors[0]->dtype() == DType::kI32);
    CHECK(r.tensors[0]->dims() == std::vector<int64_t>{2, 3});
  }
}

TEST_CASE("variable: a value declares both; nothing declares nothing; a wrong text is an error") {
  Graph g;
  const NodePtr p = g.AddParam("p", Tensor::Ints({1, 2}));
  CHECK(DeclaredType(p) == Type(DType::kI64));
  CHECK(DeclaredShape(p)->ints() == std::vector<int64_t>{2});

  const Graph bare = OneVariable({});
  CHECK_FALSE(DeclaredType(bare.inputs()[0]).known());
  CHECK_FALSE(DeclaredShape(bare.inputs()[0]).has_value());
  CHECK(MakeRandomInputs(bare, 1).tensors[0]->dtype() == DType::kF32);

  CHECK_THROWS_AS(DeclaredType(OneVariable({{"dtype", "f23"}}).inputs()[0]), Error);
  CHECK_THROWS_AS(DeclaredShape(OneVariable({{"shape", "[2"}}).inputs()[0]), Error);
  CHECK_THROWS_AS(MakeRandomInputs(OneVariable({{"dtype", "f23"}}), 1), Error);
}

}  // namespace
}  // namespace weft
