/// NvInfer.h: a stand-in for TensorRT's header of that name, where its SDK is not installed: the
/// classes and methods of the documented interface of TensorRT 10 that the plugin calls, with
/// their names, arguments and numbers, as plain interfaces. Source written for one compiles for the
/// other; objects of one are not those of the other, so a plugin compiled here opens
/// fake_tensorrt.cc alone.
#ifndef WEFT_STAND_IN_NV_INFER_H_
#define WEFT_STAND_IN_NV_INFER_H_

#include <cstddef>
#include <cstdint>

#define WEFT_TENSORRT_STAND_IN 1

#define NV_TENSORRT_MAJOR 10
#define NV_TENSORRT_MINOR 13
#define NV_TENSORRT_PATCH 0
#define NV_TENSORRT_VERSION \
  (NV_TENSORRT_MAJOR * 10000L + NV_TENSORRT_MINOR * 100L + NV_TENSORRT_PATCH * 1L)

typedef struct CUstream_st* cudaStream_t;

namespace nvinfer1 {

using AsciiChar = char;

enum class DataType : int32_t {
  kFLOAT = 0,
  kHALF = 1,
  kINT8 = 2,
  kINT32 = 3,
  kBOOL = 4,
  kUINT8 = 5,
  kFP8 = 6,
  kBF16 = 7,
  kINT64 = 8,
  kINT4 = 9
};

class Dims64 {
 public:
  static constexpr int32_t MAX_DIMS{8};
  int32_t nbDims;
  int64_t d[MAX_DIMS];
};
using Dims = Dims64;

enum class TensorFormat : int32_t { kLINEAR = 0 };
using TensorFormats = uint32_t;
enum class TensorLocation : int32_t { kDEVICE = 0, kHOST = 1 };
enum class TensorIOMode : int32_t { kNONE = 0, kINPUT = 1, kOUTPUT = 2 };
enum class OptProfileSelector : int32_t { kMIN = 0, kOPT = 1, kMAX = 2 };
enum class NetworkDefinitionCreationFlag : int32_t { kEXPLICIT_BATCH = 0, kSTRONGLY_TYPED = 1 };
using NetworkDefinitionCreationFlags = uint32_t;
enum class BuilderFlag : int32_t { kFP16 = 0, kTF32 = 6, kBF16 = 17 };
enum class MemoryPoolType : int32_t { kWORKSPACE = 0 };

class ILogger {
 public:
  enum class Severity : int32_t {
    kINTERNAL_ERROR = 0,
    kERROR = 1,
    kWARNING = 2,
    kINFO = 3,
    kVERBOSE = 4
  };
  virtual void log(Severity severity, AsciiChar const* msg) noexcept = 0;
  ILogger() = default;
  virtual ~ILogger() = default;
};

class INoCopy {
 protected:
  INoCopy() = default;
  virtual ~INoCopy() = default;
  INoCopy(INoCopy const&) = delete;
  INoCopy& operator=(INoCopy const&) = delete;
};

class IHostMemory : public INoCopy {
 public:
  ~IHostMemory() noexcept override = default;
  virtual void* data() const noexcept = 0;
  virtual std::size_t size() const noexcept = 0;
};

class IProfiler {
 public:
  virtual void reportLayerTime(char const* layerName, float ms) noexcept = 0;
  virtual ~IProfiler() noexcept = default;
};

class ITensor : public INoCopy {
 public:
  virtual char const* getName() const noexcept = 0;
  virtual Dims getDimensions() const noexcept = 0;
  virtual DataType getType() const noexcept = 0;
  virtual void setAllowedFormats(TensorFormats formats) noexcept = 0;
  virtual bool isShapeTensor() const noexcept = 0;
};

class INetworkDefinition : public INoCopy {
 public:
  ~INetworkDefinition() noexcept override = default;
  virtual int32_t getNbInputs() const noexcept = 0;
  virtual ITensor* getInput(int32_t index) const noexcept = 0;
  virtual int32_t getNbOutputs() const noexcept = 0;
  virtual ITensor* getOutput(int32_t index) const noexcept = 0;
};

class IOptimizationProfile : public INoCopy {
 public:
  virtual bool setDimensions(char const* inputName, OptProfileSelector select,
                             Dims const& dims) noexcept = 0;
};

class ITimingCache : public INoCopy {
 public:
  ~ITimingCache() noexcept override = default;
  virtual IHostMemory* serialize() const noexcept = 0;
  virtual bool combine(ITimingCache const& inputCache, bool ignoreMismatch) noexcept = 0;
};

class IBuilderConfig : public INoCopy {
 public:
  ~IBuilderConfig() noexcept override = default;
  virtual void setFlag(BuilderFlag builderFlag) noexcept = 0;
  virtual void clearFlag(BuilderFlag builderFlag) noexcept = 0;
  virtual void setMemoryPoolLimit(MemoryPoolType pool, std::size_t poolSize) noexcept = 0;
  virtual void setBuilderOptimizationLevel(int32_t level) noexcept = 0;
  virtual int32_t addOptimizationProfile(IOptimizationProfile const* profile) noexcept = 0;
  virtual ITimingCache* createTimingCache(void const* blob, std::size_t size) const noexcept = 0;
  virtual bool setTimingCache(ITimingCache const& cache, bool ignoreMismatch) noexcept = 0;
  virtual ITimingCache const* getTimingCache() const noexcept = 0;
};

class IBuilder : public INoCopy {
 public:
  ~IBuilder() noexcept override = default;
  virtual IBuilderConfig* createBuilderConfig() noexcept = 0;
  virtual INetworkDefinition* createNetworkV2(NetworkDefinitionCreationFlags flags) noexcept = 0;
  virtual IOptimizationProfile* createOptimizationProfile() noexcept = 0;
  virtual bool setMaxThreads(int32_t maxThreads) noexcept = 0;
  virtual IHostMemory* buildSerializedNetwork(INetworkDefinition& network,
                                              IBuilderConfig& config) noexcept = 0;
};

class IExecutionContext : public INoCopy {
 public:
  ~IExecutionContext() noexcept override = default;
  virtual bool setInputShape(char const* tensorName, Dims const& dims) noexcept = 0;
  virtual Dims getTensorShape(char const* tensorName) const noexcept = 0;
  virtual bool setTensorAddress(char const* tensorName, void* data) noexcept = 0;
  virtual void setProfiler(IProfiler* profiler) noexcept = 0;
  virtual bool enqueueV3(cudaStream_t stream) noexcept = 0;
};

class ICudaEngine : public INoCopy {
 public:
  ~ICudaEngine() noexcept override = default;
  virtual int32_t getNbIOTensors() const noexcept = 0;
  virtual char const* getIOTensorName(int32_t index) const noexcept = 0;
  virtual TensorIOMode getTensorIOMode(char const* tensorName) const noexcept = 0;
  virtual DataType getTensorDataType(char const* tensorName) const noexcept = 0;
  virtual Dims getTensorShape(char const* tensorName) const noexcept = 0;
  virtual TensorLocation getTensorLocation(char const* tensorName) const noexcept = 0;
  virtual TensorFormat getTensorFormat(char const* tensorName) const noexcept = 0;
  virtual Dims getProfileShape(char const* tensorName, int32_t profileIndex,
                               OptProfileSelector select) const noexcept = 0;
  virtual IHostMemory* serialize() const noexcept = 0;
  virtual IExecutionContext* createExecutionContext() noexcept = 0;
};

class IRuntime : public INoCopy {
 public:
  ~IRuntime() noexcept override = default;
  virtual ICudaEngine* deserializeCudaEngine(void const* blob, std::size_t size) noexcept = 0;
};

}  // namespace nvinfer1

#endif  // WEFT_STAND_IN_NV_INFER_H_
