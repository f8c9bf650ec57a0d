/// counting.cc: the backend "counting": runs what "cpu" runs, in the same memory and with the
/// same results, and counts launches of kernels and library calls. When the process ends it says
/// how many there were.
#include <atomic>
#include <cstdio>

#include "weft/core/module/backend_module.h"
#include "weft/runtime/backend/backend.h"

namespace demo {
namespace {

using namespace weft;

struct Counters {
  std::atomic<long> kernels{0}, calls{0};
  ~Counters() {
    if (kernels + calls > 0)
      std::fprintf(stderr, "counting: %ld kernel launches, %ld library calls\n", kernels.load(),
                   calls.load());
  }
} counters;

class CountingLauncher final : public KernelLauncher {
 public:
  explicit CountingLauncher(std::shared_ptr<KernelLauncher> cpu) : cpu_(std::move(cpu)) {}
  void Launch(void* const* buffers, const int64_t* dims) const override {
    ++counters.kernels;
    cpu_->Launch(buffers, dims);
  }

 private:
  std::shared_ptr<KernelLauncher> cpu_;
};

class CountingCall final : public LibraryCall {
 public:
  explicit CountingCall(std::unique_ptr<LibraryCall> cpu) : cpu_(std::move(cpu)) {}
  void Run(const void* const* inputs, void* const* outputs, void* scratch) const override {
    ++counters.calls;
    cpu_->Run(inputs, outputs, scratch);
  }
  int64_t scratch_bytes() const override { return cpu_->scratch_bytes(); }
  std::string description() const override { return cpu_->description(); }

 private:
  std::unique_ptr<LibraryCall> cpu_;
};

class CountingBackend final : public HostBackend {
 public:
  std::string name() const override { return "counting"; }
  Target target() const override { return cpu_->target(); }
  bool Runs(const std::string& code_target) const override { return cpu_->Runs(code_target); }
  std::string default_pipeline() const override { return cpu_->default_pipeline(); }
  int threads() const override { return cpu_->threads(); }
  void set_threads(int n) override { cpu_->set_threads(n); }
  std::shared_ptr<KernelLauncher> Load(const Kernel& kernel,
                                       const CompiledKernel& compiled) override {
    return std::make_shared<CountingLauncher>(cpu_->host()->Load(kernel, compiled));
  }
  std::unique_ptr<PreparedCall> Prepare(const FCompute& compute,
                                        const ComputeRequest& request) override {
    std::unique_ptr<LibraryCall> call = AsLibraryCall(cpu_->Prepare(compute, request));
    return call ? std::make_unique<CountingCall>(std::move(call)) : nullptr;
  }

 private:
  std::shared_ptr<Backend> cpu_ = GetBackend("cpu");
};

// The backend is made when it is first asked for, not while the plugin loads.
[[maybe_unused]] const bool registered =
    RegisterBackendModule(BackendModule("counting").set_backend([](const BackendParameters&) {
      return std::make_shared<CountingBackend>();
    }));

}  // namespace
}  // namespace demo
