/// nvrtc_api.cc: finds and opens the NVRTC that serves the driver and the architecture.
#include "nvrtc_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "cuda_library.h"
#include "weft/support/file.h"

namespace weft::cuda {
namespace {

/// The table of one file.
NvrtcApi ReadNvrtc(const SharedLibrary& library) {
  NvrtcApi api;
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
  if (!get.missing().empty()) {
    api.error = fmt::format("{} lacks {}: a version before 12?", library.path(), get.missing());
  } else if (api.version(&api.major, &api.minor) != 0 || api.num_archs(&count) != 0) {
    api.error = fmt::format("{} does not report its version", library.path());
  } else if (api.major < 12) {
    api.error =
        fmt::format("{} is NVRTC {}.{}, Weft needs 12 or 13", library.path(), api.major, api.minor);
  } else {
    api.supported.resize(size_t(std::max(count, 0)));
    if (count > 0 && api.archs(api.supported.data()) != 0) api.supported.clear();
  }
  return api;
}

/// As JudgeLibrary. That the driver takes the code counts more than that the architecture is known.
int Judge(const NvrtcApi& api, const NvrtcWish& wish) {
  if (!api.ok()) return 0;
  const std::vector<int>& known = api.supported;
  const bool exact = wish.sm == 0 || known.empty() ||
                     std::find(known.begin(), known.end(), wish.sm) != known.end();
  const bool any =
      exact || std::any_of(known.begin(), known.end(), [&](int k) { return k < wish.sm; });
  const bool taken = IsForDriver(api.major, wish.driver);
  if (exact && taken) return kServesBest;
  return any ? 2 + 2 * int(taken) + int(exact) : 1;
}

}  // namespace

NvrtcApi OpenNvrtc(const NvrtcWish& wish) {
  NvrtcApi best;
  int best_score = 0;
  std::string reason;
  const SharedLibrary library =
      OpenCudaLibrary("WEFT_NVRTC", NamesForDriver(wish.library, wish.driver), &reason,
                      [&](const SharedLibrary& candidate, std::string* why) {
                        NvrtcApi api = ReadNvrtc(candidate);
                        *why = api.error;
                        const int score = Judge(api, wish);
                        if (score > best_score) best = std::move(api);
                        best_score = std::max(best_score, score);
                        return score;
                      });
  if (!library.is_open()) {
    best.error = fmt::format(
        "NVRTC was not found ({}); install the CUDA Toolkit's NVRTC 12 or 13, or name the library "
        "in WEFT_NVRTC",
        reason);
    return best;
  }
  // NVRTC opens its other half by name alone. Where both lie in a folder that the loader does not
  // search (a Python package, a bundle), it is met already open.
  const std::string beside =
      DirectoryOf(LibraryPathOf(reinterpret_cast<const void*>(best.version)));
  dlopen(fmt::format("{}/libnvrtc-builtins.so.{}.{}", beside, best.major, best.minor).c_str(),
         RTLD_NOW | RTLD_LOCAL);
  return best;
}

const NvrtcApi& Nvrtc(int sm) {
  // Never closed: its threads and caches outlive any scope of ours.
  static std::mutex mutex;
  static auto* const opened = new std::map<int, NvrtcApi>;
  std::lock_guard lock(mutex);
  const auto known = opened->find(sm);
  if (known != opened->end()) return known->second;
  return opened->emplace(sm, OpenNvrtc({InstalledDriver(), sm})).first->second;
}

}  // namespace weft::cuda
