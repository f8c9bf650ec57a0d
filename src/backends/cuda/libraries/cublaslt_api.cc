/// cublaslt_api.cc: finds and opens the cuBLASLt that serves the driver.
#include "cublaslt_api.h"

namespace weft::cuda {

std::string CublasLtApi::Flaw() const {
  return GetVersion() >= 120000 ? "" : fmt::format("is of version {}", GetVersion());
}

std::shared_ptr<const CublasLtApi> OpenCublasLt(int driver, const TryCublasLt& attempt,
                                                const std::string& library) {
  const auto score = [&](const CublasLtApi& api) {
    return IsForDriver(api.Major(), driver) ? kServesBest : 1;
  };
  return OpenLibraryTable<CublasLtApi>(
      {"cuBLASLt", "WEFT_CUBLASLT", "the CUDA Toolkit's cuBLAS 12 or 13"},
      NamesForDriver(library, driver), score, attempt);
}

std::shared_ptr<const CublasLtApi> CublasLtLibrary() {
  static const auto api = OpenCublasLt(InstalledDriver());
  return api;
}

}  // namespace weft::cuda
