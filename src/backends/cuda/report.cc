/// report.cc: see report.h. No context is made, so asking costs a device nothing.
#include "backends/cuda/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "backends/cuda/libraries/cublaslt_api.h"
#include "backends/cuda/libraries/cudnn_api.h"
#include "codegen/cuda/nvrtc/nvrtc.h"
#include "codegen/cuda/nvrtc/nvrtc_api.h"
#include "weft/support/error.h"
#include "weft/support/shared_library.h"
#include "weft/support/strings.h"

namespace weft::cuda {
namespace {

// CUdevice_attribute
constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76;

std::string ResultText(const DriverApi& api, DriverResult r) {
  const char* text = nullptr;
  if (api.GetErrorString(r, &text) != 0 || !text) text = "unknown error";
  return fmt::format("{} (CUresult {})", text, r);
}

ReportRow ReportDevice(const DriverApi& api, int ordinal) {
  ReportRow row{fmt::format("device {}", ordinal), "", true};
  const auto good = [&](DriverResult r) {
    if (r != 0 && row.ok) {
      row.ok = false;
      row.found = ResultText(api, r);
    }
    return row.ok;
  };
  int device = 0, major = 0, minor = 0, multiprocessors = 0;
  char name[256] = {};
  size_t bytes = 0;
  if (good(api.DeviceGet(&device, ordinal)) &&
      good(api.DeviceGetName(name, sizeof name - 1, device)) &&
      good(api.DeviceGetAttribute(&major, kMajor, device)) &&
      good(api.DeviceGetAttribute(&minor, kMinor, device)) &&
      good(api.DeviceGetAttribute(&multiprocessors, kMultiprocessors, device)) &&
      good(api.DeviceTotalMem(&bytes, device)))
    row.found = fmt::format("{}, sm_{}{}, {}, {} multiprocessors", name, major, minor,
                            FormatBytes(int64_t(bytes)), multiprocessors);
  return row;
}

/// Compute capability of the device that programs use; 0 where there is none.
int Architecture(const DriverApi& api, int ordinal) {
  int device = 0, major = 0, minor = 0;
  if (!api.ok() || api.DeviceGet(&device, ordinal) != 0 ||
      api.DeviceGetAttribute(&major, kMajor, device) != 0 ||
      api.DeviceGetAttribute(&minor, kMinor, device) != 0)
    return 0;
  return major * 10 + minor;
}

/// One that compiles nothing here is none: its other half may be missing, or of another version.
std::string WhyNvrtcFails(const NvrtcApi& api, int architecture) {
  try {
    std::string error;
    NvrtcCompiler(architecture, 1, api)
        .CompileSource("extern \"C\" __global__ void f(float* y) { y[threadIdx.x] = 1; }", &error);
    return error;
  } catch (const Error& e) {
    return e.message();
  }
}

ReportRow ReportNvrtc(int architecture) {
  const NvrtcApi& api = Nvrtc(architecture);
  if (!api.ok()) return {"NVRTC", api.error, false};
  const int newest = api.supported.empty()
                         ? NvrtcCompiler::kLeastArchitecture
                         : *std::max_element(api.supported.begin(), api.supported.end());
  const std::string why = WhyNvrtcFails(api, architecture > 0 ? architecture : newest);
  if (!why.empty())
    return {"NVRTC",
            fmt::format("{}.{}, {} compiles nothing: {}", api.major, api.minor,
                        LibraryPathOf(reinterpret_cast<const void*>(api.version)), why),
            false};
  std::string found = fmt::format("{}.{}", api.major, api.minor);
  if (!api.supported.empty())
    found += fmt::format(", sm_{} to sm_{}",
                         *std::min_element(api.supported.begin(), api.supported.end()),
                         *std::max_element(api.supported.begin(), api.supported.end()));
  return {"NVRTC", found + ", " + LibraryPathOf(reinterpret_cast<const void*>(api.version)), true};
}

/// 130100 is 13.1.0 of cuBLASLt, 91301 is 9.13.1 of cuDNN.
ReportRow ReportLibrary(const char* what, const std::string& error, size_t (*version)()) {
  if (!error.empty()) return {what, error, false};
  const size_t n = version();
  return {what,
          fmt::format("{}.{}.{}, {}", n / 10000, n % 10000 / 100, n % 100,
                      LibraryPathOf(reinterpret_cast<const void*>(version))),
          true};
}

}  // namespace

std::vector<ReportRow> ReportDevices(const DriverApi& api) {
  if (!api.ok()) return {{"driver", api.error, false}};
  int version = 0, count = 0;
  if (const DriverResult r = api.DriverGetVersion(&version))
    return {{"driver", ResultText(api, r), false}};
  std::vector<ReportRow> rows{
      {"driver", fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10), true}};
  if (const DriverResult r = api.DeviceGetCount(&count)) {
    rows.push_back({"devices", ResultText(api, r), false});
    return rows;
  }
  if (count == 0) rows.push_back({"devices", "the driver has none", false});
  for (int i = 0; i < count; ++i) rows.push_back(ReportDevice(api, i));
  return rows;
}

std::vector<ReportRow> ReportLibraries(const DriverApi& driver, int ordinal) {
  const std::shared_ptr<const CublasLtApi> products = CublasLtLibrary();
  const CudnnApi& convolutions = CudnnLibrary();
  return {ReportNvrtc(Architecture(driver, ordinal)),
          ReportLibrary("cuBLASLt", products->error, products->GetVersion),
          ReportLibrary("cuDNN", convolutions.error, convolutions.version)};
}

}  // namespace weft::cuda
