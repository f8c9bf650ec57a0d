/// tensorrt_test.cc: the backend "cuda" with the delegate "tensorrt": parts of graphs on a library
/// that stands in for TensorRT (plugins/tensorrt/stand_in), the rest by our kernels on emulated
/// threads, all in the order of one stream (emulated_gpu.h).
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/e2e_util.h"
#include "tests/support/emulated_gpu.h"
#include "weft/core/module/plugin.h"
#include "weft/core/text/text.h"
#include "weft/runtime/delegate_counts.h"
#include "weft/runtime/program/program.h"

namespace weft::e2e {
namespace {

/// Both stand-ins give their work to the emulated streams.
void GiveTo(const std::string& library, const char* entry) {
  using Work = void (*)(void*);
  void* const open = dlopen(library.c_str(), RTLD_NOW);
  REQUIRE(open != nullptr);
  const auto set = reinterpret_cast<void (*)(void (*)(void*, Work, void*))>(dlsym(open, entry));
  const bool has = set != nullptr;
  REQUIRE(has);
  set([](void* stream, Work work, void* argument) {
    EmulatedGpu::Give(stream, [work, argument] { work(argument); });
  });
}

bool HasEmulatedGpu() {
  static const bool has = [] {
    if (!EmulatedGpu::StandInForCuda()) return false;
    setenv("WEFT_TENSORRT", TENSORRT_FOLDER, 1);
    setenv("WEFT_LIBCUDA", FAKE_CUDA, 1);
    unsetenv("FAKE_TENSORRT_LOG");
    LoadPlugin(TENSORRT_PLUGIN);
    GiveTo(TENSORRT_FOLDER "/lib/libnvinfer.so.10", "weft_fake_tensorrt_give");
    GiveTo(FAKE_CUDA, "weft_fake_cuda_give");
    return true;
  }();
  return has;
}

std::shared_ptr<const Program> With(const Graph& g, const std::string& only) {
  CompileOptions options;
  options.backend = "cuda+tensorrt";
  options.division.only = only;
  auto program = Compile(g, options);
  EmulatedGpu::BuildKernels();
  return program;
}

Graph Net() {
  return ParseGraph(R"(weft 1
graph @net<n>(%x: f32[n, 8], %w: f32[8, 6], %v: f32[6, 4]) -> (%y, %s) {
  %a = Sigmoid(%x) : ?
  %m = MatMul(%a, %w) : ?
  %t = Tanh(%m) : ?
  %c = Cos(%t) : ?
  %k = MatMul(%c, %v) : ?
  %y = Exp(%k) : ?
  %s = Sin(%k) : ?
}
)");
}

TEST_CASE("tensorrt: regions between our kernels, in the order of the stream") {
  if (!HasEmulatedGpu()) return;
  const Graph g = Net();
  const auto program = With(g, "MatMul;Tanh");
  CHECK(program->stats().delegated == 2);
  CHECK(program->stats().kernels > 0);
  CHECK(program->stats().interpreted == 0);
  Session session(program);
  for (const int64_t n : {3, 16, 3}) {
    const Reference want = RunReference(g, uint64_t(n), {{"n", n}});
    const DelegateCounts before = CountDelegates();
    for (int run = 0; run < 3; ++run) {
      CAPTURE(run);
      CHECK(Difference(session.Run(want.inputs), want.outputs) <= 1);
    }
    PendingRun first = session.Start(want.inputs), second = session.Start(want.inputs);
    CHECK(Difference(second.Wait(), want.outputs) <= 1);
    CHECK(Difference(first.Wait(), want.outputs) <= 1);
    CHECK(CountDelegates().runs - before.runs == 10);
  }
  for (const std::string& p : EmulatedGpu::TakeProblems()) FAIL_CHECK(p);
}

TEST_CASE("tensorrt: sessions take turns on contexts, each on a stream of its own") {
  if (!HasEmulatedGpu()) return;
  const Graph g = Net();
  const auto program = With(g, "MatMul");
  Session one(program), other(program);
  const Reference a = RunReference(g, 1, {{"n", 5}}), b = RunReference(g, 2, {{"n", 5}});
  for (int round = 0; round < 3; ++round) {
    PendingRun first = one.Start(a.inputs);
    PendingRun second = other.Start(b.inputs);
    CHECK(Difference(first.Wait(), a.outputs) <= 1);
    CHECK(Difference(second.Wait(), b.outputs) <= 1);
  }
  for (const std::string& p : EmulatedGpu::TakeProblems()) FAIL_CHECK(p);
}

TEST_CASE("tensorrt: a failed call names the user's nodes") {
  if (!HasEmulatedGpu()) return;
  const Graph g = Net();
  const auto program = With(g, "MatMul");
  Session session(program);
  const Reference want = RunReference(g, 1, {{"n", 2}});
  CHECK(Difference(session.Run(want.inputs), want.outputs) <= 1);
  setenv("FAKE_TENSORRT", "run=fail", 1);
  const auto caught = Catch([&] { session.Run(want.inputs); });
  unsetenv("FAKE_TENSORRT");
  REQUIRE(caught);
  CHECK(caught->code == ErrorCode::kDevice);
  CHECK(caught->says("illegal memory access"));
  CHECK(caught->says("delegate 'tensorrt'"));
  CHECK(Difference(session.Run(want.inputs), want.outputs) <= 1);
}

}  // namespace
}  // namespace weft::e2e
