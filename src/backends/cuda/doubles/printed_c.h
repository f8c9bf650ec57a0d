/// printed_c.h: a backend whose kernels are those of the C printer, built by the system's compiler.
/// Everything else runs in the interpreter.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emulated_kernels.h"
#include "tests/support/kernels/kernel_cases.h"
#include "weft/codegen/ctext/c_printer.h"
#include "weft/core/module/backend_module.h"

namespace weft::e2e {

/// Kernels that RTCGen asked for, and the library of their code once it is built.
struct PrintedC {
  std::map<std::string, KernelPtr> kernels;
  void* library = nullptr;
};
inline PrintedC& ThePrintedC() {
  static auto* c = new PrintedC;
  return *c;
}

class PrintedLauncher final : public KernelLauncher {
 public:
  explicit PrintedLauncher(const Kernel& kernel) : kernel_(kernel) {}
  void Launch(void* const* buffers, const int64_t* dims) const override {
    if (run_ == nullptr)
      run_ = reinterpret_cast<CpuKernelFn>(dlsym(ThePrintedC().library, kernel_.Name().c_str()));
    WEFT_CHECK(run_ != nullptr, kCheckFailed, "no code for {}", kernel_.Name());
    SymBindings bindings;
    for (int k = 0; k < kernel_.num_symbols; ++k) bindings[KernelSymbol(k).symbol_name()] = dims[k];
    int64_t total = 1;
    for (int d = 0; d < kernel_.num_outer; ++d)
      total *= Evaluate(kernel_.dims[size_t(d)], bindings);
    run_(buffers, dims, 0, total, nullptr);
  }

 private:
  Kernel kernel_;
  mutable CpuKernelFn run_ = nullptr;
};

class PrintedBackend final : public HostBackend {
 public:
  std::string name() const override { return "printed"; }
  Target target() const override { return "printed"; }
  std::string default_pipeline() const override { return "RTCGen,Schedule,PlanMemory"; }
  std::shared_ptr<KernelLauncher> Load(const Kernel& kernel, const CompiledKernel&) override {
    return std::make_shared<PrintedLauncher>(kernel);
  }
};

class PrintedCompiler final : public KernelCompiler {
 public:
  std::string target() const override { return "printed"; }
  std::string Source(const Kernel& kernel) const override { return PrintC(kernel); }
  std::string source_extension() const override { return ".c"; }
  std::vector<std::string> Compile(const std::vector<KernelPtr>& kernels,
                                   std::vector<std::string>*) override {
    for (const KernelPtr& k : kernels) ThePrintedC().kernels.emplace(k->Name(), k);
    return std::vector<std::string>(kernels.size(), "later");
  }
  KernelStats Stats(const Kernel&, const std::string&) const override { return {}; }
};

inline std::shared_ptr<const Program> CompilePrinted(const Graph& graph) {
  [[maybe_unused]] static const bool once = [] {
    setenv("WEFT_CACHE", "off", 1);  // what "compiled" gives is of no use to others
    return RegisterBackendModule(
        BackendModule("printed")
            .set_backend(
                [](const BackendParameters&) { return std::make_shared<PrintedBackend>(); })
            .set_compiler([](const Target&) { return std::make_shared<PrintedCompiler>(); }));
  }();
  CompileOptions options;
  options.backend = "printed";
  return Compile(ApplyPasses(graph, KernelPasses()), options);
}

/// Builds all kernels that were asked for; what overflows or divides by 0 in C ends the process.
/// False where there is no compiler.
inline bool BuildPrinted() {
  PrintedC& c = ThePrintedC();
  // A few files: each needs its own helpers, and the compiler's time grows with their number.
  std::vector<std::string> sources;
  for (const auto& [name, kernel] : c.kernels) sources.push_back(PrintC(*kernel));
  c.library = kernel_cases::BuildAndOpen(sources, ".c",
                                         "gcc -std=c99 -O1 -fsanitize=undefined "
                                         "-fsanitize-undefined-trap-on-error");
  MESSAGE(c.kernels.size() << " kernels in C");
  if (c.library == nullptr) MESSAGE("skipped: no gcc on this machine");
  return c.library != nullptr;
}

}  // namespace weft::e2e
