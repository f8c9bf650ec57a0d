/// backend.cc: the table of backends.
#include "weft/runtime/backend/backend.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/core/op/op.h"
#include "weft/core/op/staging.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"
#include "weft/support/edit_distance.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

struct Backends {
  std::map<std::string, std::function<std::shared_ptr<Backend>()>> factories;  // a registry
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Backend>> made;
};
Backends& Table() {
  static Backends* b = new Backends;
  return *b;
}

}  // namespace

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

bool Backend::Runs(const std::string& code_target) const {
  std::string why;
  const std::shared_ptr<KernelCompiler> compiler =
      target().empty() ? nullptr : FindKernelCompiler(target(), &why);
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

void RegisterBackend(const std::string& name, std::function<std::shared_ptr<Backend>()> factory) {
  // Called by static initialisers: a conflict is kept for the next look-up, not thrown.
  CommitRegistration([name, factory = std::move(factory)] {
    WEFT_CHECK(!Table().factories.count(name), kDuplicate, "backend '{}' is registered twice",
               name);
    OnRollback([name] { Table().factories.erase(name); });
    Table().factories[name] = factory;
    NoteRegistration("backend", name);
  });
}

std::vector<std::string> ListBackends() {
  RegistryRead lock;
  std::vector<std::string> names;
  for (const auto& [name, factory] : Table().factories) names.push_back(name);
  return names;
}

std::shared_ptr<Backend> GetBackend(const std::string& name) {
  CheckRegistrations();
  Backends& t = Table();
  auto find = [&]() -> std::shared_ptr<Backend> {
    {
      std::lock_guard lock(t.mutex);
      if (auto it = t.made.find(name); it != t.made.end()) return it->second;
    }
    std::function<std::shared_ptr<Backend>()> factory;
    {
      RegistryRead lock;
      auto it = t.factories.find(name);
      if (it == t.factories.end()) return nullptr;
      factory = it->second;
    }
    // Without a lock: a backend may be made of another. Two threads may make one
    // each; the first stays.
    std::shared_ptr<Backend> backend = factory();
    WEFT_CHECK(backend != nullptr, kUnsupported, "backend '{}' could not be made", name);
    std::lock_guard lock(t.mutex);
    return t.made.emplace(name, std::move(backend)).first->second;
  };
  if (auto b = find()) return b;
  const std::string why = LoadBackendModule(name);
  if (auto b = find()) return b;
  // Modules that were not asked for are not open, and so not in the list.
  std::vector<std::string> names = ListBackends();
  if (std::find(names.begin(), names.end(), "cpu") == names.end())
    names.insert(names.begin(), "cpu");
  const std::string near = DidYouMean(name, names);
  ThrowError(ErrorCode::kUnsupported,
             fmt::format("there is no backend '{}': {}", name,
                         why.empty() ? "its module registers none" : why),
             "", near.empty() ? "the backends are: " + Join(names, ", ") : near);
}

}  // namespace weft
