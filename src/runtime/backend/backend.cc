/// backend.cc: the backends that have been made, and what a backend does unless it says otherwise.
#include "weft/runtime/backend/backend.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/module/backend_module.h"
#include "weft/runtime/pipelines.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/edit_distance.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft {

void KernelLauncher::Enqueue(DeviceStream&, void* const*, const int64_t*) const {
  WEFT_THROW(kInternal, "a kernel of the host was given to a stream");
}
void LibraryCall::Enqueue(DeviceStream&, const void* const*, void* const*, void*) const {
  WEFT_THROW(kInternal, "a library call of the host was given to a stream");
}
std::shared_ptr<DeviceStream::Point> DeviceStream::Mark() {
  Wait();
  return nullptr;
}
void DeviceStream::Wait(const Point&) { Wait(); }
std::unique_ptr<DeviceStream::Recording> DeviceStream::Record(const std::function<void()>&,
                                                              std::unique_ptr<Recording>) {
  return nullptr;
}
void DeviceStream::Replay(const Recording&) {
  WEFT_THROW(kInternal, "this stream records nothing");
}

std::string Backend::default_pipeline() const { return StandardPipeline().ToString(); }

bool Backend::Runs(const std::string& code_target) const {
  std::string why;
  const std::shared_ptr<KernelCompiler> compiler =
      target().traits().kernels ? FindKernelCompiler(target(), &why) : nullptr;
  return compiler && compiler->target() == code_target;
}

namespace {

/// The parts of a launch, one after another.
class PartsInTurn final : public KernelLauncher {
 public:
  PartsInTurn(std::vector<KernelPart> parts, std::vector<std::shared_ptr<KernelLauncher>> launchers)
      : parts_(std::move(parts)), launchers_(std::move(launchers)) {}
  void Launch(void* const* buffers, const int64_t* dims) const override {
    std::vector<void*> own;
    for (size_t i = 0; i < parts_.size(); ++i) {
      own.clear();
      for (int operand : parts_[i].operands) own.push_back(buffers[operand]);
      launchers_[i]->Launch(own.data(), dims + parts_[i].first_symbol);
    }
  }
  void Enqueue(DeviceStream& stream, void* const* buffers, const int64_t* dims) const override {
    std::vector<void*> own;
    for (size_t i = 0; i < parts_.size(); ++i) {
      own.clear();
      for (int operand : parts_[i].operands) own.push_back(buffers[operand]);
      launchers_[i]->Enqueue(stream, own.data(), dims + parts_[i].first_symbol);
    }
  }

 private:
  std::vector<KernelPart> parts_;
  std::vector<std::shared_ptr<KernelLauncher>> launchers_;  // one a part
};

}  // namespace

std::shared_ptr<KernelLauncher> Backend::LoadMulti(const LoweredKernel& lowered,
                                                   const CompiledKernels& compiled) {
  const std::vector<KernelPtr> kernels = lowered.Kernels();
  std::vector<std::shared_ptr<KernelLauncher>> loaded, of_part;
  for (size_t i = 0; i < kernels.size(); ++i) loaded.push_back(Load(*kernels[i], *compiled[i]));
  for (const KernelPart& p : lowered.parts)
    of_part.push_back(
        loaded[size_t(std::find(kernels.begin(), kernels.end(), p.kernel) - kernels.begin())]);
  return std::make_shared<PartsInTurn>(lowered.parts, std::move(of_part));
}

std::shared_ptr<void> Backend::Allocate(int64_t bytes) {
  const int64_t rounded = CheckedRoundUp(std::max<int64_t>(bytes, 1), 64);
  RequestScope::CheckMemory(rounded);
  void* data = std::aligned_alloc(64, size_t(rounded));
  WEFT_CHECK(data, kOutOfMemory, "cannot allocate an arena of {} bytes", bytes);
  return {data, [](void* p) { std::free(p); }};
}

namespace {

[[noreturn]] void ThrowNoBackend(const std::string& name, const std::string& why) {
  const std::vector<std::string> names = AvailableBackendModules();
  const std::string near = DidYouMean(name, names);
  ThrowError(ErrorCode::kUnsupported, fmt::format("there is no backend '{}': {}", name, why), "",
             near.empty() ? "the backends are: " + Join(names, ", ") : near);
}

}  // namespace

std::shared_ptr<Backend> GetBackend(const std::string& name) {
  static std::mutex mutex;
  static auto* made = new std::map<std::string, std::shared_ptr<Backend>>;
  {
    std::lock_guard lock(mutex);
    if (auto it = made->find(name); it != made->end()) return it->second;
  }
  const auto [family, parameters] = SplitTarget(name);
  std::string why;
  const std::shared_ptr<const BackendModule> module = FindBackendModule(family, &why);
  if (!module) ThrowNoBackend(family, why);
  if (!module->backend) ThrowNoBackend(family, "its module compiles kernels, but runs none");
  // Without a lock: a backend may be made of another. Two threads may make one each; the first
  // stays.
  std::shared_ptr<Backend> backend = module->backend(parameters);
  WEFT_CHECK(backend != nullptr, kUnsupported, "backend '{}' could not be made", name);
  std::lock_guard lock(mutex);
  return made->emplace(name, std::move(backend)).first->second;
}

}  // namespace weft
