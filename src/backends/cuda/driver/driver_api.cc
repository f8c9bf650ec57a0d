/// driver_api.cc: finds and opens the driver.
#include "driver_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <type_traits>

namespace weft::cuda {
namespace {

/// What we were written for: entries of later versions may take other arguments.
constexpr int kVersion = 12000;

constexpr DriverResult kNoDevice = 100;

std::string VersionOf(int version) {
  return fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

DriverApi OpenDriver(const std::string& file) {
  DriverApi api;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    api.error = fmt::format("no driver ({})", dlerror());
    return api;
  }
  // What a driver of any version has.
  int version = 0;
  const auto ask = reinterpret_cast<DriverResult (*)(int*)>(dlsym(library, "cuDriverGetVersion"));
  if (ask && ask(&version) != 0) version = 0;
  const auto lacks = [&](const char* symbol) {
    if (!api.error.empty()) return;
    const std::string found = version > 0 ? " (" + VersionOf(version) + ")" : "";
    api.error = fmt::format("{}{} lacks {}: install a driver for {} or newer", file, found, symbol,
                            VersionOf(kVersion));
  };
  DriverResult (*get)(const char*, void**, int, uint64_t, int*) = nullptr;
  get = reinterpret_cast<decltype(get)>(dlsym(library, "cuGetProcAddress_v2"));
  if (!get) {
    lacks("cuGetProcAddress_v2");
    return api;
  }
  const auto fill = [&](const char* symbol, auto* entry) {
    void* address = nullptr;
    int status = 0;
    if (get(symbol, &address, kVersion, 0, &status) != 0 || !address) return lacks(symbol);
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
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (r == kNoDevice && visible)
      api.error += fmt::format(" (CUDA_VISIBLE_DEVICES is '{}')", visible);
  }
  return api;
}

std::shared_ptr<const DriverApi> Driver() {
  static const char* const named = std::getenv("WEFT_LIBCUDA");
  // Never closed: its threads outlive any scope of ours.
  static const auto* const own = new std::shared_ptr<const DriverApi>(
      std::make_shared<DriverApi>(OpenDriver(named ? named : "libcuda.so.1")));
  return *own;
}

}  // namespace weft::cuda
