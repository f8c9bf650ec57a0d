/// host_util.h: what operators that run as plain C++ (FHostEval) share.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shape_util.h"
#include "weft/core/op/host_eval.h"
#include "weft/core/tensor/tensor.h"
#include "weft/support/check.h"

namespace weft::ops {

using Tensors = std::vector<TensorPtr>;
using Dims = std::vector<int64_t>;

inline std::shared_ptr<Tensor> NewTensor(DType dtype, Dims dims) {
  return std::make_shared<Tensor>(dtype, std::move(dims));
}
/// Product of dims[begin, end).
inline int64_t Span(const Dims& dims, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t i = begin; i < end; ++i) n *= dims[i];
  return n;
}
/// Input i of a host evaluation; null where it is absent.
inline TensorPtr InputAt(const Tensors& in, size_t i) { return i < in.size() ? in[i] : nullptr; }

/// Copies `count` elements; both tensors have one dtype of whole bytes, or strings.
void CopyElements(const Tensor& from, int64_t from_at, Tensor* to, int64_t to_at, int64_t count);

/// Extents of a and b broadcast against each other.
Dims BroadcastDims(const Tensor& a, const Tensor& b);
/// Offset in a tensor of `dims` of the element that broadcasting reads at linear
/// position i of `out`.
int64_t BroadcastOffset(int64_t i, const Dims& out, const Dims& dims);

/// `x` as dtype `to`, for every pair that ONNX allows; cast_tensor.cc.
TensorPtr CastTensor(const Tensor& x, DType to, bool saturate = true,
                     const std::string& round_mode = "up");
/// The same of one element, of ValueTypeOf(to); throws kUnsupported where a double, or an integer
/// that f32 does not hold, would be rounded twice.
Expr CastElement(const NodePtr& n, const Expr& x, DType to, bool saturate = true,
                 const std::string& round_mode = "up");

}  // namespace weft::ops
