/// register.cc: what the module libweft_cuda.so offers: the backend "cuda", and kernels
/// compiled by NVRTC to a cubin for "cuda:sm_XY", which needs no GPU. The device is number 0,
/// or that of WEFT_CUDA_DEVICE.
#include <cstdlib>
#include <optional>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/report.h"
#include "codegen/cuda/nvrtc/nvrtc.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// Architecture when the target names none: Hopper.
constexpr int kDefaultArchitecture = 90;

std::shared_ptr<KernelCompiler> MakeCompiler(const std::string& target) {
  int sm = kDefaultArchitecture;
  if (const size_t colon = target.find(':'); colon != std::string::npos) {
    const std::string arch = target.substr(colon + 1);
    const std::optional<int64_t> number =
        StartsWith(arch, "sm_") ? TryParseInt64(arch.substr(3)) : std::nullopt;
    WEFT_CHECK(number && *number >= 50 && *number < 1000, kUsage,
               "target '{}': expected cuda:sm_XY, for example cuda:sm_90", target);
    sm = int(*number);
  }
  std::string why;
  WEFT_CHECK(NvrtcAvailable(&why), kUnsupported, "NVRTC is not available: {}", why);
  return MakeNvrtcCompiler(sm);
}

int Ordinal() {
  int ordinal = 0;
  if (const char* text = std::getenv("WEFT_CUDA_DEVICE")) {
    const std::optional<int64_t> number = TryParseInt64(text);
    WEFT_CHECK(number && *number >= 0 && *number < 1024, kUsage,
               "WEFT_CUDA_DEVICE: expected the number of a device, got '{}'", text);
    ordinal = int(*number);
  }
  return ordinal;
}

std::shared_ptr<Backend> MakeBackend() {
  const std::shared_ptr<cuda::Device> device = cuda::Device::Open(Ordinal(), cuda::Driver());
  return cuda::MakeCudaBackend(device, cuda::OpenLibraries(device));
}

std::vector<ReportRow> Report() {
  int ordinal = 0;
  try {
    ordinal = Ordinal();
  } catch (const Error&) {
    // Told where the backend is asked for.
  }
  std::vector<ReportRow> rows = cuda::ReportDevices(*cuda::Driver());
  for (ReportRow& r : cuda::ReportLibraries(*cuda::Driver(), ordinal)) rows.push_back(std::move(r));
  return rows;
}

[[maybe_unused]] const bool registered =
    (RegisterKernelCompiler("cuda", MakeCompiler), RegisterBackend("cuda", MakeBackend),
     RegisterBackendReport("cuda", Report), true);

}  // namespace
}  // namespace weft
