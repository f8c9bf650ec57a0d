/// max_unpool.cc: MaxUnpool in f32: zeros, then one write an element, in order, so that of several
/// writes to one place the last stays.
///
/// Indices count in the extents that MaxPool had seen; the result may be larger (or smaller) than
/// those and then holds them at its origin. An index outside is not written.
#include <algorithm>

#include "backends/cpu/util/compute_util.h"
#include "backends/cpu/util/half_call.h"
#include "weft/core/op/node_attrs.h"
#include "weft/core/op/op.h"

namespace weft::cpu {
namespace {

class MaxUnpoolCall final : public LibraryCall {
 public:
  MaxUnpoolCall(int64_t count, std::vector<int64_t> counted, std::vector<int64_t> result)
      : count_(count), counted_(std::move(counted)), result_(std::move(result)) {}

  void Run(const void* const* inputs, void* const* outputs, void*) const override {
    const auto* x = static_cast<const float*>(inputs[0]);
    const auto* index = static_cast<const int64_t*>(inputs[1]);
    auto* y = static_cast<float*>(outputs[0]);
    std::fill_n(y, CheckedProduct(result_), 0.f);
    const int64_t limit = CheckedProduct(counted_);
    const bool same = counted_ == result_;
    for (int64_t i = 0; i < count_; ++i) {
      if (index[i] < 0 || index[i] >= limit) continue;
      const int64_t at = same ? index[i] : Moved(index[i]);
      if (at >= 0) y[at] = x[i];
    }
  }
  std::string description() const override { return "max unpool"; }

 private:
  /// The place in the result of flat position i of the extents counted in; -1 where it has none.
  int64_t Moved(int64_t i) const {
    int64_t at = 0, step = 1;
    for (size_t k = counted_.size(); k-- > 0;) {
      const int64_t p = i % counted_[k];
      if (p >= result_[k]) return -1;
      i /= counted_[k];
      at += p * step;
      step *= result_[k];
    }
    return at;
  }
  int64_t count_;
  std::vector<int64_t> counted_, result_;
};

std::unique_ptr<LibraryCall> PrepareMaxUnpool(const ComputeRequest& q) {
  const std::vector<int64_t>&x = q.input_dims[0], &y = q.output_dims[0];
  if (q.input_types[0] != DType::kF32 || q.input_types[1] != DType::kI64) return nullptr;
  const std::vector<int64_t> kernel = IntsAttr(q.node, "kernel_shape");
  std::vector<int64_t> strides = IntsAttr(q.node, "strides"), pads = IntsAttr(q.node, "pads");
  const size_t rank = kernel.size();
  if (strides.empty()) strides.assign(rank, 1);
  if (pads.empty()) pads.assign(2 * rank, 0);
  if (x.size() != rank + 2 || y.size() != x.size() || q.input_dims[1] != x ||
      strides.size() != rank || pads.size() != 2 * rank)
    return nullptr;
  std::vector<int64_t> counted{x[0], x[1]};
  for (size_t k = 0; k < rank; ++k) {
    counted.push_back((x[k + 2] - 1) * strides[k] - pads[k] - pads[k + rank] + kernel[k]);
    if (counted.back() < 0) return nullptr;
  }
  return std::make_unique<MaxUnpoolCall>(CheckedProduct(x), std::move(counted), y);
}

WEFT_REGISTER_OP(MaxUnpool).set_attr<FCompute>("FCompute.cpu", WithHalves(PrepareMaxUnpool));

}  // namespace
}  // namespace weft::cpu
