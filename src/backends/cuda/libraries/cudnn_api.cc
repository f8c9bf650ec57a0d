/// cudnn_api.cc: finds and opens cuDNN.
#include "cudnn_api.h"

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "codegen/cuda/nvrtc/nvrtc_api.h"
#include "cublaslt_api.h"

namespace weft::cuda {
namespace {

/// Never given back: threads and caches of the library outlive any scope of ours.
const CudnnApi& KeepForever(std::shared_ptr<const CudnnApi> api) {
  static std::mutex mutex;
  static auto* const all = new std::vector<std::shared_ptr<const CudnnApi>>;
  std::lock_guard lock(mutex);
  all->push_back(std::move(api));
  return *all->back();
}

}  // namespace

std::string CudnnApi::Flaw() const {
  constexpr size_t kFirst = 90000;  // 9.0.0
  return version() >= kFirst ? "" : fmt::format("is of version {}", version());
}

const CudnnApi& OpenCudnn(const TryCudnn& attempt, const std::string& library) {
  const auto open = [&](const std::shared_ptr<const CudnnApi>& candidate) -> std::string {
    // Some of its engines open these by name. Where they lie in a folder that the loader does not
    // search (a Python package, a Toolkit of one's own), they are met already open.
    Nvrtc();
    CublasLtLibrary();
    return attempt ? attempt(candidate) : "";
  };
  return KeepForever(OpenLibraryTable<CudnnApi>(
      {"cuDNN", "WEFT_CUDNN", "cuDNN 9"}, {library + ".9", library},
      [](const CudnnApi&) { return kServesBest; }, open));
}

const CudnnApi& CudnnLibrary() {
  static const CudnnApi& api = OpenCudnn();
  return api;
}

}  // namespace weft::cuda
