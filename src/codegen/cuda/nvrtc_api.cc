/// nvrtc_api.cc: finds and opens NVRTC.
#include "codegen/cuda/nvrtc_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/cuda_library.h"
#include "weft/support/file.h"

namespace weft::cuda {
namespace {

NvrtcApi Open() {
  NvrtcApi api;
  // The versions whose cubins and options we know, newest first; then whatever the development link names.
  std::string reason;
  const SharedLibrary library =
      OpenCudaLibrary("WEFT_NVRTC", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}, &reason);
  if (!library.is_open()) {
    api.error = fmt::format(
        "NVRTC was not found ({}); install the CUDA Toolkit's NVRTC 12 or 13, or name the library "
        "in WEFT_NVRTC",
        reason);
    return api;
  }
  EntryFinder get(library);
  get("nvrtcVersion", &api.version);
  get("nvrtcGetNumSupportedArchs", &api.num_archs);
  get("nvrtcGetSupportedArchs", &api.archs);
  get("nvrtcGetErrorString", &api.error_string);
  get("nvrtcCreateProgram", &api.create);
  get("nvrtcDestroyProgram", &api.destroy);
  get("nvrtcCompileProgram", &api.compile);
  get("nvrtcGetProgramLogSize", &api.log_size);
  get("nvrtcGetProgramLog", &api.log);
  get("nvrtcGetCUBINSize", &api.cubin_size);
  get("nvrtcGetCUBIN", &api.cubin);
  get("nvrtcGetPTXSize", &api.ptx_size);
  get("nvrtcGetPTX", &api.ptx);
  int count = 0;
  if (get.missing().empty() && api.version(&api.major, &api.minor) == 0) {
    // NVRTC opens its other half by name alone. Where both lie in a folder that the loader does not search (a Python
    // package, a bundle), it is met already open.
    const std::string beside =
        DirectoryOf(LibraryPathOf(reinterpret_cast<const void*>(api.version)));
    dlopen(fmt::format("{}/libnvrtc-builtins.so.{}.{}", beside, api.major, api.minor).c_str(),
           RTLD_NOW | RTLD_LOCAL);
  }
  if (!get.missing().empty()) {
    api.error = fmt::format("{} lacks {}: a version before 12?", library.path(), get.missing());
  } else if (api.version(&api.major, &api.minor) != 0 || api.num_archs(&count) != 0) {
    api.error = fmt::format("{} does not tell its version", library.path());
  } else {
    api.supported.resize(size_t(std::max(count, 0)));
    if (count > 0 && api.archs(api.supported.data()) != 0) api.supported.clear();
  }
  return api;
}

}  // namespace

const NvrtcApi& Nvrtc() {
  // Never closed: its threads and caches outlive any scope of ours.
  static const NvrtcApi* const api = new NvrtcApi(Open());
  return *api;
}

}  // namespace weft::cuda
