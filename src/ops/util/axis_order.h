/// axis_order.h: attributes that give the axes of an operand or of a result an order, as
/// perm of Transpose does.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/support/check.h"

namespace weft::ops {

/// perm as indices; absent: none moves.
inline std::vector<int> AxisOrder(const NodePtr& n, const Ints& perm, int rank, const char* what) {
  std::vector<int> out(static_cast<size_t>(rank));
  std::iota(out.begin(), out.end(), 0);
  if (perm.empty()) return out;
  WEFT_CHECK(int(perm.size()) == rank, kShapeMismatch, "{}: {} has {} axes, the tensor has rank {}",
             n->Describe(), what, perm.size(), rank);
  std::vector<int64_t> sorted(perm.begin(), perm.end());
  std::sort(sorted.begin(), sorted.end());
  for (int k = 0; k < rank; ++k) {
    WEFT_CHECK(sorted[size_t(k)] == k, kBadAttribute, "{}: {} {} is not a permutation",
               n->Describe(), what, fmt::join(perm, ", "));
    out[size_t(k)] = int(perm[size_t(k)]);
  }
  return out;
}

inline Shape Permuted(const Shape& s, const std::vector<int>& perm) {
  std::vector<SymInt> dims;
  for (int p : perm) dims.push_back(s[p]);
  return Shape(std::move(dims));
}

}  // namespace weft::ops
