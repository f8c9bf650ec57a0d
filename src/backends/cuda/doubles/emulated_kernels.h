/// emulated_kernels.h: a backend of the host whose kernels are those of the CUDA printer, run on
/// emulated threads (codegen/cuda/emulator/emulator.h); everything else runs in the interpreter.
/// For what the printed kernels compute: no driver, no streams, no libraries (tests/support/
/// emulated_gpu.h has them). No GPU is needed.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "codegen/cuda/emulator/emulated_kernel.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/pass/pass.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/pipelines.h"
#include "weft/runtime/program/program.h"
#include "weft/support/check.h"

namespace weft::e2e {

/// What all launches share: the kernels that RTCGen asked for, and their code once it is built.
struct Emulation {
  std::map<std::string, KernelPtr> kernels;
  std::unique_ptr<cuda::EmulatedLibrary> library;
  cuda::EmulatedRun run;
  int64_t launches = 0, parts = 0;
  std::map<std::string, int64_t> entries;
};
inline Emulation& TheEmulation() {
  static auto* e = new Emulation;
  return *e;
}

/// For every other kernel rows are cut that no GPU would cut, so that graphs with small extents are
/// launched in steps too.
inline CudaTuning TuningOf(const Kernel& kernel) {
  CudaTuning t;
  if (kernel.Key().lo % 2 == 0) return t;
  t.slice_elements = 6;
  t.slice_depth = 4;
  t.blocks = 40;
  t.split_rows = t.split_columns = 20;
  return t;
}
/// The same entries, and now and then nothing is small enough for 32-bit indices.
class Schedules {
 public:
  explicit Schedules(const Kernel& k) : usual_(ScheduleCuda(k, TuningOf(k))) {
    CudaTuning wide = TuningOf(k);
    wide.narrow_limit = 4;
    wide_ = ScheduleCuda(k, wide);
  }
  const CudaSchedule& now() const { return TheEmulation().run.seed % 4 == 0 ? wide_ : usual_; }

 private:
  CudaSchedule usual_, wide_;
};

class EmulatedLauncher final : public KernelLauncher {
 public:
  explicit EmulatedLauncher(const Kernel& kernel) : kernel_(kernel), schedules_(kernel) {}
  void Launch(void* const* buffers, const int64_t* dims) const override {
    Emulation& e = TheEmulation();
    ++e.launches;
    const std::string problem = cuda::RunEmulated(
        *e.library, kernel_, schedules_.now(),
        std::vector<void*>(buffers, buffers + kernel_.buffers.size()),
        std::vector<int64_t>(dims, dims + kernel_.num_symbols), e.run, &e.entries);
    WEFT_CHECK(problem.empty(), kCheckFailed, "{}", problem);
  }

 private:
  Kernel kernel_;
  Schedules schedules_;
};

/// Parts of one kernel share a launch where it has an entry for many.
class EmulatedMultiLauncher final : public KernelLauncher {
 public:
  explicit EmulatedMultiLauncher(const LoweredKernel& lowered) : parts_(lowered.parts) {
    for (const KernelPtr& k : lowered.Kernels()) kernels_.emplace_back(k, Schedules(*k));
  }
  void Launch(void* const* buffers, const int64_t* dims) const override {
    Emulation& e = TheEmulation();
    for (const auto& [kernel, schedules] : kernels_) {
      const CudaSchedule& schedule = schedules.now();
      std::vector<cuda::HostPart> own;
      for (const KernelPart& p : parts_) {
        if (p.kernel != kernel) continue;
        own.emplace_back();
        for (int operand : p.operands) own.back().buffers.push_back(buffers[operand]);
        own.back().dims.assign(dims + p.first_symbol, dims + p.first_symbol + kernel->num_symbols);
      }
      e.parts += int64_t(own.size());
      ++e.launches;
      std::string problem;
      if (schedule.has_multi()) {
        problem = cuda::RunEmulatedMulti(*e.library, *kernel, schedule, own, e.run, &e.entries);
      } else {
        for (size_t i = 0; i < own.size() && problem.empty(); ++i)
          problem = cuda::RunEmulated(*e.library, *kernel, schedule, own[i].buffers, own[i].dims,
                                      e.run, &e.entries);
      }
      WEFT_CHECK(problem.empty(), kCheckFailed, "{}", problem);
    }
  }

 private:
  std::vector<KernelPart> parts_;
  std::vector<std::pair<KernelPtr, Schedules>> kernels_;
};

class EmulatedKernelsBackend final : public HostBackend {
 public:
  std::string name() const override { return "emulated-kernels"; }
  Target target() const override { return "emulated-kernels"; }
  std::string default_pipeline() const override { return "RTCGen,Schedule,PlanMemory"; }
  std::shared_ptr<KernelLauncher> Load(const Kernel& kernel, const CompiledKernel&) override {
    return std::make_shared<EmulatedLauncher>(kernel);
  }
  std::shared_ptr<KernelLauncher> LoadMulti(const LoweredKernel& lowered,
                                            const CompiledKernels&) override {
    return std::make_shared<EmulatedMultiLauncher>(lowered);
  }
};

/// Notes what it should compile: all kernels of all graphs are built together.
class EmulatedKernelsCompiler final : public KernelCompiler {
 public:
  std::string target() const override { return "emulated-kernels"; }
  std::string Source(const Kernel& kernel) const override { return PrintCuda(kernel); }
  std::string source_extension() const override { return ".cu"; }
  std::vector<std::string> Compile(const std::vector<KernelPtr>& kernels,
                                   std::vector<std::string>*) override {
    for (const KernelPtr& k : kernels) TheEmulation().kernels.emplace(k->Name(), k);
    return std::vector<std::string>(kernels.size(), "later");
  }
  KernelStats Stats(const Kernel&, const std::string&) const override { return {}; }
};

inline void RegisterEmulation() {
  [[maybe_unused]] static const bool once = [] {
    setenv("WEFT_CACHE", "off", 1);  // what "compiled" gives is of no use to others
    return RegisterBackendModule(BackendModule("emulated-kernels")
                                     .set_backend([](const BackendParameters&) {
                                       return std::make_shared<EmulatedKernelsBackend>();
                                     })
                                     .set_compiler([](const Target&) {
                                       return std::make_shared<EmulatedKernelsCompiler>();
                                     }));
  }();
}

/// Builds what was asked for, in at most `units` translation units. False where
/// there is no compiler.
inline bool BuildKernels(size_t units) {
  Emulation& e = TheEmulation();
  // One tuning a unit.
  std::vector<std::vector<KernelPtr>> batches(units);
  size_t next = 0;
  for (const auto& [name, kernel] : e.kernels)
    batches[next++ % (units / 2) * 2 + kernel->Key().lo % 2].push_back(kernel);
  std::vector<std::string> sources;
  for (const auto& batch : batches) {
    if (!batch.empty()) sources.push_back(PrintCuda(batch, TuningOf(*batch[0])));
  }
  std::string why;
  auto library = cuda::EmulatedLibrary::Build(sources, &why);
  if (!cuda::EmulatedLibrary::CanCompile()) {
    MESSAGE("skipped: " << why);
    return false;
  }
  REQUIRE_MESSAGE(library != nullptr, why);
  MESSAGE(e.kernels.size() << " kernels in " << sources.size() << " units, "
                           << library->units_compiled() << " compiled");
  // Kernels of programs that were compiled before are asked for once.
  if (e.library) library->Add(*e.library);
  e.library = std::move(library);
  e.kernels.clear();
  return true;
}

/// The passes of every backend, but that nothing is left to a library: kernels are generated for
/// all that can be.
inline Pipeline KernelPasses() {
  return StandardPipeline({PipelineEnd::kKernels, /*fusion=*/true, /*libraries=*/false});
}

/// `pipeline`: behind those passes; empty: the backend's.
inline std::shared_ptr<const Program> CompileEmulatedBy(const std::string& pipeline,
                                                        const Graph& graph) {
  PassOptions passes;
  passes.target = "cuda:sm_90";
  const Graph fused = ApplyPasses(graph, KernelPasses(), passes);
  CompileOptions options;
  options.backend = "emulated-kernels";
  options.pipeline = pipeline;
  return Compile(fused, options);
}
inline std::shared_ptr<const Program> CompileEmulated(const Graph& graph) {
  return CompileEmulatedBy("", graph);
}

}  // namespace weft::e2e
