/// cpu_backend_test.cc: small graphs compiled for the cpu give what the reference gives.
#include <doctest/doctest.h>

#include "backends/cpu/util/call_test_util.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/pass/evaluator.h"
#include "weft/runtime/program/program.h"

namespace weft::cpu {
namespace {

/// Runs `g` on both backends and returns the statistics of the cpu program.
ProgramStats CheckAgainstReference(const Graph& g, const SymBindings& bind = {}) {
  CompileOptions ref, cpu;
  ref.backend = "ref";
  cpu.backend = "cpu";
  const auto want_program = Compile(g, ref), got_program = Compile(g, cpu);
  const auto inputs = RandomProgramInputs(*want_program, 7, bind);
  Session want(want_program), got(got_program);
  const auto w = want.Run(inputs);
  for (int run = 0; run < 2; ++run) {
    const auto y = got.Run(inputs);
    REQUIRE(y.size() == w.size());
    for (size_t i = 0; i < y.size(); ++i) CHECK(CompareTensors(*y[i], *w[i]) <= 1);
  }
  return got_program->stats();
}

NodeEntry Input(Graph* g, const char* name, Ns dims) {
  return NodeEntry(g->AddInput(name, DType::kF32, Shape::OfInts(dims)));
}

TEST_CASE("a chain is one kernel") {
  Graph g;
  const NodeEntry x = Input(&g, "x", {64, 1000}), y = Input(&g, "y", {1000});
  g.outputs = std::vector<NodeEntry>{ApplyOp("Tanh", {ApplyOp("Relu", {x * y}) + x})};
  const ProgramStats stats = CheckAgainstReference(g);
  CHECK(stats.kernels == 1);
  CHECK(stats.interpreted == 0);
}

TEST_CASE("soft-max over rows of any extent") {
  Graph g;
  const NodeEntry x(
      g.AddInput("x", DType::kF32, Shape({SymInt::Symbol("n"), SymInt::Symbol("k")})));
  g.outputs = std::vector<NodeEntry>{ApplyOp("Softmax", {x}, {{"axis", -1}})};
  for (const auto& [n, k] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 17}, {300, 256}, {7, 4000}}) {
    const ProgramStats stats = CheckAgainstReference(g, {{"n", n}, {"k", k}});
    CHECK(stats.interpreted == 0);
  }
}

TEST_CASE("convolution, pooling, product: library calls between kernels") {
  Graph g;
  const NodeEntry x = Input(&g, "x", {2, 3, 12, 12});
  const NodeEntry w = ConstantLike(x, RandomTensor({8, 3, 3, 3}, 1)),
                  b = ConstantLike(x, RandomTensor({8}, 2));
  const NodeEntry c = ApplyOp("Conv", {x, w, b}, {{"pads", Ints{1, 1, 1, 1}}});
  const NodeEntry p = ApplyOp("MaxPool", {ApplyOp("Relu", {c})},
                              {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  const NodeEntry flat = ApplyOp("Flatten", {p}, {{"axis", 1}});
  const NodeEntry m = ApplyOp(
      "Gemm",
      {flat, ConstantLike(x, RandomTensor({10, 288}, 3)), ConstantLike(x, RandomTensor({10}, 4))},
      {{"transB", 1}});
  g.outputs =
      std::vector<NodeEntry>{m, ApplyOp("MatMul", {m, ConstantLike(x, RandomTensor({10, 4}, 5))})};
  const ProgramStats stats = CheckAgainstReference(g);
#ifdef WEFT_HAVE_ONEDNN
  CHECK(stats.library_calls >= 3);
#endif
  CHECK(stats.interpreted == 0);
}

TEST_CASE("quotients beside padding: what stands there is zero by zero") {
  for (const int64_t length : {1, 2, 3, 7}) {
    CAPTURE(length);
    Graph g;
    const NodeEntry x = Input(&g, "x", {16, 5, length}), y = Input(&g, "y", {16, 5, length});
    const auto padded = [](const NodeEntry& e) {
      return ApplyOp("Pad", {e, IntsLike(e, {0, 0, 0, 0, 0, 1})});
    };
    const NodeEntry mean =
        ApplyOp("AveragePool", {x},
                {{"kernel_shape", Ints{1}}, {"strides", Ints{1}}, {"dilations", Ints{2}}});
    g.outputs = std::vector<NodeEntry>{padded(mean), padded(x / y)};
    CheckAgainstReference(g);
  }
}

TEST_CASE("extents of zero") {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, Shape({SymInt::Symbol("n"), 4})));
  g.outputs = std::vector<NodeEntry>{
      ApplyOp("Relu", {ApplyOp("MatMul", {x, ConstantLike(x, RandomTensor({4, 3}, 1))})})};
  CheckAgainstReference(g, {{"n", 0}});
}

TEST_CASE("threads are the backend's") {
  const auto backend = GetBackend("cpu");
  const int before = backend->threads();
  CHECK(before >= 1);
  backend->set_threads(3);
  CHECK(backend->threads() == 3);
  backend->set_threads(before);
}

}  // namespace
}  // namespace weft::cpu
