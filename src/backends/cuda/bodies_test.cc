/// bodies_test.cc: If, Loop, Scan and recurrent operators, forward and gradient, on the backend
/// "cuda" with a driver that is a table of ours: bodies are kernels and calls of the device, in
/// streams and in graphs, and nothing is read while nobody asks.
#include <doctest/doctest.h>

#include <algorithm>

#include "backends/cuda/doubles/emulated_libraries.h"
#include "backends/cuda/doubles/failing_driver.h"
#include "tests/support/body_graphs.h"
#include "tests/support/e2e_util.h"
#include "tests/support/emulated_gpu.h"
#include "tests/support/error_bound.h"
#include "tests/support/random/random_control_flow.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/support/log.h"

using namespace weft;
using namespace weft::e2e;

TEST_CASE("cuda backend: recurrent operators are kernels and products, and one graph") {
  if (!EmulatedGpu::Start()) return;
  struct Made {
    Graph graph;
    std::shared_ptr<const Program> program;
  };
  std::vector<Made> all;
  for (const auto& [op, direction] : {std::pair{"LSTM", "forward"}, std::pair{"GRU", "reverse"},
                                      std::pair{"RNN", "bidirectional"}}) {
    const Graph g = RecurrentGraph(op, direction);
    all.push_back({g, EmulatedGpu::Compile(g)});
    const Graph with = WithGradients(g);
    all.push_back({with, EmulatedGpu::Compile(with)});
  }
  EmulatedGpu::BuildKernels();
  const int products = EmulatedGpu::libraries()->products;
  for (const Made& m : all) {
    const ProgramStats& stats = m.program->stats();
    CHECK(stats.interpreted == 0);
    Session session(m.program);
    for (const SymBindings& bind :
         {SymBindings{{"t", 5}, {"b", 2}}, SymBindings{{"t", 2}, {"b", 1}}}) {
      const Reference want = RunReference(m.graph, 7, bind);
      for (int run = 0; run < 4; ++run)
        CHECK(Difference(session.Run(want.inputs), want.outputs) <= 1);
    }
    CHECK(stats.host_waits == 0);
    CHECK(stats.replays == 4);
  }
  CHECK(EmulatedGpu::libraries()->products > products);
  all.clear();
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda backend: random control flow, in streams and as graphs") {
  if (!EmulatedGpu::Start()) return;
  const LogLevel before = GetLogLevel();
  SetLogLevel(LogLevel::kError);
  struct Made {
    fuzz::ControlFlowGraph random;
    std::shared_ptr<const Program> program;
  };
  std::vector<Made> all;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Made m{fuzz::MakeControlFlowGraph(seed, false), nullptr};
    m.program = EmulatedGpu::Compile(m.random.graph);
    // Compiled in two parts, between which a graph of regions would lose its symbols.
    const std::vector<NodePtr> nodes = m.program->graph().TopoOrder();
    if (std::none_of(nodes.begin(), nodes.end(),
                     [](const NodePtr& n) { return IsOp(n, builtin::kRegion); }))
      all.push_back(std::move(m));
  }
  CHECK(all.size() > 10);
  EmulatedGpu::BuildKernels();
  for (const Made& m : all) {
    CAPTURE(m.random.seed);
    Session session(m.program);
    for (size_t b = 0; b < m.random.bindings.size(); ++b) {
      const std::vector<TensorPtr> in = fuzz::MakeInputs(m.random, b, 0);
      const std::vector<TensorPtr> want = GetEvaluator()->Eval(m.random.graph, in);
      for (int run = 0; run < 4; ++run) {
        const auto got = session.Run(Ordered(*m.program, m.random.graph, in));
        for (size_t i = 0; i < got.size(); ++i) {
          const std::string why = Compare(*got[i], *want[i], 0);
          CHECK_MESSAGE(why.empty(), why);
        }
      }
    }
  }
  all.clear();
  SetLogLevel(before);
  EmulatedGpu::CheckClean();
}
