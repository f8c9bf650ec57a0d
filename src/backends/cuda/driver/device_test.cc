/// device_test.cc: a caller may have a context of its own, for another device or another library.
/// Whatever it calls and gives back of the backend "cuda" leaves that one current, also where
/// something fails.
#include <doctest/doctest.h>

#include <thread>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/doubles/failing_driver.h"
#include "tests/support/emulated_gpu.h"
#include "tests/support/variables_util.h"
#include "weft/runtime/session/variable_store.h"

namespace {

using namespace weft;
using namespace weft::e2e;

FailingDriver& D() { return FailingDriver::Get(); }

const char* const kMixed =
    R"(graph (%x: f32[n, 2], %w: f32[2, 2] param = [1.0, 2.0, 3.0, 4.0], %v: f32[2] param = [0.0, 0.0] {state = 1}) -> (%y) {
  %m = MatMul(%x, %w) : f32[n, 2]
  %e = Sin(%m) : f32[n, 2]
  %s = ReduceMax(%e) {keepdims = 0} : f32[]
  %t = Add(%v, %s) : f32[2]
  %y = weft::Assign(%v, %t) : f32[2]
}
)";

/// Every public call, one after the other.
void CallAll(const Graph& g, const std::function<void(const char*)>& after) {
  auto device = cuda::Device::Open(0, FailingDriverTable());
  after("open");
  device.reset();
  after("close");
  auto program = EmulatedGpu::Compile(g);
  after("compile");
  auto store = std::make_shared<VariableStore>();
  auto session = std::make_unique<Session>(program, store);
  after("session");
  const TensorPtr x = Tensor::FromDoubles(DType::kF32, {3, 2}, Values(6, 1));
  for (int i = 0; i < 5; ++i) {
    session->Run({x});
    after("run");
  }
  {
    PendingRun run = session->Start({x}), other = session->Start({x});
    after("start");
    run.ready();
    after("ready");
    run.Wait();
    after("wait");
  }
  after("a run that nobody waits for");
  session->Profile({x});
  after("profile");
  store->Get("v");
  after("get");
  store->Set("v", Vector({1, 2}));
  after("set");
  Session(program, store).Run({x});
  after("another session");
  auto memory = EmulatedGpu::backend()->Allocate(100);
  auto stream = EmulatedGpu::backend()->NewStream();
  after("memory and a stream");
  stream->CopyIn(memory.get(), &x, 8);
  auto point = stream->Mark();
  point->Reached();
  point->Wait();
  after("a point");
  stream->Wait();
  point.reset();
  stream.reset();
  memory.reset();
  after("given back");
  session.reset();
  after("session gone");
  store.reset();
  after("store gone");
  program.reset();
  after("program gone");
}

}  // namespace

TEST_CASE("cuda context: every public call leaves the caller's context current") {
  if (!EmulatedGpu::Start()) return;
  const Graph g = FromText(kMixed);
  EmulatedGpu::Compile(g);
  EmulatedGpu::BuildKernels();
  CallAll(g, [](const char* what) {
    CAPTURE(std::string(what));
    CHECK(FailingDriver::CallerIsCurrent());
  });
  // A thread that has none has none again.
  std::thread([&] {
    CallAll(g, [](const char*) {});
    if (D().calls["CtxPushCurrent"] != D().calls["CtxPopCurrent"])
      D().problems.push_back("a context is left to a thread");
  }).join();
  EmulatedGpu::CheckClean();
}

TEST_CASE("cuda context: a call that fails leaves it, too, wherever it fails") {
  if (!EmulatedGpu::Start()) return;
  const Graph g = FromText(kMixed);
  EmulatedGpu::Compile(g);
  EmulatedGpu::BuildKernels();
  if (!EmulatedGpu::Start()) return;
  D().calls.clear();
  CallAll(g, [](const char*) {});
  const std::map<std::string, int64_t> calls = D().calls;
  for (const auto& [entry, count] : calls)
    for (int64_t n = 0; n < count; n += 1 + count / 8) {
      CAPTURE(entry);
      CAPTURE(n);
      if (!EmulatedGpu::Start()) return;
      D().failure = {entry, D().calls[entry] + n, 2, false};
      Catch([&] { CallAll(g, [](const char*) {}); });
      D().failure = {};
      CHECK(FailingDriver::CallerIsCurrent());
      EmulatedGpu::CheckClean();
    }
}
