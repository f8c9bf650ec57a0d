/// registered_ops_test.cc: operators that a program registers while it runs, in every engine and in
/// `.weftx` files: those are read by a process that has not registered them.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>

#include "tests/support/e2e_util.h"
#include "tests/support/temp_folder.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/op/staging.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/support/file.h"

namespace {

using namespace weft;
using namespace weft::e2e;

using Code = std::function<Exprs(const NodePtr&, const Exprs&)>;

/// y = code(inputs), of the dtype of input 0.
OpBuilder Elementwise(const std::string& name, int inputs, int line, Code code) {
  OpBuilder b(name, Owner::At("registered_ops_test", "script.py", line));
  b.set_num_inputs(inputs)
      .set_num_outputs(1)
      .set_attr<FInferType>("FInferType",
                            [](InferTypeContext& ctx) {
                              if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
                            })
      .set_attr<FCodeGen>("FCodeGen", std::move(code));
  return b;
}
Expr Call(CallOp op, const Expr& e) { return Expr::Call(op, {e}); }

Graph SampleGraph(const char* op) {
  return FromText(std::string("graph (%x: f32[n, 5], %w: f32[5]) -> (%z) {\n  %t = Tanh(%x) : ?\n"
                              "  %y = ") +
                  op + "(%t, %w) : ?\n  %z = Softmax(%y) {axis = -1} : ?\n}");
}

/// In a process of its own, which has no operator that is registered after this.
struct Child {
  Child() {
    REQUIRE(pipe(to) == 0);
    REQUIRE(pipe(from) == 0);
    pid = fork();
    if (pid != 0) return;
    // Waits for a path, loads, runs at ones and writes the sum of squares of the results.
    char path[4096] = {};
    if (read(to[0], path, sizeof path - 1) <= 0) _exit(3);
    double sum = -1;
    try {
      Session session(LoadProgram(path));
      std::vector<TensorPtr> in = RandomProgramInputs(session.program(), 5, {{"n", 3}});
      for (const TensorPtr& t : session.Run(in))
        for (int64_t i = 0; i < t->num_elements(); ++i) sum += t->at(i) * t->at(i);
    } catch (const std::exception& e) {
      fprintf(stderr, "%s\n", e.what());
      _exit(2);
    }
    if (write(from[1], &sum, sizeof sum) != sizeof sum) _exit(4);
    _exit(0);
  }
  double Run(const std::string& path) {
    REQUIRE(write(to[1], path.c_str(), path.size()) == ssize_t(path.size()));
    double sum = std::nan("");
    close(from[1]);
    const bool got = read(from[0], &sum, sizeof sum) == sizeof sum;
    int status = 0;
    waitpid(pid, &status, 0);
    CHECK(status == 0);
    return got ? sum : std::nan("");
  }
  int to[2], from[2];
  pid_t pid = -1;
};

double SumOfSquares(const std::vector<TensorPtr>& tensors) {
  double sum = -1;
  for (const TensorPtr& t : tensors)
    for (int64_t i = 0; i < t->num_elements(); ++i) sum += t->at(i) * t->at(i);
  return sum;
}

}  // namespace

TEST_CASE("an operator registered while the program runs: every engine, one kernel, its gradient") {
  Elementwise("rot::Blend", 2, 1,
              [](const NodePtr&, const Exprs& x) -> Exprs {
                return {Call(CallOp::kSin, x[0]) * x[1] + 0.5};
              })
      .define()
      .Commit();
  const Graph g = SampleGraph("rot::Blend");
  const Reference want = RunReference(g, 5, {{"n", 3}});
  for (const EngineName& engine : Engines()) {
    CAPTURE(engine.text());
    const auto program = CompileWith(g, engine);
    CHECK(Difference(Session(program).Run(want.inputs), want.outputs) <= 1);
    if (std::string(engine.backend) == "cpu" && engine.fusion) CHECK(program->stats().kernels == 1);
  }
  Graph h;
  const NodeEntry x(h.AddInput("x", DType::kF64, {3})), w(h.AddInput("w", DType::kF64, {3}));
  const NodeEntry y(h.AddNode("rot::Blend", {x, w}));
  h.outputs = Gradients(h, {y}, {x, w});
  const auto values = [](std::vector<double> v) {
    return Tensor::FromDoubles(DType::kF64, {3}, v);
  };
  const auto d = GetEvaluator()->Eval(h, {values({1, 2, 3}), values({4, 5, 6})});
  for (int i = 0; i < 3; ++i) {
    CHECK(d[0]->at(i) == doctest::Approx((4 + i) * std::cos(1 + i)));
    CHECK(d[1]->at(i) == doctest::Approx(std::sin(1 + i)));
  }
}

TEST_CASE(
    "an operator that is replaced: graphs keep theirs, new ones have the new, kernels follow") {
  const auto times = [](double factor) {
    return [factor](const NodePtr&, const Exprs& x) -> Exprs { return {x[0] * factor + x[1]}; };
  };
  Elementwise("rot::Scale", 2, 1, times(2)).define().Commit();
  const char* text = "graph (%x: f32[4], %b: f32[4]) -> (%y) {\n  %y = rot::Scale(%x, %b) : ?\n}";
  const Graph before = FromText(text);
  Elementwise("rot::Scale", 2, 2, times(3)).override_op().Commit();
  const Graph after = FromText(text);
  const auto in = Tensor::FromDoubles(DType::kF32, {4}, {1, 2, 3, 4}),
             zero = Tensor::FromDoubles(DType::kF32, {4}, {0, 0, 0, 0});
  for (int round = 0; round < 2; ++round)  // the second finds kernels in the cache
    for (const EngineName& engine : Engines()) {
      CAPTURE(engine.text());
      for (const auto& [graph, factor] : {std::pair{&before, 2.0}, std::pair{&after, 3.0}}) {
        const auto y = Session(CompileWith(*graph, engine)).Run({in, zero})[0];
        for (int i = 0; i < 4; ++i) CHECK(y->at(i) == factor * (i + 1));
      }
    }
  const auto bad = Catch([&] { Elementwise("rot::Scale", 2, 3, times(4)).define().Commit(); });
  REQUIRE(bad);
  CHECK(bad->code == ErrorCode::kDuplicate);
  CHECK(bad->says("registered_ops_test (script.py:2)"));
  CHECK(bad->says("registered_ops_test (script.py:3)"));
}

TEST_CASE("a saved program holds what its operators compute") {
  for (const char* backend : {"cpu", "ref"}) {
    if (std::string(backend) == "cpu" && !HasCpu()) continue;
    CAPTURE(backend);
    const std::string name = std::string("rot::Saved") + (*backend == 'c' ? "Cpu" : "Ref");
    Child child;
    Elementwise(
        name, 2, 1,
        [](const NodePtr&, const Exprs& x) -> Exprs {
          return {Expr::Select(Lt(x[0], x[1]), Call(CallOp::kExp, x[0] - x[1]), x[0] * 3.0)};
        })
        .define()
        .Commit();
    const TempFolder dir;
    const auto program = CompileFor(SampleGraph(name.c_str()), backend);
    SaveProgram(*program, dir / "a.weftx");
    CHECK(ReadFile(dir / "a.weftx").find("weft::Expression") != std::string::npos);
    const auto inputs = RandomProgramInputs(*program, 5, {{"n", 3}});
    const double want = SumOfSquares(Session(program).Run(inputs));
    CHECK(child.Run(dir / "a.weftx") == doctest::Approx(want).epsilon(1e-6));
    // Loading compiles nothing here either, and saving what was loaded changes nothing.
    const auto loaded = LoadProgram(dir / "a.weftx");
    for (const PassRecord& r : loaded->stats().passes) CHECK(r.name != "RTCGen");
    CHECK(loaded->stats().kernels == program->stats().kernels);
    SaveProgram(*loaded, dir / "b.weftx");
    CHECK(ReadFile(dir / "a.weftx") == ReadFile(dir / "b.weftx"));
    CHECK(program->graph().num_nodes() == loaded->graph().num_nodes());
  }
}

TEST_CASE("a saved program of a derivative and of a loop body needs no registration either") {
  if (!HasCpu()) return;
  Child child;
  Elementwise("rot::InBody", 2, 1,
              [](const NodePtr&, const Exprs& x) -> Exprs {
                return {Call(CallOp::kTanh, x[0]) + x[1] * 0.125};
              })
      .define()
      .Commit();
  Graph g = FromText(R"(graph (%x: f32[n, 4], %w: f32[4]) -> (%last) {
  %last, %all = Scan(%w, %x) {num_scan_inputs = 1, body = graph (%s: f32[4], %r: f32[4]) -> (%t, %u) {
    %t = rot::InBody(%s, %r) : ?
    %u = Identity(%t) : ?
  }} : ?, ?
})");
  const NodeEntry w(g.inputs()[1]);
  const NodeEntry y(g.AddNode("rot::InBody", {w, g.outputs[0]}));
  const NodeEntry d = Gradients(g, {y}, {w})[0];
  g.outputs = std::vector<NodeEntry>{y, d};
  const TempFolder dir;
  const auto program = CompileFor(g, "cpu");
  SaveProgram(*program, dir / "a.weftx");
  const auto inputs = RandomProgramInputs(*program, 5, {{"n", 3}});
  const double want = SumOfSquares(Session(program).Run(inputs));
  CHECK(child.Run(dir / "a.weftx") == doctest::Approx(want).epsilon(1e-5));
}
