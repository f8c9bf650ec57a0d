/// backend.cc: the backends that have been made, and what a backend does unless it says otherwise.
#include "weft/runtime/backend/backend.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/module/delegate.h"
#include "weft/runtime/backend/packing_call.h"
#include "weft/runtime/pipelines.h"
#include "weft/support/aligned_memory.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/edit_distance.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft {

namespace {

template <class Kind>
std::unique_ptr<Kind> CallAs(std::unique_ptr<PreparedCall> call, const char* kind) {
  Kind* as = dynamic_cast<Kind*>(call.get());
  WEFT_ICHECK(as || !call, "a prepared call ({}) is not one for {}", call->description(), kind);
  call.release();
  return std::unique_ptr<Kind>(as);
}

}  // namespace

PackingCall::~PackingCall() = default;

std::unique_ptr<LibraryCall> AsLibraryCall(std::unique_ptr<PreparedCall> call) {
  return CallAs<LibraryCall>(std::move(call), "host memory");
}
std::unique_ptr<DeviceCall> AsDeviceCall(std::unique_ptr<PreparedCall> call) {
  return CallAs<DeviceCall>(std::move(call), "a device");
}

std::shared_ptr<DeviceStream::Point> DeviceStream::Mark() {
  Wait();
  return nullptr;
}
void DeviceStream::Wait(const Point&) { Wait(); }
void DeviceStream::Give(const std::function<void(void*)>& work) {
  Wait();
  work(nullptr);
}
std::unique_ptr<DeviceStream::Recording> DeviceStream::Record(const std::function<void()>&,
                                                              std::unique_ptr<Recording>) {
  return nullptr;
}
void DeviceStream::Replay(const Recording&) {
  WEFT_THROW(kInternal, "this stream records nothing");
}

void HostBackend::RunTogether(size_t count, const std::function<void(size_t)>& part) {
  for (size_t k = 0; k < count; ++k) part(k);
}

std::shared_ptr<const BackendProgram> Backend::MakeProgram(const Graph&, const CompileOptions&) {
  return nullptr;
}
std::shared_ptr<const BackendProgram> Backend::LoadProgram(const Graph& graph,
                                                           const CompileOptions& options,
                                                           const std::vector<NamedBytes>&) {
  return MakeProgram(graph, options);
}
std::string Backend::support_pipeline() const {
  return StandardPipeline({PipelineEnd::kSimplified}).ToString();
}
std::string Backend::WhyNot(const Graph&, const NodePtr&) const { return {}; }
std::optional<int64_t> Backend::PredictPeak(const Graph&) const { return std::nullopt; }
std::string Backend::default_pipeline() const { return StandardPipeline().ToString(); }

bool Backend::Runs(const std::string& code_target) const {
  std::string why;
  const std::shared_ptr<KernelCompiler> compiler =
      target().traits().kernels ? FindKernelCompiler(target(), &why) : nullptr;
  return compiler && compiler->target() == code_target;
}

namespace {

/// The parts of a launch, one after another.
template <class Launcher>
class PartsInTurn {
 public:
  /// `load(kernel, compiled)`
  template <class F>
  PartsInTurn(const LoweredKernel& lowered, const CompiledKernels& compiled, F&& load)
      : parts_(lowered.parts) {
    const std::vector<KernelPtr> kernels = lowered.Kernels();
    std::vector<std::shared_ptr<Launcher>> loaded;
    for (size_t i = 0; i < kernels.size(); ++i) loaded.push_back(load(*kernels[i], *compiled[i]));
    for (const KernelPart& p : parts_)
      launchers_.push_back(
          loaded[size_t(std::find(kernels.begin(), kernels.end(), p.kernel) - kernels.begin())]);
  }
  template <class F>
  void ForEach(void* const* buffers, const int64_t* dims, F&& launch) const {
    std::vector<void*> own;
    for (size_t i = 0; i < parts_.size(); ++i) {
      own.clear();
      for (int operand : parts_[i].operands) own.push_back(buffers[operand]);
      launch(*launchers_[i], own.data(), dims + parts_[i].first_symbol);
    }
  }

 private:
  std::vector<KernelPart> parts_;
  std::vector<std::shared_ptr<Launcher>> launchers_;  // one a part
};

class HostParts final : public KernelLauncher {
 public:
  explicit HostParts(PartsInTurn<KernelLauncher> parts) : parts_(std::move(parts)) {}
  void Launch(void* const* buffers, const int64_t* dims) const override {
    parts_.ForEach(buffers, dims, [](const KernelLauncher& l, void* const* b, const int64_t* d) {
      l.Launch(b, d);
    });
  }

 private:
  const PartsInTurn<KernelLauncher> parts_;
};

class DeviceParts final : public DeviceLauncher {
 public:
  explicit DeviceParts(PartsInTurn<DeviceLauncher> parts) : parts_(std::move(parts)) {}
  void Enqueue(DeviceStream& stream, void* const* buffers, const int64_t* dims) const override {
    parts_.ForEach(buffers, dims, [&](const DeviceLauncher& l, void* const* b, const int64_t* d) {
      l.Enqueue(stream, b, d);
    });
  }

 private:
  const PartsInTurn<DeviceLauncher> parts_;
};

}  // namespace

std::shared_ptr<KernelLauncher> HostBackend::LoadMulti(const LoweredKernel& lowered,
                                                       const CompiledKernels& compiled) {
  return std::make_shared<HostParts>(PartsInTurn<KernelLauncher>(
      lowered, compiled, [this](const Kernel& k, const CompiledKernel& c) { return Load(k, c); }));
}
std::shared_ptr<DeviceLauncher> DeviceBackend::LoadMulti(const LoweredKernel& lowered,
                                                         const CompiledKernels& compiled) {
  return std::make_shared<DeviceParts>(PartsInTurn<DeviceLauncher>(
      lowered, compiled, [this](const Kernel& k, const CompiledKernel& c) { return Load(k, c); }));
}

std::shared_ptr<void> Backend::Allocate(int64_t bytes) {
  const int64_t rounded = CheckedRoundUp(std::max<int64_t>(bytes, 1), 64);
  RequestScope::CheckMemory(rounded);
  std::shared_ptr<void> data = AllocateAligned(rounded);
  WEFT_CHECK(data, kOutOfMemory, "cannot allocate an arena of {} bytes", bytes);
  return data;
}

namespace {

[[noreturn]] void ThrowNoBackend(const std::string& name, const std::string& why) {
  const std::vector<std::string> names = AvailableBackendModules();
  const std::string near = DidYouMean(name, names);
  ThrowError(ErrorCode::kUnsupported, fmt::format("there is no backend '{}': {}", name, why), "",
             near.empty() ? "the backends are: " + Join(names, ", ") : near);
}

}  // namespace

std::shared_ptr<Backend> GetBackend(const std::string& engine) {
  const std::string name = SplitDelegates(engine).first;
  const auto [family, text] = SplitTarget(name);
  std::string why;
  const std::shared_ptr<const BackendModule> module = FindBackendModule(family, &why);
  if (!module) ThrowNoBackend(family, why);
  if (!module->backend) ThrowNoBackend(family, "its module compiles kernels, but runs none");
  const BackendParameters parameters(family, text, module->KnownParameters());
  static std::mutex mutex;
  static auto* made = new std::map<std::string, std::shared_ptr<Backend>>;
  const std::string key = family + ":" + parameters.Key();
  {
    std::lock_guard lock(mutex);
    if (auto it = made->find(key); it != made->end()) return it->second;
  }
  // Without a lock: a backend may be made of another. Two threads may make one each; the first
  // stays.
  std::shared_ptr<Backend> backend = module->backend(parameters);
  WEFT_CHECK(backend != nullptr, kUnsupported, "backend '{}' could not be made", name);
  std::lock_guard lock(mutex);
  return made->emplace(key, std::move(backend)).first->second;
}

}  // namespace weft
