/// launcher.cc: see launcher.h.
#include "launcher.h"

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>

#include "codegen/cuda/nvrtc/nvrtc_api.h"
#include "codegen/cuda/print/printer.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft::cuda {
namespace {

/// The driver cannot read code: damaged or of another kind, for another GPU, of a newer NVRTC.
bool CannotRead(DriverResult r) {
  return r == 200 /* image */ || r == 209 /* no binary for this GPU */ || r == 218 /* PTX */ ||
         r == 222 /* version of PTX */;
}

/// Adds what the versions of the driver and of the compiler tell about it.
void ExplainVersions(const DriverApi& api, int architecture, Error* e) {
  int driver = 0;
  const NvrtcApi& nvrtc = Nvrtc(architecture);
  if (api.DriverGetVersion(&driver) != 0 || driver <= 0) return;
  const int major = driver / 1000, minor = driver % 1000 / 10;
  if (!nvrtc.ok())
    e->SetHint(
        fmt::format("the driver is one for CUDA {}.{}: the kernels were made for a newer "
                    "one, or not for sm_{}; compile the model on this machine",
                    major, minor, architecture));
  else if (nvrtc.major > major || (nvrtc.major == major && nvrtc.minor > minor))
    e->SetHint(
        fmt::format("the driver is one for CUDA {0}.{1}, the kernels are made by NVRTC {2}.{3}: "
                    "install a driver for CUDA {2}.{3} or newer, or let WEFT_NVRTC name an NVRTC "
                    "of {0}.{1} or older",
                    major, minor, nvrtc.major, nvrtc.minor));
  else
    e->SetHint(
        fmt::format("the driver for CUDA {}.{} takes what NVRTC {}.{} makes: these kernels "
                    "were made elsewhere or not for sm_{}; compile the model anew",
                    major, minor, nvrtc.major, nvrtc.minor, architecture));
}

}  // namespace

Module::Module(std::shared_ptr<Device> device, const std::string& cubin)
    : device_(std::move(device)) {
  const Device::Current current = device_->Use();
  const DriverResult r = device_->api().LibraryLoadData(&library_, cubin.data(), nullptr, nullptr,
                                                        0, nullptr, nullptr, 0);
  try {
    device_->Check(r, "cuLibraryLoadData");
  } catch (Error& e) {
    if (CannotRead(r)) ExplainVersions(device_->api(), device_->architecture(), &e);
    throw;
  }
}
Module::~Module() {
  const Device::Current current = device_->Enter();
  device_->api().LibraryUnload(library_);
}

bool Module::Has(const std::string& entry) const {
  constexpr DriverResult kNotFound = 500;
  const Device::Current current = device_->Use();
  KernelHandle* kernel = nullptr;
  const DriverResult r = device_->api().LibraryGetKernel(&kernel, library_, entry.c_str());
  if (r == kNotFound) return false;
  device_->Check(r, ("cuLibraryGetKernel of " + entry).c_str());
  return true;
}

KernelHandle* Module::Get(const std::string& entry) const {
  const Device::Current current = device_->Use();
  KernelHandle* kernel = nullptr;
  device_->Check(device_->api().LibraryGetKernel(&kernel, library_, entry.c_str()),
                 ("cuLibraryGetKernel of " + entry).c_str());
  return kernel;
}

namespace {

uint64_t Word(const void* p) { return reinterpret_cast<uint64_t>(p); }

/// A kernel and the handles of its entries.
class Entries {
 public:
  Entries(const Kernel& kernel, std::shared_ptr<Module> module)
      : num_buffers_(kernel.buffers.size()),
        num_symbols_(size_t(kernel.num_symbols)),
        schedule_(ScheduleCuda(kernel)),
        module_(std::move(module)),
        parameter_bytes_(module_->device().parameter_bytes()) {}

  size_t num_symbols() const { return num_symbols_; }
  bool has_multi() const { return schedule_.has_multi(); }

  void Run(Stream& stream, void* const* buffers, const int64_t* dims) const {
    const std::shared_ptr<const CudaPlan> plan = PlanFor({dims, dims + num_symbols_});
    if (plan->launches.empty()) return;
    std::vector<uint64_t> words;
    for (size_t i = 0; i < num_buffers_; ++i) words.push_back(Word(buffers[i]));
    char* workspace = nullptr;
    if (schedule_.has_table()) {
      const std::vector<uint64_t> table = schedule_.Table(words, {dims, dims + num_symbols_});
      const int64_t at = CheckedRoundUp(plan->workspace_bytes, 16),
                    bytes = int64_t(table.size() * sizeof table[0]);
      workspace = static_cast<char*>(stream.Workspace(at + bytes));
      stream.CopyIn(workspace + at, table.data(), bytes);
      words = {Word(workspace + at)};
    } else {
      for (size_t i = 0; i < num_symbols_; ++i) words.push_back(uint64_t(dims[i]));
      if (plan->workspace_bytes > 0)
        workspace = static_cast<char*>(stream.Workspace(plan->workspace_bytes));
    }
    words.push_back(uint64_t(plan->total));
    const size_t common = words.size();
    for (const CudaLaunch& l : plan->launches) {
      words.resize(common);
      words.insert(words.end(), l.tail.begin(), l.tail.end());
      if (l.workspace) words.push_back(Word(workspace));
      std::vector<void*> params;
      for (uint64_t& w : words) params.push_back(&w);
      stream.Run(Launch{Handle(l.entry), l.grid_x, l.grid_y, l.block, l.shared_bytes},
                 params.data());
    }
  }
  void RunMulti(Stream& stream, const std::vector<CudaPart>& parts) const {
    for (CudaMultiLaunch& l : PlanMulti(parts)) {
      void* param = l.table.data();
      stream.Run(Launch{Handle(l.entry), l.grid_x, 1, l.block, 0}, &param);
    }
  }

 private:
  std::vector<CudaMultiLaunch> PlanMulti(const std::vector<CudaPart>& parts) const {
    const auto plan = [&] {
      return schedule_.PlanMulti(parts, module_->device().multiprocessors(), parameter_bytes_);
    };
    std::vector<CudaMultiLaunch> launches = plan();
    if (parameter_bytes_ == kLeastParameterBytes) return launches;
    for (const CudaMultiLaunch& l : launches) {
      if (IsKnown(l.entry) || module_->Has(l.entry)) continue;
      parameter_bytes_ = kLeastParameterBytes;
      return plan();
    }
    return launches;
  }
  bool IsKnown(const std::string& entry) const {
    std::lock_guard lock(mutex_);
    const auto known = handles_.find(entry);
    return known != handles_.end() && known->second;
  }
  std::shared_ptr<const CudaPlan> PlanFor(std::vector<int64_t> dims) const {
    constexpr size_t kMost = 32;
    std::lock_guard lock(mutex_);
    if (plans_.size() >= kMost && !plans_.count(dims)) plans_.clear();
    std::shared_ptr<const CudaPlan>& plan = plans_[dims];
    if (!plan)
      plan = std::make_shared<CudaPlan>(schedule_.Plan(dims, module_->device().multiprocessors()));
    return plan;
  }
  KernelHandle* Handle(const std::string& entry) const {
    std::lock_guard lock(mutex_);
    KernelHandle*& handle = handles_[entry];
    if (!handle) handle = module_->Get(entry);
    return handle;
  }

  size_t num_buffers_, num_symbols_;
  CudaSchedule schedule_;
  std::shared_ptr<Module> module_;
  mutable std::atomic<int64_t> parameter_bytes_;  ///< that driver and entries take
  mutable std::mutex mutex_;
  mutable std::map<std::vector<int64_t>, std::shared_ptr<const CudaPlan>> plans_;
  mutable std::map<std::string, KernelHandle*> handles_;
};

class Launcher final : public DeviceLauncher {
 public:
  Launcher(const Kernel& kernel, std::shared_ptr<Module> module)
      : entries_(kernel, std::move(module)) {}
  void Enqueue(DeviceStream& stream, void* const* buffers, const int64_t* dims) const override {
    entries_.Run(static_cast<Stream&>(stream), buffers, dims);
  }

 private:
  Entries entries_;
};

/// Parts of one kernel share launches where it has an entry for many.
class MultiLauncher final : public DeviceLauncher {
 public:
  MultiLauncher(const LoweredKernel& lowered, std::vector<std::shared_ptr<Module>> modules)
      : parts_(lowered.parts), kernels_(lowered.Kernels()) {
    for (size_t i = 0; i < kernels_.size(); ++i)
      entries_.push_back(std::make_unique<Entries>(*kernels_[i], std::move(modules[i])));
  }
  void Enqueue(DeviceStream& stream, void* const* buffers, const int64_t* dims) const override {
    Stream& s = static_cast<Stream&>(stream);
    for (size_t i = 0; i < kernels_.size(); ++i) {
      const Entries& e = *entries_[i];
      std::vector<CudaPart> together;
      for (const KernelPart& p : parts_) {
        if (p.kernel != kernels_[i]) continue;
        const int64_t* own = dims + p.first_symbol;
        if (e.has_multi()) {
          CudaPart part;
          for (int operand : p.operands) part.buffers.push_back(Word(buffers[operand]));
          part.dims.assign(own, own + e.num_symbols());
          together.push_back(std::move(part));
        } else {
          std::vector<void*> operands;
          for (int operand : p.operands) operands.push_back(buffers[operand]);
          e.Run(s, operands.data(), own);
        }
      }
      if (!together.empty()) e.RunMulti(s, together);
    }
  }

 private:
  std::vector<KernelPart> parts_;
  std::vector<KernelPtr> kernels_;
  std::vector<std::unique_ptr<Entries>> entries_;
};

}  // namespace

std::shared_ptr<DeviceLauncher> MakeLauncher(const Kernel& kernel, std::shared_ptr<Module> module) {
  return std::make_shared<Launcher>(kernel, std::move(module));
}
std::shared_ptr<DeviceLauncher> MakeMultiLauncher(const LoweredKernel& lowered,
                                                  std::vector<std::shared_ptr<Module>> modules) {
  return std::make_shared<MultiLauncher>(lowered, std::move(modules));
}

}  // namespace weft::cuda
