/// networks_test.cc: training steps of networks and updates of many variables as the CUDA printer
/// computes them: on emulated threads against the interpreter in double precision, and compiled by
/// NVRTC for several architectures.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "backends/cuda/doubles/emulated_kernels.h"
#include "tests/support/e2e_util.h"
#include "tests/support/nvrtc_checks.h"
#include "tests/support/training_networks.h"
#include "weft/core/graph/effects.h"
#include "weft/runtime/session/variable_store.h"
#include "weft/support/log.h"

namespace {

using namespace weft;
using namespace weft::e2e;

void CheckTraining(const Graph& step, const std::vector<TensorPtr>& inputs, double tolerance) {
  RegisterEmulation();
  SetLogLevel(LogLevel::kError);
  const auto program = CompileEmulated(step);
  if (!BuildKernels(8)) return;
  EvalOptions exact;
  exact.typed = false;
  const std::vector<TensorPtr> want = GetEvaluator()->Eval(step, inputs, exact);
  Session session(program);
  for (uint64_t run = 0; run < 3; ++run) {
    TheEmulation().run = {cuda::GuardedMemory::Place(run), run + 1, run % 2 ? 1 : 132};
    CheckClose(session.Run(inputs), want, tolerance);
  }
  MESSAGE(program->stats().kernels << " kernels, " << program->stats().library_calls
                                   << " library calls, " << program->stats().interpreted
                                   << " steps interpreted");
}

Graph LeNetStep() {
  Network n(3, 1, 28);
  return n.Step(LeNet(&n));
}
Graph ResNetStep(SymInt batch, int64_t size, int blocks) {
  Network n(batch, 3, size);
  return n.Step(ResNet(&n, blocks));
}

/// x - rate * gradient for `count` variables of every rank.
Graph Updates(int count) {
  return UpdatesOf(count, [](int64_t i) {
    return i % 5 == 0   ? std::vector<int64_t>{i + 1}
           : i % 5 == 1 ? std::vector<int64_t>{3, i + 2, 5}
           : i % 5 == 2 ? std::vector<int64_t>{}
           : i % 5 == 3 ? std::vector<int64_t>{700, 3}
                        : std::vector<int64_t>{0, 4};
  });
}

}  // namespace

TEST_CASE("emulated CUDA: a training step of LeNet") {
  Network n(3, 1, 28);
  const Graph step = n.Step(LeNet(&n));
  CheckTraining(step, n.Inputs(3, 1, 28), 1e-4);
}

TEST_CASE("emulated CUDA: a training step of a residual network with run-time batches") {
  Network n(SymInt::Symbol("n"), 3, 12);
  const Graph step = n.Step(ResNet(&n, 1));
  CheckTraining(step, n.Inputs(4, 3, 12), 5e-3);
}

TEST_CASE("emulated CUDA: many variables are updated in place by one launch") {
  RegisterEmulation();
  SetLogLevel(LogLevel::kError);
  for (const int count : {7, 150}) {
    const Graph g = Updates(count);
    const auto program = CompileEmulated(g);
    if (!BuildKernels(4)) return;
    const int64_t launches = TheEmulation().launches;
    auto store = std::make_shared<VariableStore>();
    Session session(program, store);
    std::map<std::string, std::vector<double>> want;
    for (int step = 0; step < 2; ++step) {
      const std::vector<TensorPtr> in = StepOfUpdates(*program, step, &want);
      TheEmulation().run = {cuda::GuardedMemory::Place::kMisaligned, uint64_t(step) + 2, 132};
      session.Run(in);
      for (const auto& [name, values] : want) {
        const TensorPtr got = store->Get(name);
        REQUIRE(got->num_elements() == int64_t(values.size()));
        int wrong = 0;
        for (size_t i = 0; i < values.size(); ++i) wrong += got->at(int64_t(i)) != values[i];
        CHECK(wrong == 0);
      }
    }
    CHECK(TheEmulation().launches - launches <= 2 * 2);
  }
}

namespace {

/// Distinct kernels of a graph after CodeGen.
std::vector<KernelPtr> KernelsOf(const Graph& g) {
  std::vector<KernelPtr> kernels = KernelsIn(g);
  std::set<std::string> names;
  const auto seen = [&](const KernelPtr& k) { return !names.insert(k->Name()).second; };
  kernels.erase(std::remove_if(kernels.begin(), kernels.end(), seen), kernels.end());
  return kernels;
}

}  // namespace

TEST_CASE("a training step of ResNet-50 has few kernels, and NVRTC spills nothing of them") {
  SetLogLevel(LogLevel::kError);
  for (const int sm : {80, 90, 100}) {
    CAPTURE(sm);
    PassOptions passes;
    passes.target = "cuda:sm_" + std::to_string(sm);
    Network n(64, 3, 224);
    const Graph step = n.Step(ResNet50(&n));
    const Graph g = ApplyPasses(step, StandardPipeline({PipelineEnd::kKernels}), passes);
    std::vector<KernelPtr> kernels = KernelsOf(g);
    MESSAGE(kernels.size() << " distinct kernels");
    CHECK(kernels.size() <= 60);
    const auto compiler = FindNvrtc(sm);
    if (!compiler) continue;
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::string> errors;
    const std::vector<std::string> binaries = compiler->Compile(kernels, &errors);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    for (size_t i = 0; i < kernels.size(); ++i) {
      CAPTURE(kernels[i]->Name());
      CHECK(errors[i] == "");
      if (!IsPtx(binaries[i])) CHECK(compiler->Stats(*kernels[i], binaries[i]).spill_bytes == 0);
    }
    // About 2 s on two cores of a Xeon that nobody else uses.
    MESSAGE("sm_" << sm << ": " << kernels.size() << " kernels in " << seconds << " s");
  }
}

TEST_CASE("NVRTC compiles the kernels of training steps, and nothing spills") {
  if (!FindNvrtc()) return;
  std::vector<KernelPtr> kernels;
  std::set<std::string> names;
  const auto add = [&](const Graph& step, const Pipeline& pipeline) {
    PassOptions passes;
    passes.target = "cuda:sm_90";
    for (const KernelPtr& k : KernelsOf(ApplyPasses(step, pipeline, passes)))
      if (names.insert(k->Name()).second) kernels.push_back(k);
  };
  for (const Graph& step : {LeNetStep(), ResNetStep(64, 32, 3), Updates(20)})
    add(step, KernelPasses());
  for (const int sm : {80, 100, 90}) {
    if (sm == 90) {
      // Further ones for one architecture: run-time batches, and the groups that are left where
      // libraries take convolutions and products.
      add(ResNetStep(SymInt::Symbol("n"), 32, 1), KernelPasses());
      add(ResNetStep(64, 32, 3), WithPass(StandardPipeline({PipelineEnd::kKernels}), "Layout", {}));
    }
    std::vector<std::string> labels;
    for (const KernelPtr& k : kernels) labels.push_back(k->Name());
    CheckRegisters(sm, kernels, labels);
  }
}
