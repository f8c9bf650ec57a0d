/// cublaslt_api.cc: finds and opens cuBLASLt.
#include "backends/cuda/cublaslt_api.h"

#include <fmt/format.h>

#include "codegen/cuda/cuda_library.h"

namespace weft::cuda {
namespace {

CublasLtApi Open() {
  CublasLtApi api;
  std::string reason;
  const SharedLibrary library = OpenCudaLibrary(
      "WEFT_CUBLASLT", {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}, &reason);
  if (!library.is_open()) {
    api.error = fmt::format(
        "cuBLASLt was not found ({}); install the CUDA Toolkit's cuBLAS 12 or 13, or name the "
        "library in WEFT_CUBLASLT",
        reason);
    return api;
  }
  EntryFinder get(library);
#define WEFT_ENTRY(name, symbol, result, arguments) get(symbol, &api.name);
  WEFT_CUBLASLT_ENTRIES(WEFT_ENTRY)
#undef WEFT_ENTRY
  if (!get.missing().empty())
    api.error = fmt::format("{} lacks {}: a version before 12?", library.path(), get.missing());
  else if (api.GetVersion() < 120000)
    api.error = fmt::format("{} is of version {}: 12 or 13 is wanted", library.path(),
                            api.GetVersion() / 10000);
  return api;
}

}  // namespace

std::shared_ptr<const CublasLtApi> CublasLtLibrary() {
  static const auto api = std::make_shared<const CublasLtApi>(Open());
  return api;
}

}  // namespace weft::cuda
