/// cuda_backend.cc: see cuda_backend.h.
#include "backends/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "backends/cuda/launch/launcher.h"
#include "weft/runtime/pipelines.h"
#include "weft/support/hash.h"

namespace weft::cuda {
namespace {

class GpuBackend final : public CudaBackend {
 public:
  GpuBackend(std::shared_ptr<Device> device, std::shared_ptr<Libraries> libraries,
             const CudaBackendOptions& options)
      : device_(std::move(device)),
        libraries_(std::move(libraries)),
        target_(options.target.none() ? Target(fmt::format("cuda:sm_{}", device_->architecture()))
                                      : options.target),
        fusion_(options.fusion) {}

  std::string name() const override { return "cuda"; }
  Target target() const override { return target_; }
  std::string default_pipeline() const override {
    return StandardPipeline({PipelineEnd::kPlan, fusion_}).ToString();
  }
  MemoryPlace place() const override { return {MemoryPlace::kCuda, int16_t(device_->ordinal())}; }
  std::unique_ptr<DeviceStream> NewStream() override { return std::make_unique<Stream>(device_); }
  std::shared_ptr<void> Allocate(int64_t bytes) override { return device_->Allocate(bytes); }
  Libraries& libraries() const override { return *libraries_; }
  std::shared_ptr<DeviceLauncher> Load(const Kernel& kernel,
                                       const CompiledKernel& compiled) override {
    return MakeLauncher(kernel, ModuleOf(compiled));
  }
  std::shared_ptr<DeviceLauncher> LoadMulti(const LoweredKernel& lowered,
                                            const CompiledKernels& compiled) override {
    std::vector<std::shared_ptr<Module>> modules;
    for (const CompiledKernelPtr& c : compiled) modules.push_back(ModuleOf(*c));
    return MakeMultiLauncher(lowered, std::move(modules));
  }

 private:
  /// Kernels that were compiled together share a cubin, and programs share kernels.
  std::shared_ptr<Module> ModuleOf(const CompiledKernel& compiled) {
    const Hash128 h = HashBytes(compiled.binary.data(), compiled.binary.size());
    std::lock_guard lock(mutex_);
    std::weak_ptr<Module>& known = modules_[{h.hi, h.lo}];
    std::shared_ptr<Module> module = known.lock();
    if (!module) {
      module = std::make_shared<Module>(device_, compiled.binary);
      known = module;
    }
    return module;
  }

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<Libraries> libraries_;
  const Target target_;
  const bool fusion_;
  std::mutex mutex_;
  std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<Module>> modules_;
};

}  // namespace

Libraries& LibrariesOf(const ComputeRequest& q) {
  return static_cast<const CudaBackend&>(*q.backend).libraries();
}

std::shared_ptr<DeviceBackend> MakeCudaBackend(std::shared_ptr<Device> device,
                                               std::shared_ptr<Libraries> libraries,
                                               const CudaBackendOptions& options) {
  return std::make_shared<GpuBackend>(std::move(device), std::move(libraries), options);
}

}  // namespace weft::cuda
