/// call_operands.h: which operands a library call has, and how they lie; for every backend.
#pragma once

#include <vector>

#include "weft/core/plan/layout.h"
#include "weft/runtime/backend/compute.h"

namespace weft {

inline bool HasInput(const ComputeRequest& q, size_t i) {
  return i < q.input_types.size() && q.input_types[i] != DType::kUnknown;
}
/// Of tensor `i`; plain where the request says nothing.
inline Layout LayoutOf(const std::vector<Layout>& given, size_t i) {
  return i < given.size() ? given[i] : Layout::kPlain;
}

}  // namespace weft
