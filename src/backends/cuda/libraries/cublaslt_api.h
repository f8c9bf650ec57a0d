/// cublaslt_api.h: the entry points of cuBLASLt that we use, as a table of function
/// pointers; private to src/backends/cuda.
///
/// The library is opened when the first product is asked for. The prototypes and constants below
/// are those of CUDA 12 and 13, which agree in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backends/cuda/driver/driver_api.h"
#include "codegen/cuda/nvrtc/library_table.h"

namespace weft::cuda {

namespace lt {

using Status = int;  // cublasStatus_t
constexpr Status kSuccess = 0, kInvalidValue = 7, kNotSupported = 15;

struct Handle;  // cublasLtContext, and so on: opaque
struct Desc;
struct Layout;
struct Preference;

// cudaDataType_t
constexpr int kF32 = 0, kF64 = 1, kF16 = 2, kBF16 = 14;
// cublasComputeType_t
constexpr int kCompute32F = 68, kCompute64F = 70, kComputeTF32 = 77;
// cublasLtMatmulDescAttributes_t: int32, int32, uint32, a pointer
constexpr int kTransA = 3, kTransB = 4, kEpilogue = 7, kBiasPointer = 8;
// cublasOperation_t
constexpr int32_t kTransposed = 1;
// cublasLtEpilogue_t
constexpr uint32_t kDefault = 1, kRelu = 2, kBias = 4, kGelu = 32;
// cublasLtMatrixLayoutAttribute_t: int32, int64
constexpr int kBatchCount = 5, kBatchStep = 6;
// cublasLtMatmulPreferenceAttributes_t: uint64, uint32, and four of uint32
constexpr int kWorkspaceBytes = 1, kReductions = 3, kAlignmentA = 5, kAlignmentB = 6,
              kAlignmentC = 7, kAlignmentD = 8;
// cublasLtReductionScheme_t: parts of a sum are added in the type of the sums, in an order that
// is always the same
constexpr uint32_t kReduceInComputeType = 2;

/// cublasLtMatmulAlgo_t
struct Algo {
  uint64_t data[8] = {};
};
/// cublasLtMatmulHeuristicResult_t
struct Found {
  Algo algo;
  size_t workspace_bytes = 0;
  Status state = kSuccess;
  float waves = 0;
  int reserved[4] = {};
};
static_assert(sizeof(Algo) == 64 && sizeof(Found) == 96);

}  // namespace lt

/// name, symbol, result, arguments
#define WEFT_CUBLASLT_ENTRIES(X)                                                                   \
  X(GetVersion, "cublasLtGetVersion", size_t, ())                                                  \
  X(StatusString, "cublasLtGetStatusString", const char*, (lt::Status status))                     \
  X(Create, "cublasLtCreate", lt::Status, (lt::Handle * *handle))                                  \
  X(Destroy, "cublasLtDestroy", lt::Status, (lt::Handle * handle))                                 \
  X(DescCreate, "cublasLtMatmulDescCreate", lt::Status,                                            \
    (lt::Desc * *desc, int compute_type, int scale_type))                                          \
  X(DescDestroy, "cublasLtMatmulDescDestroy", lt::Status, (lt::Desc * desc))                       \
  X(DescSet, "cublasLtMatmulDescSetAttribute", lt::Status,                                         \
    (lt::Desc * desc, int attribute, const void* value, size_t bytes))                             \
  X(LayoutCreate, "cublasLtMatrixLayoutCreate", lt::Status,                                        \
    (lt::Layout * *layout, int type, uint64_t rows, uint64_t columns, int64_t leading))            \
  X(LayoutDestroy, "cublasLtMatrixLayoutDestroy", lt::Status, (lt::Layout * layout))               \
  X(LayoutSet, "cublasLtMatrixLayoutSetAttribute", lt::Status,                                     \
    (lt::Layout * layout, int attribute, const void* value, size_t bytes))                         \
  X(PreferenceCreate, "cublasLtMatmulPreferenceCreate", lt::Status,                                \
    (lt::Preference * *preference))                                                                \
  X(PreferenceDestroy, "cublasLtMatmulPreferenceDestroy", lt::Status,                              \
    (lt::Preference * preference))                                                                 \
  X(PreferenceSet, "cublasLtMatmulPreferenceSetAttribute", lt::Status,                             \
    (lt::Preference * preference, int attribute, const void* value, size_t bytes))                 \
  X(AlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic", lt::Status,                                \
    (lt::Handle * handle, lt::Desc * desc, lt::Layout * a, lt::Layout * b, lt::Layout * c,         \
     lt::Layout * d, lt::Preference * preference, int most, lt::Found* found, int* count))         \
  X(AlgoCheck, "cublasLtMatmulAlgoCheck", lt::Status,                                              \
    (lt::Handle * handle, lt::Desc * desc, lt::Layout * a, lt::Layout * b, lt::Layout * c,         \
     lt::Layout * d, const lt::Algo* algo, lt::Found* found))                                      \
  X(Matmul, "cublasLtMatmul", lt::Status,                                                          \
    (lt::Handle * handle, lt::Desc * desc, const void* alpha, const void* a, lt::Layout* a_layout, \
     const void* b, lt::Layout* b_layout, const void* beta, const void* c, lt::Layout* c_layout,   \
     void* d, lt::Layout* d_layout, const lt::Algo* algo, void* workspace, size_t workspace_bytes, \
     StreamHandle* stream))

struct CublasLtApi : LibraryTable {
  WEFT_LIBRARY_ENTRIES(WEFT_CUBLASLT_ENTRIES)
  int Major() const { return int(GetVersion() / 10000); }
  std::string Flaw() const;
};

using TryCublasLt = TryLibrary<CublasLtApi>;
/// The cuBLASLt of this machine that a driver of that version (0: not known) takes rather than
/// others, of those with which `attempt` succeeds. `WEFT_CUBLASLT` names a file to use instead
/// of the usual places.
std::shared_ptr<const CublasLtApi> OpenCublasLt(int driver, const TryCublasLt& attempt = {},
                                                const std::string& library = "libcublasLt.so");
/// That for this machine's driver, opened on first use and tried nowhere. Thread-safe.
std::shared_ptr<const CublasLtApi> CublasLtLibrary();

}  // namespace weft::cuda
