/// nvrtc_api.cc: finds and opens NVRTC.
#include "codegen/cuda/nvrtc_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace weft::cuda {
namespace {

std::vector<std::string> Candidates() {
  if (const char* file = std::getenv("WEFT_NVRTC")) return {file};
  // The versions whose cubins and options we know, newest first; then whatever the development link
  // names.
  const char* const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  std::vector<std::string> files(std::begin(names), std::end(names));
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* root = std::getenv(variable);
    if (root == nullptr) continue;
    for (const char* name : names) files.push_back(fmt::format("{}/lib64/{}", root, name));
  }
  for (const char* name : names) files.push_back(fmt::format("/usr/local/cuda/lib64/{}", name));
  return files;
}

template <class F>
void Get(void* library, const char* name, F* function, std::string* missing) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  if (*function == nullptr && missing->empty()) *missing = name;
}

NvrtcApi Open() {
  NvrtcApi api;
  void* library = nullptr;
  std::string opened, reason;
  for (const std::string& file : Candidates()) {
    library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    opened = file;
    if (library != nullptr) break;
    if (reason.empty()) reason = dlerror();
  }
  if (library == nullptr) {
    api.error = fmt::format(
        "NVRTC was not found ({}); install the CUDA Toolkit's NVRTC 12 or 13, or name the library "
        "in "
        "WEFT_NVRTC",
        reason);
    return api;
  }
  std::string missing;
  Get(library, "nvrtcVersion", &api.version, &missing);
  Get(library, "nvrtcGetNumSupportedArchs", &api.num_archs, &missing);
  Get(library, "nvrtcGetSupportedArchs", &api.archs, &missing);
  Get(library, "nvrtcGetErrorString", &api.error_string, &missing);
  Get(library, "nvrtcCreateProgram", &api.create, &missing);
  Get(library, "nvrtcDestroyProgram", &api.destroy, &missing);
  Get(library, "nvrtcCompileProgram", &api.compile, &missing);
  Get(library, "nvrtcGetProgramLogSize", &api.log_size, &missing);
  Get(library, "nvrtcGetProgramLog", &api.log, &missing);
  Get(library, "nvrtcGetCUBINSize", &api.cubin_size, &missing);
  Get(library, "nvrtcGetCUBIN", &api.cubin, &missing);
  int count = 0;
  if (!missing.empty()) {
    api.error = fmt::format("{} lacks {}: a version before 12?", opened, missing);
  } else if (api.version(&api.major, &api.minor) != 0 || api.num_archs(&count) != 0) {
    api.error = fmt::format("{} does not tell its version", opened);
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
