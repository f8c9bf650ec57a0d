/// cuda_backend_test.cc: the backend "cuda" on a driver that is a table of ours (fake_driver.h): everything that it asks of
/// a driver, and in which order; what it gives back; what it does when a call fails. Kernels run on emulated threads.
#include <doctest/doctest.h>

#include <cstdlib>

#include "backends/cuda/cuda_backend.h"
#include "codegen/cuda/cuda_printer.h"
#include "error_bound.h"
#include "fake_driver.h"
#include "random_graph.h"
#include "training_networks.h"
#include "variables_util.h"
#include "weft/codegen/kernel_compilers.h"
#include "weft/runtime/backend.h"
#include "weft/runtime/variable_store.h"
#include "weft/support/log.h"

namespace {

using namespace weft;
using namespace weft::e2e;

constexpr const char* kTarget = "faked";

/// Notes what it should compile: all kernels of a test are built together.
class Collector final : public KernelCompiler {
 public:
  static std::map<std::string, KernelPtr>& Kernels() {
    static std::map<std::string, KernelPtr> kernels;
    return kernels;
  }
  std::string target() const override { return kTarget; }
  std::string Source(const Kernel& kernel) const override { return PrintCuda(kernel); }
  std::string source_extension() const override { return ".cu"; }
  std::vector<std::string> Compile(const std::vector<KernelPtr>& kernels,
                                   std::vector<std::string>*) override {
    for (const KernelPtr& k : kernels) Kernels().emplace(k->Name(), k);
    return std::vector<std::string>(kernels.size(), "a cubin");
  }
  KernelStats Stats(const Kernel&, const std::string&) const override { return {}; }
};

/// The backend under test is made anew by every test.
std::shared_ptr<Backend>& TheBackend() {
  static std::shared_ptr<Backend> backend;
  return backend;
}
class Forwarding final : public Backend {
 public:
  std::string name() const override { return "faked"; }
  std::string target() const override { return kTarget; }
  std::string library() const override { return "cuda"; }
  std::string default_pipeline() const override { return "RTCGen,Schedule,PlanMemory"; }
  bool has_own_memory() const override { return true; }
  std::unique_ptr<DeviceStream> NewStream() override { return TheBackend()->NewStream(); }
  std::shared_ptr<void> Allocate(int64_t bytes) override { return TheBackend()->Allocate(bytes); }
  std::shared_ptr<KernelLauncher> Load(const Kernel& k, const CompiledKernel& c) override {
    return TheBackend()->Load(k, c);
  }
  std::shared_ptr<KernelLauncher> LoadMulti(const LoweredKernel& l,
                                            const CompiledKernels& c) override {
    return TheBackend()->LoadMulti(l, c);
  }
};

/// A driver without a past, and the backend on its device.
bool Ready() {
  if (!cuda::EmulatedLibrary::CanCompile()) {
    MESSAGE("skipped: this machine has no compiler");
    return false;
  }
  [[maybe_unused]] static const bool once = [] {
    setenv("WEFT_CACHE", "off", 1);
    RegisterBackend("faked", [] { return std::make_shared<Forwarding>(); });
    RegisterKernelCompiler(kTarget,
                           [](const std::string&) { return std::make_shared<Collector>(); });
    return true;
  }();
  TheBackend().reset();
  REQUIRE(FakeDriver::Get().alive() == 0);
  FakeDriver::Get().Reset();
  TheBackend() = cuda::MakeCudaBackend(cuda::Device::Open(0, FakeDriverTable()), kTarget);
  return true;
}

std::shared_ptr<const Program> Compiled(const Graph& graph) {
  PassOptions passes;
  passes.target = "cuda:sm_90";
  CompileOptions options;
  options.backend = "faked";
  return Compile(
      ApplyPasses(graph, Pipeline::Parse(std::string(kGraphPasses) + ",CodeGen"), passes), options);
}
/// Builds what has been asked for so far.
void Build(size_t units = 4) {
  static cuda::EmulatedLibrary library;
  std::vector<std::vector<KernelPtr>> batches(units);
  size_t next = 0;
  for (const auto& [name, kernel] : Collector::Kernels())
    if (!library.Find(CudaEntries(*kernel)[0])) batches[next++ % units].push_back(kernel);
  std::vector<std::string> sources;
  for (const auto& batch : batches)
    if (!batch.empty()) sources.push_back(PrintCuda(batch));
  std::string why;
  if (!sources.empty()) {
    const auto built = cuda::EmulatedLibrary::Build(sources, &why);
    REQUIRE_MESSAGE(built != nullptr, why);
    library.Add(*built);
  }
  FakeDriver::Get().kernels = &library;
}
void CheckClean() {
  TheBackend().reset();
  const FakeDriver& d = FakeDriver::Get();
  CHECK(d.alive() == 0);
  for (const std::string& p : d.problems) FAIL_CHECK(p);
}

const char* const kCounting =
    R"(graph (%x: f32[4], %v: f32[4] param = [0.0, 0.0, 0.0, 0.0] {state = 1}) -> (%y) {
  %s = Add(%v, %x) : f32[4]
  %a = weft::Assign(%v, %s) : f32[4]
  %y = Mul(%a, %a) : f32[4]
}
)";

}  // namespace

TEST_CASE("cuda backend: random graphs, in streams and as graphs") {
  if (!Ready()) return;
  const LogLevel before = GetLogLevel();
  SetLogLevel(LogLevel::kError);
  struct Made {
    fuzz::RandomGraph random;
    std::shared_ptr<const Program> program;
  };
  std::vector<Made> all;
  for (uint64_t seed = 2; seed <= 60; seed += 2) {
    Made m{fuzz::MakeRandomGraph(seed), nullptr};
    m.program = Compiled(m.random.graph);
    all.push_back(std::move(m));
  }
  Build();
  for (const Made& m : all) {
    CAPTURE(m.random.seed);
    Session session(m.program);
    for (size_t b = 0; b < m.random.bindings.size(); ++b) {
      const std::vector<TensorPtr> in = fuzz::MakeInputs(m.random, b);
      EvalOptions exact;
      exact.typed = false;
      const std::vector<TensorPtr> want = GetEvaluator()->Eval(m.random.graph, in, exact);
      for (int run = 0; run < 4; ++run) {
        const std::vector<TensorPtr> got = session.Run(in);
        for (size_t i = 0; i < got.size(); ++i) {
          const NodeEntry e = m.random.graph.outputs[i];
          const double error = m.random.values.at({e.node->id(), e.index}).error;
          const std::string why = Compare(*got[i], *want[i], error);
          CHECK_MESSAGE(why.empty(), why);
        }
      }
    }
  }
  all.clear();
  SetLogLevel(before);
  CHECK(FakeDriver::Get().calls.at("GraphLaunch") > 10);
  CheckClean();
}

TEST_CASE("cuda backend: LeNet learns as on the CPU, 20 steps") {
  if (!HasCpu() || !Ready()) return;
  constexpr int64_t kBatch = 2;
  Network n(kBatch, 1, 28);
  const Graph step = n.Step(LeNet(&n));  // (x, labels, parameters) -> (loss, gradients)
  auto program = Compiled(step);
  Build();
  {
    Session device(program), cpu(CompileFor(step, "cpu"));
    std::vector<TensorPtr> mine = n.Inputs(kBatch, 1, 28), other = mine;
    const auto learn = [](Session& session, std::vector<TensorPtr>* in) {
      const std::vector<TensorPtr> out = session.Run(*in);
      for (size_t k = 1; k < out.size(); ++k) {
        const Tensor& p = *(*in)[k + 1];
        auto next = std::make_shared<Tensor>(p.dtype(), p.dims());
        for (int64_t i = 0; i < p.num_elements(); ++i) next->set(i, p.at(i) - 0.05 * out[k]->at(i));
        (*in)[k + 1] = next;
      }
      return out[0]->at(0);
    };
    double first = 0, last = 0;
    for (int i = 0; i < 20; ++i) {
      CAPTURE(i);
      const double want = learn(cpu, &other);
      last = learn(device, &mine);
      if (i == 0) first = last;
      CHECK(last == doctest::Approx(want).epsilon(1e-4));
    }
    CHECK(last < 0.5 * first);
  }
  program.reset();
  CheckClean();
}

TEST_CASE("cuda backend: everything is given back, in the right order") {
  if (!Ready()) return;
  {
    const auto program = Compiled(FromText(kCounting));
    Build();
    auto store = std::make_shared<VariableStore>();
    Session a(program, store), b(program, store);
    for (int i = 1; i <= 5; ++i) {
      a.Run({Vector({1, 1, 1, 1})});
      b.Run({Vector({1, 1, 1, 1})});
      CHECK(ValuesOf(*store->Get("v")) == Values(4, 2.0 * i));
    }
    CHECK(FakeDriver::Get().libraries == 1);
  }
  CheckClean();
}

TEST_CASE("cuda backend: any call that fails is told once, and nothing leaks") {
  if (!Ready()) return;
  const Graph g = FromText(kCounting);
  Compiled(g);
  Build();
  FakeDriver& d = FakeDriver::Get();
  int failures = 0;
  for (const char* entry :
       {"CtxSetCurrent", "MemAllocFromPoolAsync", "MemHostAlloc", "MemcpyHtoDAsync",
        "MemcpyDtoHAsync", "StreamCreate", "StreamSynchronize", "LibraryLoadData",
        "LibraryGetKernel", "LaunchKernel", "GraphCreate", "GraphAddKernelNode", "GraphInstantiate",
        "GraphLaunch"}) {
    CAPTURE(std::string(entry));
    for (int64_t n = 0;; ++n) {
      REQUIRE(n < 200);
      if (!Ready()) return;
      d.failure = {entry, n, 2, false};
      const auto caught = Catch([&] {
        Session s(Compiled(g));
        for (int i = 0; i < 5; ++i) s.Run({Vector({1, 1, 1, 1})});
      });
      d.failure = {};
      if (!caught) break;
      ++failures;
      CHECK(caught->code == ErrorCode::kOutOfMemory);
      // The device is as good as before.
      Session again(Compiled(g));
      CHECK(ValuesOf(*again.Run({Vector({1, 2, 3, 4})})[0]) == Values{1, 4, 9, 16});
    }
    CheckClean();
  }
  CHECK(failures > 30);
}

TEST_CASE("cuda backend: a device that has failed says so from then on") {
  if (!Ready()) return;
  const Graph g = FromText(kCounting);
  Compiled(g);
  Build();
  {
    Session s(Compiled(g));
    s.Run({Vector({1, 1, 1, 1})});
    FakeDriver::Get().failure = {"StreamSynchronize", FakeDriver::Get().calls["StreamSynchronize"],
                                 700, true};
    const auto first = Catch([&] { s.Run({Vector({1, 1, 1, 1})}); });
    REQUIRE(first);
    CHECK(first->code == ErrorCode::kDevice);
    CHECK(first->says("illegal"));
    FakeDriver::Get().failure = {};
    const auto second = Catch([&] { s.Run({Vector({1, 1, 1, 1})}); });
    REQUIRE(second);
    CHECK(second->code == ErrorCode::kDevice);
    CHECK(second->says("only a new process"));
  }
}

TEST_CASE("cuda backend: no driver, no device, no room") {
  if (!Ready()) return;
  auto none = std::make_shared<cuda::DriverApi>();
  none->error = "no driver (libcuda.so.1: cannot open)";
  const auto no_driver = Catch([&] { cuda::Device::Open(0, none); });
  REQUIRE(no_driver);
  CHECK(no_driver->code == ErrorCode::kUnsupported);
  CHECK(no_driver->says("no driver"));
  const auto no_device = Catch([&] { cuda::Device::Open(1, FakeDriverTable()); });
  REQUIRE(no_device);
  CHECK(no_device->says("the driver has 1"));
  const auto no_room = Catch([&] { TheBackend()->Allocate(int64_t{1} << 40); });
  REQUIRE(no_room);
  CHECK(no_room->code == ErrorCode::kOutOfMemory);
  CHECK(no_room->says("1.00 GiB"));
  CheckClean();
}
