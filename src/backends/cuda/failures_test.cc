/// failures_test.cc: what the backend "cuda" does when something goes wrong, while runs are under
/// way and at any call of the driver (failing_driver.h), and what it says.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/doubles/emulated_libraries.h"
#include "backends/cuda/doubles/failing_driver.h"
#include "codegen/cuda/nvrtc/nvrtc_api.h"
#include "tests/support/emulated_gpu.h"
#include "tests/support/training_networks.h"
#include "tests/support/variables_util.h"
#include "weft/runtime/session/variable_store.h"
#include "weft/support/log.h"

namespace {

using namespace weft;
using namespace weft::e2e;

FailingDriver& D() { return FailingDriver::Get(); }

const char* const kCounting =
    R"(graph (%x: f32[4], %v: f32[4] param = [0.0, 0.0, 0.0, 0.0] {state = 1}) -> (%y) {
  %s = Add(%v, %x) : f32[4]
  %a = weft::Assign(%v, %s) : f32[4]
  %y = Mul(%a, %a) : f32[4]
}
)";

/// A call of a library, constants, a flag, a variable, and what the host writes.
const char* const kMixed =
    R"(graph (%x: f32[n, 2], %i: i64[2], %w: f32[2, 2] param = [1.0, 2.0, 3.0, 4.0], %b: f32[2] param = [5.0, 6.0], %v: f32[2] param = [0.0, 0.0] {state = 1}) -> (%y, %q) {
  %m = MatMul(%x, %w) : f32[n, 2]
  %p = Add(%m, %b) : f32[n, 2]
  %g = Gather(%p, %i) : f32[2, 2]
  %s = ReduceMax(%g) {keepdims = 0} : f32[]
  %t = Add(%v, %s) : f32[2]
  %y = weft::Assign(%v, %t) : f32[2]
  %q = Shape(%p) : i64[2]
}
)";

/// The same with a step of the interpreter.
std::string Interpreted() {
  std::string text = kMixed;
  text.replace(text.find("%p = Add"), 2, "%o");
  text.insert(text.find("  %g ="), "  %p, %at = TopK(%o, %two) : f32[n, 2], i64[n, 2]\n");
  text.insert(text.find(", %v"), ", %two: i64[1] param = [2]");
  return text;
}

/// Quiet warnings of a test that provokes them.
struct Quiet {
  Quiet() { SetLogLevel(LogLevel::kError); }
  ~Quiet() { SetLogLevel(before); }
  const LogLevel before = GetLogLevel();
};
struct Setting {
  Setting(const char* n, const char* value) : name(n) { setenv(n, value, 1); }
  ~Setting() { unsetenv(name); }
  const char* name;
};

/// Runs a program in every way: recorded, recordings brought up to date, several under way.
/// Gives the last results.
std::vector<TensorPtr> RunInAllWays(Session& s) {
  const auto inputs = [](int64_t n) -> std::vector<TensorPtr> {
    return {Tensor::FromDoubles(DType::kF32, {n, 2}, Values(size_t(2 * n), double(n))),
            Tensor::FromDoubles(DType::kI64, {2}, {0, double(n - 1)})};
  };
  for (const auto& [n, times] : {std::pair<int64_t, int>{2, 4}, {200, 3}, {2, 3}})
    for (int i = 0; i < times; ++i) s.Run(inputs(n));
  PendingRun a = s.Start(inputs(2)), b = s.Start(inputs(200));
  a.Wait();
  return b.Wait();
}

void RunAgain(Session& s) {
  s.Run({Tensor::FromDoubles(DType::kF32, {2, 2}, {1, 2, 3, 4}), Tensor::Ints({0, 1})});
}

bool SameBits(const std::vector<TensorPtr>& a, const std::vector<TensorPtr>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!a[i]->Equals(*b[i])) return false;
  return true;
}

}  // namespace

namespace {

/// Every call of the driver by a program of this graph fails once.
void FailEverywhere(const Graph& g, const std::vector<const char*>& entries) {
  if (!EmulatedGpu::Start()) return;
  const Quiet quiet;
  std::vector<TensorPtr> want;
  {
    Session host(CompileFor(g, "cpu"));
    want = RunInAllWays(host);
    Catch([&] { RunInAllWays(*std::make_unique<Session>(EmulatedGpu::Compile(g))); });
    EmulatedGpu::BuildKernels();
    if (!EmulatedGpu::Start()) return;
    D().calls.clear();
    Session s(EmulatedGpu::Compile(g));
    REQUIRE(SameBits(RunInAllWays(s), want));
  }
  const std::map<std::string, int64_t> calls = D().calls;
  for (const char* entry : entries) {
    CAPTURE(std::string(entry));
    CHECK(calls.count(entry));
  }
  int told = 0, overcome = 0;
  for (const auto& [entry, count] : calls)
    for (const int result : {2, 1})
      for (int64_t n = 0; n < count; ++n) {
        CAPTURE(entry);
        CAPTURE(n);
        CAPTURE(result);
        if (!EmulatedGpu::Start()) return;  // and nothing is left of the one before
        D().calls.clear();
        D().failure = {entry, n, result, false};
        std::vector<TensorPtr> got;
        auto store = std::make_shared<VariableStore>();
        std::unique_ptr<Session> s;
        const auto caught = Catch([&] {
          s = std::make_unique<Session>(EmulatedGpu::Compile(g), store);
          got = RunInAllWays(*s);
        });
        D().failure = {};
        if (caught) {
          ++told;
          const bool memory = caught->code == ErrorCode::kOutOfMemory;
          CHECK((memory ? result == 2 : caught->code == ErrorCode::kDevice));
        } else {
          ++overcome;
          CHECK(SameBits(got, want));
        }
        // The device and the session are as good as before.
        if (!s) s = std::make_unique<Session>(EmulatedGpu::Compile(g), store);
        store->Set("v", Tensor::FromDoubles(DType::kF32, {2}, {0, 0}));
        CHECK(SameBits(RunInAllWays(*s), want));
        s.reset();
        store.reset();
        EmulatedGpu::CheckClean();
      }
  CHECK(told > 100);
  CHECK(overcome > 20);
}

}  // namespace

TEST_CASE("cuda failures: any call may fail: that is told or overcome, and nothing leaks") {
  if (!HasCpu() || !EmulatedGpu::Start()) return;
  FailEverywhere(FromText(kMixed), {"GraphExecUpdate", "GraphInstantiate", "GraphAddChildGraphNode",
                                    "GraphAddMemcpyNode", "StreamEndCapture", "EventRecord",
                                    "MemcpyDtoHAsync", "MemsetD8Async", "LibraryGetKernel"});
}

TEST_CASE("cuda failures: any call may fail, where the host computes a step") {
  if (!HasCpu() || !EmulatedGpu::Start()) return;
  const Graph g = FromText(Interpreted());
  {
    const auto program = EmulatedGpu::Compile(g);
    const ProgramStats& stats = program->stats();
    CHECK(stats.interpreted == 1);
    Catch([&] { RunInAllWays(*std::make_unique<Session>(program)); });
    EmulatedGpu::BuildKernels();
    Session s(program);
    RunInAllWays(s);
    const int64_t launches = stats.launches, replays = stats.replays, waits = stats.host_waits;
    RunAgain(s);
    CHECK(stats.launches == launches);
    CHECK(stats.replays == replays + 2);  // before the host's step, and behind it
    CHECK(stats.host_waits == waits + 1);
  }
  FailEverywhere(g, {"LaunchKernel", "MemcpyDtoHAsync", "StreamSynchronize", "EventSynchronize"});
}

TEST_CASE("cuda failures: a device is opened, or nothing is left of it") {
  if (!EmulatedGpu::Start()) return;
  EmulatedGpu::CheckClean();
  bool failed = true;
  const std::map<std::string, int64_t> calls = D().calls;
  for (const auto& [entry, count] : calls)
    for (int64_t n = 0; n < count; ++n) {
      CAPTURE(entry);
      D().Reset();
      D().failure = {entry, n, 2, false};
      failed = Catch([] { cuda::Device::Open(0, FailingDriverTable()); }).has_value();
      CHECK((failed || entry.find("Ctx") == 0 || entry.find("Destroy") != std::string::npos ||
             entry.find("Release") != std::string::npos));
      CHECK(D().alive() == 0);
    }
  D().Reset();
}

TEST_CASE("cuda failures: a device that fails takes all runs that are under way with it") {
  if (!EmulatedGpu::Start()) return;
  const Graph g = FromText(kCounting);
  EmulatedGpu::Compile(g);
  EmulatedGpu::BuildKernels();
  for (const char* entry : {"LaunchKernel", "MemcpyHtoDAsync", "StreamSynchronize", "GraphLaunch",
                            "EventSynchronize", "EventRecord"}) {
    CAPTURE(std::string(entry));
    if (!EmulatedGpu::Start()) return;
    {
      auto store = std::make_shared<VariableStore>();
      Session s(EmulatedGpu::Compile(g), store), other(EmulatedGpu::Compile(g), store);
      std::vector<PendingRun> runs;  // the third is recorded
      for (int i = std::string(entry) == "LaunchKernel"; i < 2; ++i)
        runs.push_back(s.Start({Vector({1, 1, 1, 1})}));
      D().failure = {entry, D().calls[entry], 700, true};
      const auto later = Catch([&] {
        if (std::string(entry) == "StreamSynchronize")
          s.Run({Vector({1, 1, 1, 1})});
        else
          s.Start({Vector({1, 1, 1, 1})}).Wait();
      });
      REQUIRE(later);
      CHECK(later->code == ErrorCode::kDevice);
      for (PendingRun& run : runs) {
        const auto caught = Catch([&] { run.Wait(); });
        REQUIRE(caught);
        CHECK(caught->code == ErrorCode::kDevice);
      }
      for (Session* any : {&s, &other}) {
        const auto caught = Catch([&] { any->Run({Vector({1, 1, 1, 1})}); });
        REQUIRE(caught);
        CHECK(caught->says("only a new process"));
      }
      CHECK(Catch([&] { store->Get("v"); })->code == ErrorCode::kDevice);
      CHECK(Catch([&] { EmulatedGpu::backend()->Allocate(64); })->says("only a new process"));
    }
    EmulatedGpu::CheckClean();
  }
}

TEST_CASE("cuda failures: any thread may ask how far a run is") {
  if (!EmulatedGpu::Start()) return;
  {
    const auto program = EmulatedGpu::Compile(FromText(kCounting));
    EmulatedGpu::BuildKernels();
    Session s(program);
    PendingRun run = s.Start({Vector({1, 2, 3, 4})});
    bool ready = true;
    std::thread([&] { ready = run.ready(); }).join();
    CHECK(!ready);
    std::vector<TensorPtr> got;
    std::thread([&] { got = run.Wait(); }).join();
    CHECK(ValuesOf(*got[0]) == Values{1, 4, 9, 16});
    // What a session owns is given back by another thread.
    auto gone = std::make_unique<Session>(program);
    for (int i = 0; i < 4; ++i) gone->Run({Vector({1, 2, 3, 4})});
    std::thread([&] { gone.reset(); }).join();
  }
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda failures: what is fed is taken at once, however large it is") {
  if (!EmulatedGpu::Start()) return;
  {
    const auto program = EmulatedGpu::Compile(
        FromText("graph (%x: f32[n], %i: i64[3]) -> (%y) {\n  %y = Gather(%x, %i) : f32[3]\n}\n"));
    EmulatedGpu::BuildKernels();
    Session s(program);
    const int64_t n = 3'000'000;  // beyond what is staged in one piece
    auto x = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{n});
    const TensorPtr at = Tensor::Ints({0, 1'500'000, n - 1});
    std::vector<PendingRun> runs;
    for (int run = 0; run < 5; ++run) {
      for (const int64_t i : {int64_t{0}, int64_t{1'500'000}, n - 1}) x->set(i, double(run + i));
      runs.push_back(s.Start({x, at}));
    }
    std::memset(x->mutable_data(), 0, size_t(x->num_bytes()));
    for (int run = 0; run < 5; ++run)
      CHECK(ValuesOf(*runs[size_t(run)].Wait()[0]) ==
            Values{double(run), double(1'500'000 + run), double(n - 1 + run)});
  }
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda failures: memory that is pinned has a bound, however many runs are under way") {
  if (!EmulatedGpu::Start()) return;
  {
    const auto program = EmulatedGpu::Compile(FromText(kCounting));
    EmulatedGpu::BuildKernels();
    Session s(program);
    std::vector<PendingRun> runs;
    for (int i = 0; i < 150; ++i) runs.push_back(s.Start({Vector({1, 1, 1, 1})}));
    CHECK(D().pinned <= 64);
    for (int i = 149; i >= 0; i -= 7)
      CHECK(runs[size_t(i)].Wait()[0]->at(0) == double(i + 1) * (i + 1));
    runs.clear();
    // One run alone: beyond the bound the copies are waited for.
    const std::unique_ptr<DeviceStream> stream = EmulatedGpu::backend()->NewStream();
    std::vector<char> piece(size_t{4} << 20);
    const std::shared_ptr<void> place = EmulatedGpu::backend()->Allocate(int64_t(piece.size()));
    const int64_t before = D().pinned;
    for (int i = 0; i < 70; ++i) {
      std::memset(piece.data(), i, piece.size());
      stream->CopyIn(place.get(), piece.data(), int64_t(piece.size()));
    }
    CHECK(D().pinned - before <= 64);
    std::memset(piece.data(), 0, piece.size());
    stream->CopyOut(piece.data(), place.get(), int64_t(piece.size()));
    stream->Wait();
    CHECK(piece == std::vector<char>(piece.size(), 69));
    // What runs of late had no need of is given back.
    for (int run = 0; run < 20; ++run) {
      stream->CopyIn(place.get(), piece.data(), 8);
      stream->Wait();
      stream->EndRun();
    }
    CHECK(D().pinned - before <= 4);
  }
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda failures: what cannot be recorded is given by itself, and the rest is replayed") {
  if (!HasCpu() || !EmulatedGpu::Start()) return;
  const Quiet quiet;
  const Graph g = FromText(kMixed);
  Session host(CompileFor(g, "cpu"));
  const auto want = RunInAllWays(host);
  Catch([&] { RunInAllWays(*std::make_unique<Session>(EmulatedGpu::Compile(g))); });
  EmulatedGpu::BuildKernels();
  struct Refusal {
    const char* entry;
    int result;
  };
  for (const Refusal& r : {Refusal{"StreamEndCapture", 901}, Refusal{"StreamBeginCapture", 900},
                           Refusal{"GraphInstantiate", 801}, Refusal{"GraphExecUpdate", 910}}) {
    CAPTURE(std::string(r.entry));
    if (!EmulatedGpu::Start()) return;
    const bool anew = std::string(r.entry) == "GraphExecUpdate", all = r.result == 801;
    {
      const auto program = EmulatedGpu::Compile(g);
      Session s(program);
      D().failure = {r.entry, D().calls[r.entry], r.result, false};
      CHECK(SameBits(RunInAllWays(s), want));
      D().failure = {};
      if (!anew) CHECK(D().calls[r.entry] == 1);  // and nobody asks again
      CHECK((D().calls["GraphLaunch"] > 0) == !all);
      // A recording that cannot be changed is made anew.
      if (anew || all) CHECK(D().calls["GraphInstantiate"] == (anew ? 3 : 1));
      // In the end the library's call alone is given by itself, or every step.
      const ProgramStats& stats = program->stats();
      const int64_t launches = stats.launches, replays = stats.replays;
      RunAgain(s);
      CHECK(stats.launches - launches == (all    ? stats.kernels + stats.library_calls
                                          : anew ? 0
                                                 : stats.library_calls));
      CHECK((stats.replays - replays > 0) == !all);
      CHECK(stats.host_waits == 0);
    }
    EmulatedGpu::CheckClean();
  }
}

TEST_CASE("cuda failures: kernels that the driver cannot read: both versions are named") {
  if (!EmulatedGpu::Start()) return;
  const Graph g = FromText(kCounting);
  EmulatedGpu::Compile(g);
  EmulatedGpu::BuildKernels();
  const cuda::NvrtcApi& nvrtc = cuda::Nvrtc();
  for (const int version : {12040, 99000})
    for (const int result : {200, 209, 218, 222}) {
      if (!EmulatedGpu::Start()) return;
      D().failure = {"LibraryLoadData", 0, result, false};
      D().version = version;
      const auto caught = Catch([&] { EmulatedGpu::Compile(g); });
      D().failure = {};
      D().version = 12040;
      REQUIRE(caught);
      CAPTURE(caught->text);
      CHECK(caught->code == ErrorCode::kDevice);
      CHECK(caught->says("cuLibraryLoadData"));
      CHECK(caught->says(version == 12040 ? "CUDA 12.4" : "CUDA 99.0"));
      if (nvrtc.ok()) {
        CHECK(caught->says(fmt::format("NVRTC {}.{}", nvrtc.major, nvrtc.minor)));
        if (nvrtc.major > 12 || version > 12040)
          CHECK(caught->says(version == 12040 ? "install a driver for CUDA" : "compile the model"));
      } else {
        CHECK(caught->says("sm_90"));
      }
      Session again(EmulatedGpu::Compile(g));
      CHECK(ValuesOf(*again.Run({Vector({1, 2, 3, 4})})[0]) == Values{1, 4, 9, 16});
    }
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda failures: kernels of an NVRTC that has no entries with parameters of 32 KB") {
  if (!EmulatedGpu::Start()) return;
  {
    const auto program =
        EmulatedGpu::Compile(UpdatesOf(150, [](int64_t i) { return std::vector<int64_t>{i + 1}; }));
    EmulatedGpu::BuildKernels();
    auto run = [&](Session& s) {
      std::vector<TensorPtr> in;
      for (const IoSpec& spec : program->inputs()) {
        auto t = std::make_shared<Tensor>(spec.dtype, spec.shape.ints());
        for (int64_t i = 0; i < t->num_elements(); ++i) t->set(i, double(i % 7 + 1));
        in.push_back(t);
      }
      D().launched.clear();
      for (int i = 0; i < 4; ++i) s.Run(in);
      std::set<std::string> kinds;
      for (const std::string& entry : D().launched) kinds.insert(entry.substr(entry.rfind('_')));
      return kinds;
    };
    const auto large = std::make_shared<VariableStore>(), small = std::make_shared<VariableStore>();
    Session s(program, large);
    CHECK(run(s).count("_m32k") == 1);
    // Loaded anew, from a cubin without them.
    D().lacks = "_m32k";
    Session t(
        EmulatedGpu::Compile(UpdatesOf(150, [](int64_t i) { return std::vector<int64_t>{i + 1}; })),
        small);
    const std::set<std::string> kinds = run(t);
    CHECK(kinds.count("_m4k") == 1);
    CHECK(kinds.count("_m32k") == 0);
    for (const IoSpec& v : program->variables())
      CHECK(large->Get(v.name)->Equals(*small->Get(v.name)));
  }
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda failures: one of several devices") {
  if (!EmulatedGpu::Start()) return;
  EmulatedGpu::CheckClean();
  D().devices = 2;
  {
    const auto second = cuda::Device::Open(1, FailingDriverTable());
    CHECK(second->ordinal() == 1);
    const auto backend = cuda::MakeCudaBackend(second, EmulatedGpu::libraries(), {"emulated-gpu"});
    const auto place = backend->Allocate(100);
    CHECK(Catch([&] { backend->Allocate(int64_t{1} << 40); })->says("CUDA device 1"));
    const auto third = Catch([] { cuda::Device::Open(2, FailingDriverTable()); });
    REQUIRE(third);
    CHECK(third->code == ErrorCode::kUnsupported);
    CHECK(third->says("no CUDA device 2: the driver has 2 of them"));
    CHECK(third->says("WEFT_CUDA_DEVICE"));
    CHECK(Catch([] { cuda::Device::Open(-1, FailingDriverTable()); }).has_value());
  }
  D().devices = 1;
  CHECK(D().alive() == 0);
}

TEST_CASE("cuda failures: drivers that are too old, or do not start, say what is amiss") {
  CHECK(cuda::OpenDriver(STUB_DRIVER).error == "");
  CHECK(cuda::OpenDriver("/nowhere/libcuda.so.1").error.find("no driver") == 0);
  const auto says = [](const std::string& text, const std::string& part) {
    CAPTURE(text);
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  };
  {
    const Setting version("STUB_VERSION", "11080");
    const std::string error = cuda::OpenDriver(OLD_STUB_DRIVER).error;
    says(error, "(CUDA 11.8) lacks cuGetProcAddress_v2: install a driver for CUDA 12.0 or newer");
  }
  {
    const Setting lacks("STUB_LACKS", "cuLibraryLoadData");
    says(cuda::OpenDriver(STUB_DRIVER).error,
         "(CUDA 12.4) lacks cuLibraryLoadData: install a driver for CUDA 12.0");
  }
  const Setting none("STUB_INIT", "100");
  says(cuda::OpenDriver(STUB_DRIVER).error,
       "the driver does not start: no CUDA-capable device is detected");
  const Setting visible("CUDA_VISIBLE_DEVICES", "");
  says(cuda::OpenDriver(STUB_DRIVER).error, "(CUDA_VISIBLE_DEVICES is '')");
  auto api = std::make_shared<cuda::DriverApi>(cuda::OpenDriver(STUB_DRIVER));
  const auto caught = Catch([&] { cuda::Device::Open(0, api); });
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kUnsupported);
  says(caught->text, "no CUDA-capable device");
}
