/// cublaslt_api.cc: finds and opens the cuBLASLt that serves the driver.
#include "cublaslt_api.h"

#include <fmt/format.h>

#include <utility>

#include "codegen/cuda/nvrtc/cuda_library.h"

namespace weft::cuda {
namespace {

CublasLtApi ReadCublasLt(const SharedLibrary& library) {
  CublasLtApi api;
  EntryFinder get(library);
#define WEFT_ENTRY(name, symbol, result, arguments) get(symbol, &api.name);
  WEFT_CUBLASLT_ENTRIES(WEFT_ENTRY)
#undef WEFT_ENTRY
  if (!get.missing().empty())
    api.error = fmt::format("{} lacks {}: a version before 12?", library.path(), get.missing());
  else if (api.GetVersion() < 120000)
    api.error = fmt::format("{} is of version {}: 12 or 13 is required", library.path(),
                            api.GetVersion() / 10000);
  return api;
}

}  // namespace

std::shared_ptr<const CublasLtApi> OpenCublasLt(int driver, const TryCublasLt& attempt,
                                                const std::string& library) {
  std::shared_ptr<const CublasLtApi> best;
  std::string reason;
  const auto judge = [&](const SharedLibrary& candidate, std::string* why) {
    auto api = std::make_shared<const CublasLtApi>(ReadCublasLt(candidate));
    *why = api->error;
    const bool taken = api->ok() && IsForDriver(int(api->GetVersion() / 10000), driver);
    if (!api->ok() || (best && !taken)) return 0;
    if (attempt) *why = attempt(api);
    if (!why->empty()) {
      *why = candidate.path() + ": " + *why;
      return 0;
    }
    best = std::move(api);
    return taken ? kServesBest : 1;
  };
  OpenCudaLibrary("WEFT_CUBLASLT", NamesForDriver(library, driver), &reason, judge);
  if (best) return best;
  CublasLtApi none;
  none.error = fmt::format(
      "cuBLASLt was not found ({}); install the CUDA Toolkit's cuBLAS 12 or 13, or name the "
      "library in WEFT_CUBLASLT",
      reason);
  return std::make_shared<const CublasLtApi>(std::move(none));
}

std::shared_ptr<const CublasLtApi> CublasLtLibrary() {
  static const auto api = OpenCublasLt(InstalledDriver());
  return api;
}

}  // namespace weft::cuda
