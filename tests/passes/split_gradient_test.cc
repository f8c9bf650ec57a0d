/// split_gradient_test.cc: a graph with gradients and writes of variables, cut into its forward and
/// its backward part. The oracle is the whole, run in one.
#include <doctest/doctest.h>

#include "tests/support/e2e_util.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/runtime/session/variable_store.h"

namespace {

using namespace weft;
using namespace weft::e2e;

TEST_CASE(
    "gradient: the backward part gets a variable as it was before the forward part wrote it") {
  // v is read for the gradient by nobody but the backward part: in the seed, or in what a rule
  // has made of it.
  const auto make = [](const char* order) {
    Graph g;
    const NodeEntry x(g.AddInput("x", DType::kF32, Shape::OfInts({3})));
    const NodeEntry v(AddState(g, "v", DType::kF32, Shape::OfInts({3}),
                               Tensor::FromDoubles(DType::kF32, {3}, {1, 2, 3})));
    const NodeEntry seed = v * v, y = ApplyOp("Sin", {x * v});
    const NodeEntry first = Assign(v, x), between = ApplyOp("Neg", {v}), second = Assign(v, y);
    first.node->control_deps.push_back(seed.node);
    g.outputs = {y, Group({first, second})};
    SetGradient(g, {y}, {x}, {seed + between});
    return ApplyPasses(std::move(g), order);
  };
  for (const char* order :
       {"Gradient", "OrderMutation,Gradient", "Gradient,OrderMutation,ReadVariables",
        "OrderMutation,ReadVariables,Gradient,InferType,InferShape,Simplify"}) {
    CAPTURE(order);
    const Graph g = make(order);
    const GradientSplit split = SplitGradient(g);
    VerifyGraph(split.forward);
    VerifyGraph(split.backward);
    CompileOptions options;
    options.backend = "ref";
    auto apart = std::make_shared<VariableStore>();
    Session whole(Compile(g, options)), forward(Compile(split.forward, options), apart),
        backward(Compile(split.backward, options), apart);
    for (int step = 0; step < 3; ++step) {
      const TensorPtr x = Tensor::FromDoubles(DType::kF32, {3}, {0.5 + step, -1, 2});
      const auto expected = whole.Run({x}), there = forward.Run({x});
      const size_t asked = split.backward.AllInputs().size();
      std::vector<TensorPtr> back(asked - split.retained.size(), x);
      for (const size_t k : split.retained) back.push_back(there.at(k));
      const auto got = backward.Run(back);
      for (int64_t i = 0; i < 3; ++i) {
        CHECK(there.at(0)->at(i) == doctest::Approx(expected.at(0)->at(i)));
        CHECK(got.at(0)->at(i) == doctest::Approx(expected.at(2)->at(i)));
      }
    }
  }
}

TEST_CASE("gradient: a forward part that has to wait for the backward part is an error") {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape::OfInts({3})));
  const NodeEntry v(AddState(g, "v", DType::kF32, Shape::OfInts({3})));
  const NodeEntry y = ApplyOp("Sin", {x});
  const NodeEntry seed = Assign(v, ApplyOp("Neg", {x}));
  const NodeEntry later = ApplyOp("Abs", {v});
  const auto split = [&](const std::vector<NodeEntry>& outputs) {
    Graph whole = g;
    std::vector<NodeEntry> own;
    for (const NodeEntry& e : outputs) own.push_back(whole.at(e));
    whole.outputs = own;
    SetGradient(whole, {whole.at(y)}, {whole.at(x)}, {whole.at(seed)});
    return Catch([&] { SplitGradient(ApplyPass(std::move(whole), "Gradient")); });
  };
  CHECK_FALSE(split({y}));
  for (const NodeEntry& e : {later, v}) {
    const auto problem = split({y, e});
    REQUIRE(problem);
    CHECK(problem->code == ErrorCode::kUnsupported);
  }
}

}  // namespace
