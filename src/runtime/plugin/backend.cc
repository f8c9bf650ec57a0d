/// backend.cc: backends of plugins of the C tier: host memory, kernels as C text,
/// launches by the plugin.
///
/// Such a backend goes through the pipeline of "cpu"; the machine code made there is what
/// host->kernel_* runs, and the C text of each kernel is what the plugin may compile instead.
#include "weft/runtime/backend/backend.h"

#include <memory>

#include "services.h"
#include "weft/codegen/ctext/c_printer.h"
#include "weft/core/module/backend_module.h"
#include "weft/support/checked.h"
#include "weft/support/request.h"

struct WeftHostKernel {
  std::shared_ptr<weft::KernelLauncher> launcher;
};

namespace weft::plugin {
namespace {

/// What WeftKernel::host_code points to while `compile` runs.
struct HostCode {
  Backend* cpu;
  const Kernel* kernel;
  const CompiledKernel* compiled;
};

/// Work items: points, or rows, in the loops that are split over threads.
int64_t WorkItems(const SymProgram& extents, const int64_t* dims) {
  std::vector<int64_t> values(size_t(extents.num_results()));
  extents.Run(dims, values.data());
  int64_t items = 1;
  for (int64_t v : values) items = CheckedMul(items, v);
  return items;
}

class PluginLauncher final : public KernelLauncher {
 public:
  PluginLauncher(const WeftBackendDef& def, const Kernel& kernel, const CompiledKernel& compiled,
                 Backend* cpu)
      : def_(def) {
    std::vector<SymInt> symbols;
    for (int k = 0; k < kernel.num_symbols; ++k) symbols.push_back(KernelSymbol(k));
    extents_ = SymProgram(symbols);
    for (SymInt d : kernel.outer_dims()) extents_.Add(d);
    const std::string name = kernel.Name(), source = PrintC(kernel);
    const HostCode code{cpu, &kernel, &compiled};
    WeftKernel k{};
    k.struct_size = sizeof k;
    k.name = name.c_str();
    k.c_source = source.c_str();
    k.num_inputs = kernel.num_inputs;
    k.num_outputs = int32_t(kernel.buffers.size()) - kernel.num_inputs;
    k.num_dims = kernel.num_symbols;
    k.host_code = &code;
    launching_ = fmt::format("backend '{}': launching {}", def_.name, name);
    CallPlugin(fmt::format("backend '{}': compiling {}", def_.name, name),
               [&] { return def_.compile(def_.user, &k, &compiled_); });
  }
  ~PluginLauncher() override {
    if (def_.destroy) def_.destroy(def_.user, compiled_);
  }
  PluginLauncher(const PluginLauncher&) = delete;
  PluginLauncher& operator=(const PluginLauncher&) = delete;
  void Launch(void* const* buffers, const int64_t* dims) const override {
    const int64_t items = WorkItems(extents_, dims);
    CallPlugin(launching_, [&] { return def_.launch(def_.user, compiled_, buffers, dims, items); });
  }

 private:
  WeftBackendDef def_;
  SymProgram extents_;
  std::string launching_;  // for messages
  void* compiled_ = nullptr;
};

class PluginBackend final : public HostBackend {
 public:
  /// On top of `cpu`, whose kernels it wraps.
  PluginBackend(const WeftBackendDef& def, std::string name, std::string library,
                std::shared_ptr<Backend> cpu)
      : def_(def), name_(std::move(name)), library_(std::move(library)), cpu_(std::move(cpu)) {
    def_.name = name_.c_str();
  }
  std::string name() const override { return name_; }
  Target target() const override { return cpu_->target().WithLibrary(library_); }
  std::string default_pipeline() const override { return cpu_->default_pipeline(); }
  int threads() const override { return cpu_->threads(); }
  void set_threads(int n) override { cpu_->set_threads(n); }
  std::shared_ptr<Backend> WithThreads(int n) override {
    std::shared_ptr<Backend> cpu = cpu_->WithThreads(n);
    return std::make_shared<PluginBackend>(def_, name_, library_, cpu ? cpu : cpu_);
  }
  std::shared_ptr<KernelLauncher> Load(const Kernel& kernel,
                                       const CompiledKernel& compiled) override {
    return std::make_shared<PluginLauncher>(def_, kernel, compiled, cpu_.get());
  }
  std::shared_ptr<void> Allocate(int64_t bytes) override {
    if (!def_.allocate) return Backend::Allocate(bytes);
    RequestScope::CheckMemory(bytes);
    void* data = nullptr;
    CallPlugin(fmt::format("backend '{}': allocating {} bytes", name_, bytes),
               [&] { return def_.allocate(def_.user, size_t(bytes), &data); });
    std::shared_ptr<void> owned(data, [def = def_](void* p) {
      if (p) def.release(def.user, p);
    });
    WEFT_CHECK(data, kOutOfMemory, "backend '{}' could not allocate {} bytes", name_, bytes);
    WEFT_CHECK(reinterpret_cast<uintptr_t>(data) % 64 == 0, kPlugin,
               "backend '{}' gave memory that is not aligned to 64 bytes", name_);
    return owned;
  }

 private:
  WeftBackendDef def_;
  std::string name_, library_;
  std::shared_ptr<Backend> cpu_;
};

WeftStatus RegisterBackendDef(const WeftBackendDef* given) {
  return Guard([&] {
    RequirePluginEntry();
    const WeftBackendDef def =
        ReadDef(given, WEFT_SIZE_UP_TO(WeftBackendDef, library), "WeftBackendDef");
    const std::string name = RequiredText(def.name, "the name of a backend");
    WEFT_CHECK(def.compile && def.launch, kApiMisuse,
               "backend '{}' has no `compile` or no `launch`", name);
    WEFT_CHECK(!def.allocate == !def.release, kApiMisuse,
               "backend '{}' has one of `allocate` and `release`, not both", name);
    const std::string library = def.library ? def.library : name;
    RegisterBackendModule(
        BackendModule(name).set_library(library).set_parameters_of("cpu").set_backend(
            [def, name, library](const BackendParameters& parameters) {
              return std::make_shared<PluginBackend>(def, name, library,
                                                     GetBackend("cpu:" + parameters.text()));
            }));
  });
}

[[maybe_unused]] const bool registered = [] {
  WeftHost& h = PluginHost();
  h.register_backend = RegisterBackendDef;
  h.kernel_open = [](const WeftKernel* kernel, WeftHostKernel** code) {
    return Guard([&] {
      const WeftKernel k = ReadDef(kernel, WEFT_SIZE_UP_TO(WeftKernel, host_code), "WeftKernel");
      WEFT_CHECK(k.host_code && code, kApiMisuse, "kernel_open was given a null pointer");
      const auto& host = *static_cast<const HostCode*>(k.host_code);
      *code = new WeftHostKernel{host.cpu->host()->Load(*host.kernel, *host.compiled)};
    });
  };
  h.kernel_launch = [](const WeftHostKernel* code, void* const* buffers, const int64_t* dims) {
    return Guard([&] {
      WEFT_CHECK(code, kApiMisuse, "kernel_launch was given a null pointer");
      code->launcher->Launch(buffers, dims);
    });
  };
  h.kernel_close = [](WeftHostKernel* code) { delete code; };
  return true;
}();

}  // namespace
}  // namespace weft::plugin
