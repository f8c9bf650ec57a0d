/// cudnn_api.cc: finds and opens cuDNN.
#include "backends/cuda/cudnn_api.h"

#include <fmt/format.h>

#include "backends/cuda/cublaslt_api.h"
#include "codegen/cuda/cuda_library.h"
#include "codegen/cuda/nvrtc_api.h"

namespace weft::cuda {
namespace {

CudnnApi Open() {
  CudnnApi api;
  std::string reason;
  const SharedLibrary library =
      OpenCudaLibrary("WEFT_CUDNN", {"libcudnn.so.9", "libcudnn.so"}, &reason);
  if (!library.is_open()) {
    api.error = fmt::format(
        "cuDNN was not found ({}); install cuDNN 9, or name the library in WEFT_CUDNN", reason);
    return api;
  }
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
    api.error = fmt::format("cuDNN lacks {}: a version before 9?", get.missing());
  else if (api.version() < kFirst)
    api.error = fmt::format("cuDNN is of version {}, Weft needs 9", api.version());
  if (api.ok()) {
    // Some of its engines open these by name. Where they lie in a folder that the loader does not search (a Python package,
    // a Toolkit of one's own), they are met already open.
    Nvrtc();
    CublasLtLibrary();
  }
  return api;
}

}  // namespace

const CudnnApi& CudnnLibrary() {
  static const CudnnApi* const api = new CudnnApi(Open());
  return *api;
}

}  // namespace weft::cuda
