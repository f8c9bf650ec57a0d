/// rows_product.h: a product that loops of ours compute, dense rows by a packed constant, with the
/// epilogue behind it.
#pragma once

#ifdef WEFT_HAVE_ONEDNN

#include <functional>
#include <string>

#include "backends/cpu/onednn/onednn_adapter.h"
#include "backends/cpu/onednn/post_ops.h"

namespace weft::cpu {

struct RowsProduct {
  /// y = x matrix + row + addend; `row` and `addend` may be null, and y may be `addend`.
  using Run = std::function<void(const float* x, const float* row, const float* addend, float* y,
                                 float* scratch)>;
  Run run;
  Buffer x;
  Buffer row;  ///< empty: none
  Desc y;
  int64_t scratch_floats = 0;
  const void* packed = nullptr;  ///< what is kept packed, for the account of it
  int64_t packed_bytes = 0;
};

/// Where sums of a result `y` of these extents are made. Not where it goes, when an operand that is
/// still needed may lie there: `later`, the addend of steps that follow, or a row as long as the
/// whole result.
Buffer PlaceOfSums(Recipe* r, const Desc& extents, const Buffer& row, const Buffer& y,
                   const Buffer& later);

/// Adds the product and its epilogue to `r`; what it did of the latter. `before`: steps on the sums
/// in front of the epilogue; null: none.
std::string AddRowsProduct(Recipe* r, const RowsProduct& p, const PostOps& post,
                           const std::function<void(const Buffer&)>& before = nullptr);

}  // namespace weft::cpu

#endif  // WEFT_HAVE_ONEDNN
