/// tensor_data.h: TensorProto to Tensor.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "external_data.h"
#include "proto.h"
#include "weft/core/tensor/tensor.h"
#include "weft/support/limits.h"

namespace weft::onnx_import {

/// Where a tensor's external bytes are.
struct ExternalLocation {
  std::string path;
  int64_t offset = 0, length = -1;
};
/// Throws kInvalidModel where the entries do not parse, or give one key two values.
ExternalLocation LocationOf(const pb::TensorProto& t);
/// A key of external data that the standard knows.
bool IsExternalKey(std::string_view key);
inline bool IsExternal(const pb::TensorProto& t) {
  return t.data_location() == pb::TensorProto::EXTERNAL;
}

/// Dtype, extents and byte count of a tensor, all checked: known dtype, extents >= 0, no overflow,
/// limits.tensor_bytes, and a payload of exactly the size that dtype and extents ask for. Strings
/// count 0 bytes. Looks into no file.
struct TensorFacts {
  DType dtype = DType::kUnknown;
  std::vector<int64_t> dims;
  int64_t count = 0, bytes = 0;
};
TensorFacts CheckTensor(const pb::TensorProto& t, const Limits& limits);
/// The same for a sparse tensor; `dense` facts are those of the tensor it stands for.
TensorFacts CheckSparse(const pb::SparseTensorProto& t, const Limits& limits);

using MakeTensor = std::function<TensorPtr(DType dtype, const std::vector<int64_t>& dims)>;

/// Makes tensors from checked protos, each once. Raw payloads are moved out of the proto, not
/// copied.
class TensorReader {
 public:
  /// `make_missing` may be null: a tensor whose file cannot be opened is an error.
  TensorReader(const Limits& limits, ExternalFiles* files, const MakeTensor& make_missing = {})
      : limits_(limits), files_(files), make_missing_(make_missing) {}
  /// `keep` false: the proto dies before this reader, nothing is remembered under its address.
  TensorPtr Read(pb::TensorProto* t, bool keep = true);
  TensorPtr ReadSparse(pb::SparseTensorProto* t, bool keep = true);
  /// Throws where the external bytes of `t` cannot be read.
  void CheckExternal(const pb::TensorProto& t);

 private:
  TensorPtr Make(pb::TensorProto* t);
  TensorPtr MakeSparse(pb::SparseTensorProto* t);
  /// The bytes of `t`, which may be made up, are in no file; other faults are thrown.
  bool IsMissing(const pb::TensorProto& t, const TensorFacts& f);
  const Limits& limits_;
  ExternalFiles* files_;
  MakeTensor make_missing_;
  std::unordered_map<const void*, TensorPtr> made_;
};

}  // namespace weft::onnx_import
