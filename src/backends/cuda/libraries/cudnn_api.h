/// cudnn_api.h: the entry points of cuDNN 9 that Weft calls, opened at run time, and the numbers
/// that its graphs of operations are described by; private to src/backends/cuda.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backends/cuda/driver/driver_api.h"
#include "codegen/cuda/nvrtc/library_table.h"

namespace weft::cuda {

struct CudnnHandle;             // cudnnContext: opaque
using CudnnDescriptor = void*;  // cudnnBackendDescriptor_t
using CudnnResult = int;        // cudnnStatus_t; 0: success

/// name, symbol, result, arguments
#define WEFT_CUDNN_ENTRIES(X)                                                                   \
  X(version, "cudnnGetVersion", size_t, ())                                                     \
  X(create, "cudnnCreate", CudnnResult, (CudnnHandle * *handle))                                \
  X(destroy, "cudnnDestroy", CudnnResult, (CudnnHandle * handle))                               \
  X(set_stream, "cudnnSetStream", CudnnResult, (CudnnHandle * handle, StreamHandle * stream))   \
  X(error_string, "cudnnGetErrorString", const char*, (CudnnResult result))                     \
  X(last_error_string, "cudnnGetLastErrorString", void, (char* text, size_t bytes))             \
  X(make, "cudnnBackendCreateDescriptor", CudnnResult, (int type, CudnnDescriptor* descriptor)) \
  X(drop, "cudnnBackendDestroyDescriptor", CudnnResult, (CudnnDescriptor descriptor))           \
  X(set, "cudnnBackendSetAttribute", CudnnResult,                                               \
    (CudnnDescriptor descriptor, int attribute, int type, int64_t count, const void* elements)) \
  X(get, "cudnnBackendGetAttribute", CudnnResult,                                               \
    (CudnnDescriptor descriptor, int attribute, int type, int64_t room, int64_t* count,         \
     void* elements))                                                                           \
  X(finalize, "cudnnBackendFinalize", CudnnResult, (CudnnDescriptor descriptor))                \
  X(execute, "cudnnBackendExecute", CudnnResult,                                                \
    (CudnnHandle * handle, CudnnDescriptor plan, CudnnDescriptor operands))

struct CudnnApi : LibraryTable {
  WEFT_LIBRARY_ENTRIES(WEFT_CUDNN_ENTRIES)
  std::string Flaw() const;
};

using TryCudnn = TryLibrary<CudnnApi>;
/// The first cuDNN of this machine with which `attempt` succeeds, for ever. `WEFT_CUDNN` names a
/// file to use instead of the usual places.
const CudnnApi& OpenCudnn(const TryCudnn& attempt = {}, const std::string& library = "libcudnn.so");
/// Opened on first use and tried nowhere. Thread-safe.
const CudnnApi& CudnnLibrary();

namespace cudnn {

enum DescriptorType : int {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristic = 4,
  kExecutionPlan = 5,
  kForwardOperation = 10,
  kGradWeightOperation = 11,
  kGradDataOperation = 12,
  kPointwiseOperation = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kDeviceProperties = 38,
};

enum Attribute : int {
  kPointwiseMode = 0,
  kPointwisePrecision = 1,
  kConvComputeType = 100,
  kConvMode = 101,
  kConvDilations = 102,
  kConvStrides = 103,
  kConvPostPaddings = 104,
  kConvPrePaddings = 105,
  kConvSpatialDims = 106,
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kHeuristicDevice = 204,
  kConfigEngine = 300,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kPlanDevice = 407,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConv = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kGradDataAlpha = 706,
  kGradDataBeta = 707,
  kGradDataConv = 708,
  kGradDataW = 709,
  kGradDataDx = 710,
  kGradDataDy = 711,
  kGradWeightAlpha = 712,
  kGradWeightBeta = 713,
  kGradWeightConv = 714,
  kGradWeightDw = 715,
  kGradWeightX = 716,
  kGradWeightDy = 717,
  kPointwiseOperationPointwise = 750,
  kPointwiseOperationX = 751,
  kPointwiseOperationB = 752,
  kPointwiseOperationY = 753,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorDataType = 901,
  kTensorDims = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineGlobalIndex = 1301,
  kEngineNumericalNote = 1303,
  kDeviceText = 2702,
};

enum AttributeType : int {
  kHandleType = 0,
  kDataTypeType = 1,
  kBooleanType = 2,
  kInt64Type = 3,
  kFloatType = 4,
  kPointerType = 6,
  kConvModeType = 7,
  kHeuristicModeType = 8,
  kNumericalNoteType = 11,
  kPointwiseModeType = 14,
  kDescriptorType = 15,
  kCharType = 24,
};

enum DataType : int { kFloat = 0, kHalf = 2, kBfloat16 = 9 };
enum ConvolutionMode : int { kCrossCorrelation = 1 };
enum PointwiseMode : int { kAdd = 0 };
enum HeuristicMode : int { kFallback = 2, kModeA = 3 };
enum NumericalNote : int {
  kTensorCore = 0,
  kDownConvertInputs = 1,
  kReducedPrecisionReduction = 2,
  kFft = 3,
  kNondeterministic = 4,
  kWinograd = 5,
  kNumNotes = 32,  ///< room for those of later versions
};

}  // namespace cudnn
}  // namespace weft::cuda
