/// infer_type_test.cc: the fixed point on graphs that are edited, and its cost.
#include <doctest/doctest.h>

#include "weft/core/graph/graph_attr.h"
#include "weft/core/pass/pass.h"

namespace weft {
namespace {

TEST_CASE("infer type: what an edit makes known reaches what was inferred before") {
  Graph g;
  const NodePtr x = g.AddInput("x"), h = g.AddInput("h", DType::kF16);
  const NodePtr a = g.AddNode("Neg", {NodeEntry(x)}), b = g.AddNode("Tanh", {NodeEntry(a)});
  g.outputs = {NodeEntry(b)};
  g = ApplyPass(std::move(g), "InferType");
  CHECK_FALSE(g.GetAttr<TypeMap>("dtype")[NodeEntry(b)].known());
  const NodePtr c = g.AddNode("Add", {NodeEntry(x), NodeEntry(h)});
  g.outputs.push_back(NodeEntry(c));
  g = ApplyPass(std::move(g), "InferType");
  for (NodePtr n : {x, a, b, c})
    CHECK(g.GetAttr<TypeMap>("dtype")[NodeEntry(n)] == Type(DType::kF16));
}

TEST_CASE("infer type: a long chain learned from its end is linear") {
  // a_k = x_k + x_{k+1}: only the last x is typed, so each node is visited twice.
  constexpr int kLength = 20000;
  Graph g;
  std::vector<NodeEntry> x, sums;
  for (int k = 0; k <= kLength; ++k)
    x.emplace_back(g.AddInput("x" + std::to_string(k), k == kLength ? Type(DType::kF64) : Type()));
  for (int k = 0; k < kLength; ++k)
    sums.emplace_back(g.AddNode("Add", {x[size_t(k)], x[size_t(k) + 1]}));
  g.outputs = sums;
  std::vector<PassRecord> records;
  PassOptions options;
  options.records = &records;
  g = ApplyPass(std::move(g), "InferType", options);
  CHECK(g.GetAttr<TypeMap>("dtype")[sums[0]] == Type(DType::kF64));
  CHECK(records.at(0).statistics.at("inferred") <= 5 * kLength);
}

}  // namespace
}  // namespace weft
