/// cpu_backend.cc: the backend "cpu": kernels through LLVM, library operators through oneDNN, one
/// team of threads.
#include "backends/cpu/launch/copy_launcher.h"
#include "backends/cpu/launch/kernel_launcher.h"
#include "backends/cpu/launch/multi_launcher.h"
#include "backends/cpu/launch/run_together.h"
#include "codegen/llvm/compiler/llvm_compiler.h"
#include "weft/core/module/backend_module.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/pipelines.h"

namespace weft {
namespace {

class CpuBackend final : public HostBackend {
 public:
  CpuBackend(int threads, bool fusion)
      : team_(std::make_shared<cpu::Team>(threads)), fusion_(fusion) {}

  std::string name() const override { return "cpu"; }
  Target target() const override { return "cpu"; }
  std::string default_pipeline() const override {
    PipelineOptions options{PipelineEnd::kPlan, fusion_};
    options.threads = team_->threads();
    options.small_products = true;
    return StandardPipeline(options).ToString();
  }
  std::shared_ptr<KernelLauncher> Load(const Kernel& kernel,
                                       const CompiledKernel& compiled) override {
    return cpu::WithCopies(
        kernel, cpu::MakeCpuLauncher(kernel, LoadCpuKernel(kernel, compiled.binary), team_), team_);
  }
  std::shared_ptr<KernelLauncher> LoadMulti(const LoweredKernel& lowered,
                                            const CompiledKernels& compiled) override {
    std::vector<CpuKernel> codes;
    const std::vector<KernelPtr> kernels = lowered.Kernels();
    for (size_t i = 0; i < kernels.size(); ++i)
      codes.push_back(LoadCpuKernel(*kernels[i], compiled[i]->binary));
    return cpu::MakeCpuMultiLauncher(lowered, std::move(codes), team_);
  }
  void RunTogether(size_t count, const std::function<void(size_t)>& part) override {
    cpu::RunTogether(count, team_->threads(), part);
  }
  int threads() const override { return team_->threads(); }
  void set_threads(int n) override { team_->set_threads(n); }
  std::shared_ptr<Backend> WithThreads(int n) override {
    return std::make_shared<CpuBackend>(n, fusion_);
  }

 private:
  std::shared_ptr<cpu::Team> team_;
  const bool fusion_;
};

/// "cpu" is this machine; "cpu:x86-64-v3" another one that the objects may be carried to.
std::shared_ptr<KernelCompiler> MakeCompiler(const Target& target) {
  LlvmOptions options;
  options.cpu = target.arch();
  options.threads = cpu::DefaultThreads();
  return MakeLlvmCompiler(options);
}

std::shared_ptr<Backend> MakeBackend(const BackendParameters& parameters) {
  return std::make_shared<CpuBackend>(cpu::DefaultThreads(), !parameters.Has("no-fusion"));
}

[[maybe_unused]] const bool registered =
    RegisterBackendModule(BackendModule("cpu")
                              .set_parameters({{"no-fusion", "one operator a kernel"}})
                              .set_backend(MakeBackend)
                              .set_compiler(MakeCompiler));

}  // namespace
}  // namespace weft
