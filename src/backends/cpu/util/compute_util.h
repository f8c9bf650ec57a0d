/// compute_util.h: what the library operators share besides oneDNN.
#pragma once

#include <algorithm>

#include "backends/shared/call_operands.h"
#include "weft/runtime/backend/compute.h"
#include "weft/support/checked.h"

namespace weft::cpu {

/// Every operand that is there and every result is f32.
inline bool AllF32(const ComputeRequest& q) {
  const auto ok = [](DType t) { return t == DType::kF32 || t == DType::kUnknown; };
  return std::all_of(q.output_types.begin(), q.output_types.end(), ok) &&
         std::all_of(q.input_types.begin(), q.input_types.end(), ok);
}

/// A call with nothing to add up: the result, if it has elements at all, is zero.
class ZeroCall final : public LibraryCall {
 public:
  explicit ZeroCall(int64_t floats) : floats_(floats) {}
  void Run(const void* const*, void* const* outputs, void*) const override {
    if (floats_ > 0) std::fill_n(static_cast<float*>(outputs[0]), floats_, 0.f);
  }
  std::string description() const override { return "zeros"; }

 private:
  int64_t floats_;
};

}  // namespace weft::cpu
