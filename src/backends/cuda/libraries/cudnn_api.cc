/// cudnn_api.cc: finds and opens cuDNN.
#include "cudnn_api.h"

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "codegen/cuda/nvrtc/cuda_library.h"
#include "codegen/cuda/nvrtc/nvrtc_api.h"
#include "cublaslt_api.h"

namespace weft::cuda {
namespace {

CudnnApi ReadCudnn(const SharedLibrary& library) {
  CudnnApi api;
  EntryFinder get(library);
  get("cudnnGetVersion", &api.version);
  get("cudnnCreate", &api.create);
  get("cudnnDestroy", &api.destroy);
  get("cudnnSetStream", &api.set_stream);
  get("cudnnGetErrorString", &api.error_string);
  get("cudnnGetLastErrorString", &api.last_error_string);
  get("cudnnBackendCreateDescriptor", &api.make);
  get("cudnnBackendDestroyDescriptor", &api.drop);
  get("cudnnBackendSetAttribute", &api.set);
  get("cudnnBackendGetAttribute", &api.get);
  get("cudnnBackendFinalize", &api.finalize);
  get("cudnnBackendExecute", &api.execute);
  constexpr size_t kFirst = 90000;  // 9.0.0
  if (!get.missing().empty())
    api.error = fmt::format("{} lacks {}: a version before 9?", library.path(), get.missing());
  else if (api.version() < kFirst)
    api.error = fmt::format("{} is of version {}, Weft needs 9", library.path(), api.version());
  return api;
}

/// Never given back: threads and caches of the library outlive any scope of ours.
const CudnnApi& Keep(std::unique_ptr<const CudnnApi> api) {
  static std::mutex mutex;
  static auto* const all = new std::vector<std::unique_ptr<const CudnnApi>>;
  std::lock_guard lock(mutex);
  all->push_back(std::move(api));
  return *all->back();
}

}  // namespace

const CudnnApi& OpenCudnn(const TryCudnn& attempt, const std::string& library) {
  const CudnnApi* found = nullptr;
  std::string reason;
  const auto judge = [&](const SharedLibrary& candidate, std::string* why) {
    auto api = std::make_unique<CudnnApi>(ReadCudnn(candidate));
    *why = api->error;
    if (!api->ok()) return 0;
    // Some of its engines open these by name. Where they lie in a folder that the loader does not
    // search (a Python package, a Toolkit of one's own), they are met already open.
    Nvrtc();
    CublasLtLibrary();
    if (attempt) *why = attempt(*api);
    if (!why->empty()) {
      *why = candidate.path() + ": " + *why;
      return 0;
    }
    found = &Keep(std::move(api));
    return kServesBest;
  };
  OpenCudaLibrary("WEFT_CUDNN", {library + ".9", library}, &reason, judge);
  if (found) return *found;
  auto none = std::make_unique<CudnnApi>();
  none->error = fmt::format(
      "cuDNN was not found ({}); install cuDNN 9, or name the library in WEFT_CUDNN", reason);
  return Keep(std::move(none));
}

const CudnnApi& CudnnLibrary() {
  static const CudnnApi& api = OpenCudnn();
  return api;
}

}  // namespace weft::cuda
