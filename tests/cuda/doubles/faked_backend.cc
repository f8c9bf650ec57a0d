/// faked_backend.cc: see faked_backend.h.
#include "faked_backend.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <map>
#include <vector>

#include "backends/cuda/cuda_backend.h"
#include "codegen/cuda/print/printer.h"
#include "fake_driver.h"
#include "tests/support/e2e_util.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/pass/pass.h"
#include "weft/runtime/program/program.h"

namespace weft::e2e {
namespace {

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

class Forwarding final : public DeviceBackend {
 public:
  std::string name() const override { return "faked"; }
  Target target() const override { return kTarget; }
  std::string default_pipeline() const override { return "RTCGen,Schedule,PlanMemory"; }
  std::unique_ptr<DeviceStream> NewStream() override { return TheBackend()->NewStream(); }
  std::shared_ptr<void> Allocate(int64_t bytes) override { return TheBackend()->Allocate(bytes); }
  std::unique_ptr<PreparedCall> Prepare(const FCompute& compute,
                                        const ComputeRequest& request) override {
    ComputeRequest theirs = request;
    theirs.backend = TheBackend().get();
    return TheBackend()->Prepare(compute, theirs);
  }
  std::shared_ptr<DeviceLauncher> Load(const Kernel& k, const CompiledKernel& c) override {
    return TheBackend()->Load(k, c);
  }
  std::shared_ptr<DeviceLauncher> LoadMulti(const LoweredKernel& l,
                                            const CompiledKernels& c) override {
    return TheBackend()->LoadMulti(l, c);
  }
};

}  // namespace

std::shared_ptr<EmulatedLibraries> TheLibraries() {
  static const auto libraries = std::make_shared<EmulatedLibraries>();
  return libraries;
}
TargetTraits GpuTraits() {
  TargetTraits t;
  t.one_loop_copies = t.device_memory = true;
  return t;
}

std::shared_ptr<DeviceBackend>& TheBackend() {
  static std::shared_ptr<DeviceBackend> backend;
  return backend;
}

bool Ready() {
  if (!cuda::EmulatedLibrary::CanCompile()) {
    MESSAGE("skipped: this machine has no compiler");
    return false;
  }
  [[maybe_unused]] static const bool once = [] {
    setenv("WEFT_CACHE", "off", 1);
    return RegisterBackendModule(
        BackendModule(kTarget)
            .set_library("cuda")
            .set_traits(GpuTraits())
            .set_backend([](const std::string&) { return std::make_shared<Forwarding>(); })
            .set_compiler([](const Target&) { return std::make_shared<Collector>(); }));
  }();
  TheBackend().reset();
  REQUIRE(FakeDriver::Get().alive() == 0);
  FakeDriver::Get().Reset();
  FakeDriver::BecomeCaller();
  TheBackend() =
      cuda::MakeCudaBackend(cuda::Device::Open(0, FakeDriverTable()), TheLibraries(), {kTarget});
  return true;
}

std::shared_ptr<const Program> Compiled(const Graph& graph, const std::string& layout) {
  PassOptions passes;
  passes.target = "cuda:sm_90";
  CompileOptions options;
  options.backend = "faked";
  const Pipeline pipeline =
      WithPass(StandardPipeline({PipelineEnd::kKernels}), "Layout", Pipeline::Parse(layout));
  return Compile(ApplyPasses(graph, pipeline, passes), options);
}
void Build(size_t units) {
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
  CHECK(FakeDriver::CallerIsCurrent());
  for (const std::string& p : d.problems) FAIL_CHECK(p);
}

}  // namespace weft::e2e
