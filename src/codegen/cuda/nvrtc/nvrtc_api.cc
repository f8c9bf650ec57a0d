/// nvrtc_api.cc: finds and opens the NVRTC that serves the driver and the architecture.
#include "nvrtc_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "weft/support/file.h"

namespace weft::cuda {
namespace {

/// As JudgeLibrary. That the driver takes the code counts more than that the architecture is known.
int Judge(const NvrtcApi& api, const NvrtcWish& wish) {
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

std::string NvrtcApi::Flaw() {
  int count = 0;
  if (version(&major, &minor) != 0 || num_archs(&count) != 0) return "does not report its version";
  if (major < 12) return fmt::format("is of version {}.{}", major, minor);
  supported.resize(size_t(std::max(count, 0)));
  if (count > 0 && archs(supported.data()) != 0) supported.clear();
  return {};
}

NvrtcApi OpenNvrtc(const NvrtcWish& wish) {
  const NvrtcApi best =
      *OpenLibraryTable<NvrtcApi>({"NVRTC", "WEFT_NVRTC", "the CUDA Toolkit's NVRTC 12 or 13"},
                                  NamesForDriver(wish.library, wish.driver),
                                  [&](const NvrtcApi& api) { return Judge(api, wish); });
  if (!best.ok()) return best;
  // NVRTC opens its other half by name alone. Where both lie in a folder that the loader does not
  // search (a Python package, a bundle), it is met already open.
  const std::string beside =
      DirectoryOf(LibraryPathOf(reinterpret_cast<const void*>(best.version)));
  SharedLibrary::TryOpen(
      fmt::format("{}/libnvrtc-builtins.so.{}.{}", beside, best.major, best.minor))
      .KeepOpen();
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
