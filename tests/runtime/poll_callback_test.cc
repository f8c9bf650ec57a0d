/// poll_callback_test.cc: a callback of the host is asked during every kind of work, and what it
/// throws ends the work and nothing else.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "tests/support/e2e_util.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/onnx/export.h"
#include "weft/onnx/import.h"
#include "weft/support/request.h"

namespace {

using namespace weft;
using namespace weft::e2e;

/// What a host throws is its own: of any type, or as exceptions of the language are.
struct Interrupt {};
struct KeyPressed : std::exception {
  const char* what() const noexcept override { return "a key was pressed"; }
};

/// Runs `work` with a callback that throws as soon as it is asked. Says whether just that came out.
template <class Thrown, class F>
bool EndsBy(F&& work) {
  try {
    const PollCallback watch([] { throw Thrown(); }, 0.0);
    // The clock that it goes by has to tick.
    std::this_thread::sleep_for(std::chrono::milliseconds(12));
    work();
    return false;
  } catch (const Thrown&) {
    return true;
  } catch (...) {
    return false;
  }
}
template <class F>
bool Interrupted(F&& work) {
  return EndsBy<Interrupt>(work) && EndsBy<KeyPressed>(work);
}

/// Distinct kernels in a row, each of which takes a while to compile.
Graph ManyKernels(int count, int salt) {
  Graph g;
  NodeEntry x(g.AddInput("x", DType::kF32, {16, 64}));
  for (int i = 0; i < count; ++i) {
    x = ApplyOp("Softmax", {x * ScalarLike(x, DType::kF32, 1 + salt + i * 0.25)},
                {{"axis", i % 2}});
    x = ApplyOp("Erf", {ApplyOp("Sin", {x + ScalarLike(x, DType::kF32, salt + i * 0.125)})});
  }
  g.outputs = std::vector<NodeEntry>{x};
  return g;
}

}  // namespace

TEST_CASE("poll callback: it ends an import, a pipeline, a compilation and a run") {
  const Graph g = ManyKernels(12, 100);
  const std::string model = ExportOnnxBytes(g);
  CHECK(Interrupted([&] { ImportOnnxBytes(model); }));
  CHECK(Interrupted([&] { ApplyPasses(g, "InferType,InferShape,Simplify"); }));
  CHECK(Interrupted([&] { CompileFor(g, "ref"); }));
  const auto reference = CompileFor(g, "ref");
  const auto inputs = RandomProgramInputs(*reference, 1, {});
  Session interpreted(reference);
  CHECK(Interrupted([&] { interpreted.Run(inputs); }));
  // The session, the program and the graph are as they were.
  const auto want = interpreted.Run(inputs);
  if (!HasCpu()) return;
  KernelCache::Process().ClearMemory();
  CHECK(Interrupted([&] { CompileFor(ManyKernels(12, 200), "cpu"); }));
  const auto program = CompileFor(g, "cpu");
  Session session(program);
  CHECK(Interrupted([&] { session.Run(inputs); }));
  CHECK(Difference(session.Run(inputs), want) <= 1);
}

TEST_CASE("poll callback: it ends a kernel and a step of the interpreter in their middle") {
  Graph g;
  const NodeEntry x(g.AddInput("x", DType::kF32, {400, 400}));
  NodeEntry y = x;
  for (int i = 0; i < 8; ++i) y = ApplyOp("Tan", {ApplyOp("Sin", {y})});
  g.outputs = std::vector<NodeEntry>{y};
  const auto big = RunReference(g, 1).inputs;
  for (const EngineName& engine : Engines()) {
    CAPTURE(engine.text());
    Session session(CompileWith(g, engine));
    const auto want = session.Run(big);
    int calls = 0;
    bool ended = false;
    try {
      const PollCallback watch(
          [&] {
            if (++calls == 3) throw Interrupt();
          },
          0.0);
      session.Run(big);
    } catch (const Interrupt&) {
      ended = true;
    }
    CHECK(ended == (calls == 3));
    // The interpreter takes many ticks of the clock for it; a kernel may be done before.
    if (std::string(engine.backend) == "ref") CHECK(ended);
    CHECK(Difference(session.Run(big), want, 0, 0) == 0);
  }
}

TEST_CASE("poll callback: it may use the library; results are the same with one and without") {
  const Graph g = ManyKernels(3, 1);
  const auto program = CompileFor(g, "ref");
  const auto inputs = RandomProgramInputs(*program, 1, {});
  Session session(program), other(program);
  const auto want = session.Run(inputs);
  int calls = 0;
  const PollCallback watch(
      [&] {
        ++calls;
        CHECK(Difference(other.Run(inputs), want, 0, 0) == 0);
      },
      0.0);
  std::this_thread::sleep_for(std::chrono::milliseconds(12));
  CHECK(Difference(session.Run(inputs), want, 0, 0) == 0);
  CHECK(calls > 0);
}
