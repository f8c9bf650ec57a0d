/// cudnn_graph.h: one convolution as cuDNN's graph of operations, and the engine that runs
/// it. Private to src/backends/cuda.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cudnn_api.h"
#include "libraries.h"

namespace weft::cuda {

/// Throws kDevice with what cuDNN says, unless `r` is success. `what`: what was tried.
void CheckCudnn(const CudnnApi& api, CudnnResult r, const char* what);

/// A descriptor of cuDNN, given back with its owner. Throws kDevice where a call fails.
class CudnnObject {
 public:
  CudnnObject() = default;
  CudnnObject(const CudnnApi& api, cudnn::DescriptorType type);
  ~CudnnObject();
  CudnnObject(CudnnObject&& o) noexcept
      : api_(std::exchange(o.api_, nullptr)), raw_(std::exchange(o.raw_, nullptr)) {}
  CudnnObject& operator=(CudnnObject&& o) noexcept {
    std::swap(api_, o.api_);
    std::swap(raw_, o.raw_);
    return *this;
  }
  CudnnDescriptor raw() const { return raw_; }

  void Set(cudnn::Attribute a, cudnn::AttributeType type, int64_t count, const void* elements);
  template <class T>
  void Set(cudnn::Attribute a, cudnn::AttributeType type, const T& value) {
    Set(a, type, 1, &value);
  }
  void Set(cudnn::Attribute a, const std::vector<int64_t>& values) {
    Set(a, cudnn::kInt64Type, int64_t(values.size()), values.data());
  }
  void Set(cudnn::Attribute a, const CudnnObject& o) { Set(a, cudnn::kDescriptorType, o.raw_); }
  void Finalize();
  /// False where cuDNN has no way to do it.
  bool TryFinalize();

 private:
  const CudnnApi* api_ = nullptr;
  CudnnDescriptor raw_ = nullptr;
};

/// Whose engines are asked for: a device by its handle, or, where there is none,
/// by a description (kDeviceProperties).
struct CudnnPlace {
  CudnnHandle* handle = nullptr;
  const CudnnObject* described = nullptr;
};

/// The operands of a convolution have these numbers in its graph, in the order of ConvSpec's.
constexpr int64_t kFirstOperand = 1;
constexpr size_t kConvOperands = 5;

struct CudnnEngine {
  std::vector<CudnnObject> parts;  ///< what `plan` refers to
  CudnnObject plan;
  int64_t workspace_bytes = 0, number = 0;
  CudnnEngine() = default;
  ~CudnnEngine() {
    plan = CudnnObject();  // before its parts
    while (!parts.empty()) parts.pop_back();
  }
  CudnnEngine(CudnnEngine&&) = default;
  CudnnEngine& operator=(CudnnEngine&&) = default;
};

/// Nothing for dtypes that cuDNN is not asked for.
std::optional<cudnn::DataType> CudnnTypeOf(DType t);

/// The first engine, in the order of cuDNN's heuristics, that computes what the spec says as
/// exactly as it says, in a workspace of `most_workspace` bytes; one that gives the same
/// result each time, where there is one. Nothing, and why, where there is none. Throws
/// kDevice where cuDNN fails.
std::optional<CudnnEngine> FindEngine(const CudnnApi& api, const CudnnPlace& place,
                                      const ConvSpec& spec, int64_t most_workspace,
                                      std::string* why);

}  // namespace weft::cuda
