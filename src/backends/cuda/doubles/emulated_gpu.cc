/// emulated_gpu.cc: see tests/support/emulated_gpu.h.
#include "tests/support/emulated_gpu.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_backend.h"
#include "codegen/cuda/print/printer.h"
#include "emulated_libraries.h"
#include "failing_driver.h"
#include "tests/support/e2e_util.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/pass/pass.h"
#include "weft/runtime/program/program.h"

namespace weft::e2e {
namespace {

constexpr const char* kTarget = "emulated-gpu";

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

class Forwarding final : public DeviceBackend {
 public:
  std::string name() const override { return "emulated-gpu"; }
  Target target() const override { return kTarget; }
  std::string default_pipeline() const override { return "RTCGen,Schedule,PlanMemory"; }
  std::unique_ptr<DeviceStream> NewStream() override { return EmulatedGpu::backend()->NewStream(); }
  MemoryPlace place() const override { return EmulatedGpu::backend()->place(); }
  std::shared_ptr<void> Allocate(int64_t bytes) override {
    return EmulatedGpu::backend()->Allocate(bytes);
  }
  std::unique_ptr<PreparedCall> Prepare(const FCompute& compute,
                                        const ComputeRequest& request) override {
    ComputeRequest theirs = request;
    theirs.backend = EmulatedGpu::backend().get();
    return EmulatedGpu::backend()->Prepare(compute, theirs);
  }
  std::shared_ptr<DeviceLauncher> Load(const Kernel& k, const CompiledKernel& c) override {
    return EmulatedGpu::backend()->Load(k, c);
  }
  std::shared_ptr<DeviceLauncher> LoadMulti(const LoweredKernel& l,
                                            const CompiledKernels& c) override {
    return EmulatedGpu::backend()->LoadMulti(l, c);
  }
};

/// What the module of a GPU declares.
TargetTraits Traits() {
  TargetTraits t;
  t.one_loop_copies = t.device_memory = true;
  return t;
}
std::shared_ptr<DeviceBackend> NewBackend(const Target& target) {
  return cuda::MakeCudaBackend(cuda::Device::Open(0, FailingDriverTable()),
                               EmulatedGpu::libraries(), {target});
}

}  // namespace

std::shared_ptr<EmulatedLibraries> EmulatedGpu::libraries() {
  static const auto libraries = std::make_shared<EmulatedLibraries>();
  return libraries;
}
std::shared_ptr<DeviceBackend>& EmulatedGpu::backend() {
  static std::shared_ptr<DeviceBackend> backend;
  return backend;
}

bool EmulatedGpu::Start() {
  if (!cuda::EmulatedLibrary::CanCompile()) {
    MESSAGE("skipped: this machine has no compiler");
    return false;
  }
  [[maybe_unused]] static const bool once = [] {
    setenv("WEFT_CACHE", "off", 1);
    return RegisterBackendModule(
        BackendModule(kTarget)
            .set_library("cuda")
            .set_traits(Traits())
            .set_backend([](const BackendParameters&) { return std::make_shared<Forwarding>(); })
            .set_compiler([](const Target&) { return std::make_shared<Collector>(); }));
  }();
  backend().reset();
  REQUIRE(FailingDriver::Get().alive() == 0);
  FailingDriver::Get().Reset();
  FailingDriver::BecomeCaller();
  backend() = NewBackend(kTarget);
  return true;
}

bool EmulatedGpu::StandInForCuda() {
  if (!Start()) return false;
  backend().reset();
  return RegisterBackendModule(
      BackendModule("cuda")
          .set_traits(Traits())
          .set_backend([](const BackendParameters&) { return NewBackend("cuda:sm_90"); })
          .set_compiler([](const Target&) { return std::make_shared<Collector>(); }));
}

std::shared_ptr<const Program> EmulatedGpu::Compile(const Graph& graph, const std::string& layout) {
  PassOptions passes;
  passes.target = "cuda:sm_90";
  CompileOptions options;
  options.backend = kTarget;
  const Pipeline pipeline =
      WithPass(StandardPipeline({PipelineEnd::kKernels}), "Layout", Pipeline::Parse(layout));
  return weft::Compile(ApplyPasses(graph, pipeline, passes), options);
}
void EmulatedGpu::BuildKernels(size_t units) {
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
  FailingDriver::Get().kernels = &library;
}
void EmulatedGpu::CheckClean() {
  backend().reset();
  const FailingDriver& d = FailingDriver::Get();
  CHECK(d.alive() == 0);
  CHECK(FailingDriver::CallerIsCurrent());
  for (const std::string& p : d.problems) FAIL_CHECK(p);
}
std::vector<std::string> EmulatedGpu::TakeProblems() {
  return std::exchange(FailingDriver::Get().problems, {});
}
void EmulatedGpu::Give(void* stream, std::function<void()> work) {
  GiveWork(static_cast<cuda::StreamHandle*>(stream), std::move(work));
}
int64_t EmulatedGpu::replays() { return FailingDriver::Get().calls["GraphLaunch"]; }

}  // namespace weft::e2e
