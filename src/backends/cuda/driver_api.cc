/// driver_api.cc: finds and opens the driver.
#include "backends/cuda/driver_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <type_traits>

namespace weft::cuda {
namespace {

/// What we were written for: entries of later versions may take other arguments.
constexpr int kVersion = 12000;

DriverApi Open() {
  DriverApi api;
  const char* named = std::getenv("WEFT_LIBCUDA");
  const char* file = named ? named : "libcuda.so.1";
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    api.error = fmt::format("no driver ({})", dlerror());
    return api;
  }
  DriverResult (*get)(const char*, void**, int, uint64_t, int*) = nullptr;
  get = reinterpret_cast<decltype(get)>(dlsym(library, "cuGetProcAddress_v2"));
  if (!get) {
    api.error = fmt::format("{} is older than CUDA 12: install a newer driver", file);
    return api;
  }
  const auto fill = [&](const char* symbol, auto* entry) {
    void* address = nullptr;
    int status = 0;
    if (get(symbol, &address, kVersion, 0, &status) != 0 || !address) {
      if (api.error.empty())
        api.error = fmt::format("{} lacks {}: install a newer driver", file, symbol);
      return;
    }
    *entry = reinterpret_cast<std::remove_pointer_t<decltype(entry)>>(address);
  };
#define WEFT_ENTRY(name, symbol, arguments) fill(symbol, &api.name);
  WEFT_CUDA_DRIVER_ENTRIES(WEFT_ENTRY)
#undef WEFT_ENTRY
  if (!api.ok()) return api;
  if (const DriverResult r = api.Init(0)) {
    const char* text = nullptr;
    api.error = fmt::format("the driver does not start: {}",
                            api.GetErrorString(r, &text) == 0 && text ? text : "unknown error");
  }
  return api;
}

}  // namespace

std::shared_ptr<const DriverApi> Driver() {
  // Never closed: its threads outlive any scope of ours.
  static const auto* const own =
      new std::shared_ptr<const DriverApi>(std::make_shared<DriverApi>(Open()));
  return *own;
}

}  // namespace weft::cuda
