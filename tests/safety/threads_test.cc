/// threads_test.cc: many threads import, compile and run at once: one program shared by all,
/// programs of their own, the tables of backends and operators, the plugin list and the kernel
/// cache. Made for ThreadSanitizer (preset tsan); a mismatch fails it everywhere.
///
/// Under ThreadSanitizer programs run with one OpenMP thread: libgomp's barriers
/// are invisible to it.
#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "tests/support/e2e_util.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/module/plugin.h"
#include "weft/core/op/op.h"

namespace weft {
namespace {

constexpr int kThreads = 8;

/// Runs `body(thread)` in all threads at once; collects what they throw.
template <class F>
std::vector<std::string> InAll(F body) {
  std::atomic<int> ready{0};
  std::mutex mutex;
  std::vector<std::string> errors;
  std::vector<std::thread> team;
  for (int t = 0; t < kThreads; ++t) {
    team.emplace_back([&, t] {
      ++ready;
      while (ready.load() < kThreads) std::this_thread::yield();
      try {
        body(t);
      } catch (const std::exception& e) {
        std::lock_guard lock(mutex);
        errors.push_back(e.what());
      }
    });
  }
  for (std::thread& t : team) t.join();
  return errors;
}

Graph Network(int width) {
  const std::string w = std::to_string(width);
  return e2e::FromText("graph (%x: f32[n, " + w + "], %w: f32[" + w + ", " + w +
                       "]) -> (%y, %s) {\n"
                       "  %h = MatMul(%x, %w)\n  %r = Relu(%h)\n  %a = Add(%r, %x)\n"
                       "  %y = Softmax(%a) {axis = 1}\n  %s = ReduceSum(%a, _)\n}\n");
}

std::string BackendOfThisBuild() { return e2e::HasCpu() ? "cpu" : "ref"; }

CompileOptions OptionsFor(const std::string& backend) {
  CompileOptions options;
  options.backend = backend;
  options.threads = 1;
  return options;
}

TEST_CASE("threads share one program") {
  const Graph graph = Network(16);
  const auto program = Compile(graph, OptionsFor(BackendOfThisBuild()));
  const auto inputs = RandomProgramInputs(*program, 1, {{"n", 5}});
  const auto want = Session(program).Run(inputs);
  const auto errors = InAll([&](int t) {
    Session session(program);
    for (int round = 0; round < 6; ++round) {
      // Extents of their own as well as the shared ones: bindings are made while others run.
      const int64_t n = 1 + (t + round) % 4;
      session.Run(RandomProgramInputs(*program, 7, {{"n", n}}));
      const auto got = session.Run(inputs);
      for (size_t i = 0; i < got.size(); ++i)
        if (CompareTensors(*got[i], *want[i]) > 1) throw std::runtime_error("results differ");
    }
  });
  CHECK(errors == std::vector<std::string>());
}

TEST_CASE("threads compile at once, through one cache") {
  const std::string backend = BackendOfThisBuild();
  GetBackend(backend);
  const auto errors = InAll([&](int t) {
    for (int round = 0; round < 3; ++round) {
      if (round == 1) KernelCache::Process().ClearMemory();
      const Graph graph = Network(8 + 8 * ((t + round) % 2));
      const auto program = Compile(graph, OptionsFor(backend));
      const auto inputs = RandomProgramInputs(*program, 3, {{"n", 3}});
      EvalOptions options;
      options.typed = false;
      const auto want = GetEvaluator()->Eval(graph, inputs, options);
      const auto got = Session(program).Run(inputs);
      for (size_t i = 0; i < got.size(); ++i)
        if (CompareTensors(*got[i], *want[i]) > 1) throw std::runtime_error("results differ");
    }
  });
  CHECK(errors == std::vector<std::string>());
}

TEST_CASE("threads read the tables while others work") {
  const auto errors = InAll([&](int t) {
    for (int round = 0; round < 20; ++round) {
      switch ((t + round) % 5) {
        case 0:
          ListBackendModules();
          PassEntry::List();
          break;
        case 1:
          for (const Op* op : Op::List())
            if (Op::Find(op->name) != op) throw std::runtime_error("an operator is not found");
          break;
        case 2:
          LoadedPlugins();
          break;
        case 3: {
          const Graph g = Network(4);
          ApplyPasses(g, "InferShape,Simplify,Fusion");
          ParseGraph(PrintGraph(g));
          break;
        }
        default:
          if (!e2e::Catch([] { LoadPlugin("/nowhere/none.so"); }))
            throw std::runtime_error("a plugin that is not there was loaded");
          break;
      }
    }
  });
  CHECK(errors == std::vector<std::string>());
}

TEST_CASE("one thread cancels what another runs") {
  const Graph graph = e2e::FromText(
      "graph (%x: f32[400, 400]) -> (%y) {\n  %a = MatMul(%x, %x)\n  %b = MatMul(%a, %a)\n"
      "  %c = MatMul(%b, %b)\n  %y = MatMul(%c, %c)\n}\n");
  const auto program = Compile(graph, OptionsFor("ref"));
  const auto inputs = RandomProgramInputs(*program, 1, {});
  Session session(program);
  CancelToken token;
  session.set_cancel(token);
  std::thread other([token]() mutable { token.Cancel(); });
  const auto caught = e2e::Catch([&] {
    for (int k = 0; k < 100; ++k) session.Run(inputs);
  });
  other.join();
  REQUIRE(caught.has_value());
  CHECK(caught->code == ErrorCode::kCancelled);
  session.set_cancel(CancelToken());
  CHECK(session.Run(inputs).size() == 1);
}

}  // namespace
}  // namespace weft
