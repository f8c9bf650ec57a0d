/// cuda_backend_test.cc: the backend "cuda" on a driver that is a table of ours (failing_driver.h):
/// everything that it asks of a driver, and in which order; what it gives back; what it does when a
/// call fails. Kernels run on emulated threads.
#include "backends/cuda/cuda_backend.h"

#include <doctest/doctest.h>

#include <cmath>

#include "backends/cuda/doubles/emulated_libraries.h"
#include "backends/cuda/doubles/failing_driver.h"
#include "tests/support/emulated_gpu.h"
#include "tests/support/error_bound.h"
#include "tests/support/random/random_graph.h"
#include "tests/support/special_run.h"
#include "tests/support/training_networks.h"
#include "tests/support/variables_util.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/session/variable_store.h"
#include "weft/support/log.h"

namespace {

using namespace weft;
using namespace weft::e2e;

const char* const kCounting =
    R"(graph (%x: f32[4], %v: f32[4] param = [0.0, 0.0, 0.0, 0.0] {state = 1}) -> (%y) {
  %s = Add(%v, %x) : f32[4]
  %a = weft::Assign(%v, %s) : f32[4]
  %y = Mul(%a, %a) : f32[4]
}
)";

}  // namespace

TEST_CASE("cuda backend: random graphs, in streams and as graphs") {
  if (!EmulatedGpu::Start()) return;
  const LogLevel before = GetLogLevel();
  SetLogLevel(LogLevel::kError);
  struct Made {
    fuzz::RandomGraph random;
    std::shared_ptr<const Program> program;
  };
  std::vector<Made> all;
  for (uint64_t seed = 2; seed <= 60; seed += 2) {
    Made m{fuzz::MakeRandomGraph(seed), nullptr};
    m.program = EmulatedGpu::Compile(m.random.graph);
    all.push_back(std::move(m));
  }
  EmulatedGpu::BuildKernels();
  for (const Made& m : all) {
    CAPTURE(m.random.seed);
    Session session(m.program);
    const size_t sets = m.random.bindings.size() + 1;  // the last with special numbers
    for (size_t b = 0; b < sets; ++b) {
      const bool special = b + 1 == sets;
      const std::vector<TensorPtr> in =
          special ? fuzz::MakeSpecialInputs(m.random, 0) : fuzz::MakeInputs(m.random, b);
      Oracles want;
      try {
        want = AskOracles(m.random.graph, in, special);
      } catch (const UserError&) {
        if (special) continue;  // an index that is no number
        throw;
      }
      for (int run = 0; run < 4; ++run) {
        const std::vector<TensorPtr> got = session.Run(in);
        for (size_t i = 0; i < got.size(); ++i) {
          const NodeEntry e = m.random.graph.outputs[i];
          const double error = m.random.values.at({e.node->id(), e.index}).error;
          const std::string why = CompareResult(*got[i], want, i, error);
          CHECK_MESSAGE(why.empty(), why);
        }
      }
    }
  }
  all.clear();
  SetLogLevel(before);
  CHECK(FailingDriver::Get().calls.at("GraphLaunch") > 10);
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda backend: LeNet learns as on the CPU, 20 steps") {
  if (!HasCpu() || !EmulatedGpu::Start()) return;
  constexpr int64_t kBatch = 2;
  Network n(kBatch, 1, 28);
  const Graph step = n.Step(LeNet(&n));  // (x, labels, parameters) -> (loss, gradients)
  auto program = EmulatedGpu::Compile(step);
  EmulatedGpu::BuildKernels();
  CHECK(program->stats().library_calls > 0);
  const int convs = EmulatedGpu::libraries()->convs, products = EmulatedGpu::libraries()->products;
  {
    Session device(program), cpu(CompileFor(step, "cpu"));
    const std::vector<TensorPtr> inputs = n.Inputs(kBatch, 1, 28);
    const Losses losses = CheckLearnsAlike(device, cpu, inputs);
    CHECK(losses.last < 0.5 * losses.first);
    // Two convolutions and their gradients but the first one's for the data;
    // three layers of weights.
    CHECK(EmulatedGpu::libraries()->convs - convs == 5);
    CHECK(EmulatedGpu::libraries()->products - products > 0);
    for (const StepTime& s : device.Profile(inputs)) CHECK(s.how != "generated");
  }
  program.reset();
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda backend: everything is given back, in the right order") {
  if (!EmulatedGpu::Start()) return;
  {
    const auto program = EmulatedGpu::Compile(FromText(kCounting));
    EmulatedGpu::BuildKernels();
    auto store = std::make_shared<VariableStore>();
    Session a(program, store), b(program, store);
    for (int i = 1; i <= 5; ++i) {
      a.Run({Vector({1, 1, 1, 1})});
      b.Run({Vector({1, 1, 1, 1})});
      CHECK(ValuesOf(*store->Get("v")) == Values(4, 2.0 * i));
    }
    CHECK(FailingDriver::Get().libraries == 1);
  }
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda backend: runs are started, and waited for one by one") {
  if (!EmulatedGpu::Start()) return;
  {
    const auto program = EmulatedGpu::Compile(FromText(kCounting));
    EmulatedGpu::BuildKernels();
    auto store = std::make_shared<VariableStore>();
    auto a = std::make_unique<Session>(program, store);
    std::vector<PendingRun> runs;
    for (int i = 0; i < 8; ++i) runs.push_back(a->Start({Vector({1, 1, 1, 1})}));
    CHECK(!runs[4].ready());
    CHECK(ValuesOf(*runs[3].Wait()[0]) == Values(4, 16));
    CHECK(!runs[4].ready());
    CHECK(ValuesOf(*runs[1].Wait()[0]) == Values(4, 4));
    CHECK(ValuesOf(*store->Get("v")) == Values(4, 8));
    a.reset();
    CHECK(ValuesOf(*runs[7].Wait()[0]) == Values(4, 64));
  }
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda backend: a graph follows what it works on to other places") {
  if (!EmulatedGpu::Start()) return;
  {
    const auto program = EmulatedGpu::Compile(FromText(R"(graph (%x: f32[n]) -> (%y) {
  %y = Exp(%x) : f32[n]
}
)"));
    EmulatedGpu::BuildKernels();
    Session s(program);
    const auto run = [&](int64_t n, int times) {
      for (int i = 0; i < times; ++i)
        CHECK(s.Run({Tensor::FromDoubles(DType::kF32, {n}, Values(size_t(n), i))})[0]->at(n - 1) ==
              doctest::Approx(std::exp(i)));
    };
    run(7, 4);
    run(3000, 4);
    run(7, 4);
    CHECK(FailingDriver::Get().calls["GraphInstantiate"] == 2);
    CHECK(FailingDriver::Get().calls["GraphExecUpdate"] == 1);
  }
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda backend: any call that fails is told once, and nothing leaks") {
  if (!EmulatedGpu::Start()) return;
  const Graph g = FromText(kCounting);
  EmulatedGpu::Compile(g);
  EmulatedGpu::BuildKernels();
  FailingDriver& d = FailingDriver::Get();
  int failures = 0;
  for (const char* entry :
       {"CtxPushCurrent", "MemAllocFromPoolAsync", "MemHostAlloc", "MemcpyHtoDAsync",
        "MemcpyDtoHAsync", "StreamCreate", "StreamSynchronize", "LibraryLoadData",
        "LibraryGetKernel", "LaunchKernel", "GraphCreate", "GraphAddKernelNode", "GraphInstantiate",
        "GraphLaunch", "EventCreate", "EventRecord", "EventSynchronize"}) {
    CAPTURE(std::string(entry));
    for (int64_t n = 0;; ++n) {
      REQUIRE(n < 200);
      if (!EmulatedGpu::Start()) return;
      d.failure = {entry, n, 2, false};
      const auto caught = Catch([&] {
        Session s(EmulatedGpu::Compile(g));
        for (int i = 0; i < 5; ++i) s.Run({Vector({1, 1, 1, 1})});
        s.Start({Vector({1, 1, 1, 1})}).Wait();
      });
      d.failure = {};
      if (!caught) break;
      ++failures;
      CHECK(caught->code == ErrorCode::kOutOfMemory);
      // The device is as good as before.
      Session again(EmulatedGpu::Compile(g));
      CHECK(ValuesOf(*again.Run({Vector({1, 2, 3, 4})})[0]) == Values{1, 4, 9, 16});
    }
    EmulatedGpu::CheckClean();
  }
  CHECK(failures > 30);
}

TEST_CASE("cuda backend: a device that has failed says so from then on") {
  if (!EmulatedGpu::Start()) return;
  const Graph g = FromText(kCounting);
  EmulatedGpu::Compile(g);
  EmulatedGpu::BuildKernels();
  {
    Session s(EmulatedGpu::Compile(g));
    s.Run({Vector({1, 1, 1, 1})});
    FailingDriver::Get().failure = {"StreamSynchronize",
                                    FailingDriver::Get().calls["StreamSynchronize"], 700, true};
    const auto first = Catch([&] { s.Run({Vector({1, 1, 1, 1})}); });
    REQUIRE(first);
    CHECK(first->code == ErrorCode::kDevice);
    CHECK(first->says("illegal"));
    FailingDriver::Get().failure = {};
    const auto second = Catch([&] { s.Run({Vector({1, 1, 1, 1})}); });
    REQUIRE(second);
    CHECK(second->code == ErrorCode::kDevice);
    CHECK(second->says("only a new process"));
  }
}

TEST_CASE("cuda backend: no driver, no device, no room") {
  if (!EmulatedGpu::Start()) return;
  auto none = std::make_shared<cuda::DriverApi>();
  none->error = "no driver (libcuda.so.1: cannot open)";
  const auto no_driver = Catch([&] { cuda::Device::Open(0, none); });
  REQUIRE(no_driver);
  CHECK(no_driver->code == ErrorCode::kUnsupported);
  CHECK(no_driver->says("no driver"));
  const auto no_device = Catch([&] { cuda::Device::Open(1, FailingDriverTable()); });
  REQUIRE(no_device);
  CHECK(no_device->says("the driver has 1"));
  const auto no_room = Catch([&] { EmulatedGpu::backend()->Allocate(int64_t{1} << 40); });
  REQUIRE(no_room);
  CHECK(no_room->code == ErrorCode::kOutOfMemory);
  CHECK(no_room->says("1.00 GiB"));
  {
    Session s(
        EmulatedGpu::Compile(FromText("graph (%x: f32[2, n]) -> (%s, %y) {\n"
                                      "  %s = ReduceSum(%x) {keepdims = 0} : f32[]\n"
                                      "  %t = Transpose(%x) : f32[n, 2]\n"
                                      "  %e = MatMul(%x, %t) : f32[2, 2]\n"
                                      "  %y = Exp(%e) : f32[2, 2]\n}")));
    FailingDriver::Get().memory_bytes = 1 << 16;
    const auto x = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{2, 80000});
    const auto told = Catch([&] { s.Run({x}); });
    FailingDriver::Get().memory_bytes = int64_t{1} << 30;
    REQUIRE(told);
    CHECK(told->code == ErrorCode::kOutOfMemory);
    CHECK(told->says("at these dimensions the plan needs"));
  }
  EmulatedGpu::CheckClean();
}
