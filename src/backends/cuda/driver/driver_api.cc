/// driver_api.cc: finds and opens the driver.
#include "driver_api.h"

#include <fmt/format.h>

#include <cstdlib>

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
  std::string reason;
  SharedLibrary library = SharedLibrary::TryOpen(file, &reason);
  library.KeepOpen();
  if (!library.is_open()) {
    api.error = fmt::format("no driver ({})", reason);
    return api;
  }
  // Entries are asked for by version; this one a driver since CUDA 12.0 has.
  constexpr const char* kGet = "cuGetProcAddress_v2";
  using Get = DriverResult(const char*, void**, int, uint64_t, int*);
  Get* const get = library.FindFunction<Get>(kGet);
  const auto find = [&](const char* symbol) {
    void* address = nullptr;
    int status = 0;
    return get(symbol, &address, kVersion, 0, &status) == 0 ? address : nullptr;
  };
  if (const char* missing = get ? FillEntries(&api, find) : kGet) {
    // What a driver of any version has.
    int version = 0;
    const auto ask = library.FindFunction<DriverResult(int*)>("cuDriverGetVersion");
    if (ask && ask(&version) != 0) version = 0;
    const std::string found = version > 0 ? " (" + VersionOf(version) + ")" : "";
    api.error = fmt::format("{}{} lacks {}: install a driver for {} or newer", file, found, missing,
                            VersionOf(kVersion));
    return api;
  }
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
  // Never closed: its threads outlive any scope of ours.
  static const auto* const own =
      new std::shared_ptr<const DriverApi>(std::make_shared<DriverApi>(OpenDriver(DriverFile())));
  return *own;
}

}  // namespace weft::cuda
