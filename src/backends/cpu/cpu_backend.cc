/// cpu_backend.cc: the backend "cpu": kernels through LLVM, library operators through oneDNN, one
/// team of threads.
#include "backends/cpu/launch/kernel_launcher.h"
#include "backends/cpu/launch/multi_launcher.h"
#include "codegen/llvm/compiler/llvm_compiler.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/runtime/backend/backend.h"

namespace weft {
namespace {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(int threads) : team_(std::make_shared<cpu::Team>(threads)) {}

  std::string name() const override { return "cpu"; }
  std::string target() const override { return "cpu"; }
  std::shared_ptr<KernelLauncher> Load(const Kernel& kernel,
                                       const CompiledKernel& compiled) override {
    return cpu::MakeCpuLauncher(kernel, LoadCpuKernel(kernel, compiled.binary), team_);
  }
  std::shared_ptr<KernelLauncher> LoadMulti(const LoweredKernel& lowered,
                                            const CompiledKernels& compiled) override {
    std::vector<CpuKernel> codes;
    const std::vector<KernelPtr> kernels = lowered.Kernels();
    for (size_t i = 0; i < kernels.size(); ++i)
      codes.push_back(LoadCpuKernel(*kernels[i], compiled[i]->binary));
    return cpu::MakeCpuMultiLauncher(lowered, std::move(codes), team_);
  }
  int threads() const override { return team_->threads(); }
  void set_threads(int n) override { team_->set_threads(n); }
  std::shared_ptr<Backend> WithThreads(int n) override { return std::make_shared<CpuBackend>(n); }

 private:
  std::shared_ptr<cpu::Team> team_;
};

/// "cpu" is this machine; "cpu:x86-64-v3" another one that the objects may be carried to.
std::shared_ptr<KernelCompiler> MakeCompiler(const std::string& target) {
  LlvmOptions options;
  const size_t colon = target.find(':');
  if (colon != std::string::npos) options.cpu = target.substr(colon + 1);
  options.threads = cpu::DefaultThreads();
  return MakeLlvmCompiler(options);
}

[[maybe_unused]] const bool registered =
    (RegisterBackend("cpu", [] { return std::make_shared<CpuBackend>(cpu::DefaultThreads()); }),
     RegisterKernelCompiler("cpu", MakeCompiler), true);

}  // namespace
}  // namespace weft
