/// register.cc: what the module libweft_cuda.so offers: the backend "cuda", and kernels compiled by
/// NVRTC to a cubin for "cuda:sm_XY", which needs no GPU. The device is that of the backend's name
/// ("cuda:1"), else that of WEFT_CUDA_DEVICE, else number 0.
#include <cstdlib>
#include <optional>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/report.h"
#include "codegen/cuda/nvrtc/nvrtc.h"
#include "weft/core/module/backend_module.h"
#include "weft/runtime/backend/backend.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace weft {
namespace {

/// "cuda:sm_90"; the traits have one for "cuda" alone.
std::shared_ptr<KernelCompiler> MakeCompiler(const Target& target) {
  const std::string arch = target.arch().empty() ? target.traits().default_arch : target.arch();
  const std::optional<int64_t> sm =
      StartsWith(arch, "sm_") ? TryParseInt64(arch.substr(3)) : std::nullopt;
  WEFT_CHECK(sm && *sm >= 50 && *sm < 1000, kUsage,
             "target '{}': expected cuda:sm_XY, for example cuda:sm_90", target.name());
  std::string why;
  WEFT_CHECK(NvrtcAvailable(&why), kUnsupported, "NVRTC is not available: {}", why);
  return MakeNvrtcCompiler(int(*sm));
}

/// Of the environment's device.
int64_t DefaultOrdinal() {
  if (const char* text = std::getenv("WEFT_CUDA_DEVICE")) {
    const std::optional<int64_t> number = TryParseInt64(text);
    WEFT_CHECK(number && *number >= 0 && *number < 1024, kUsage,
               "WEFT_CUDA_DEVICE: expected the number of a device, got '{}'", text);
    return *number;
  }
  return 0;
}

std::shared_ptr<Backend> MakeBackend(const BackendParameters& parameters) {
  cuda::CudaBackendOptions options;
  options.fusion = !parameters.Has("no-fusion");
  const int64_t ordinal = parameters.number() ? *parameters.number() : DefaultOrdinal();
  WEFT_CHECK(ordinal < 1024, kUsage, "there is no device {}", ordinal);
  const std::shared_ptr<cuda::Device> device = cuda::Device::Open(int(ordinal), cuda::Driver());
  return cuda::MakeCudaBackend(device, cuda::OpenLibraries(device), options);
}

std::vector<ReportRow> ReportRows() {
  int ordinal = 0;
  try {
    ordinal = int(DefaultOrdinal());
  } catch (const Error&) {
    // Told where the backend is asked for.
  }
  std::vector<ReportRow> rows = cuda::ReportDevices(*cuda::Driver());
  for (ReportRow& r : cuda::ReportLibraries(*cuda::Driver(), ordinal)) rows.push_back(std::move(r));
  return rows;
}

TargetTraits Traits() {
  TargetTraits t;
  t.one_loop_copies = true;
  t.device_memory = true;
  t.default_arch = "sm_90";  // Hopper
  return t;
}

[[maybe_unused]] const bool registered = RegisterBackendModule(
    BackendModule("cuda")
        .set_traits(Traits())
        .set_parameters({{"no-fusion", "one operator a kernel"},
                         {"DEVICE", "the number of a device", BackendParameter::Kind::kNumber}})
        .set_backend(MakeBackend)
        .set_compiler(MakeCompiler)
        .set_report(ReportRows));

}  // namespace
}  // namespace weft
