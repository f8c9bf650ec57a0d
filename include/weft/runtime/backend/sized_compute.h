/// sized_compute.h: `FSizedCompute`, how a library runs an operator whose data tell the sizes of
/// its results (NonZero): between two regions, on host memory.
///
/// Registered per library under the key "FSizedCompute.<library>", as FCompute is:
///   WEFT_REGISTER_OP(NonZero).set_attr<FSizedCompute>("FSizedCompute.cpu", RunNonZero);
/// Such a routine counts first, then asks for the memory of its results, which their owner keeps
/// from run to run.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/tensor/tensor.h"

namespace weft {

/// Memory of one run.
class SizedResults {
 public:
  virtual ~SizedResults() = default;
  /// Where result `k` is written, of these extents; not cleared. Once for each result.
  virtual void* Place(size_t k, DType dtype, std::vector<int64_t> dims) = 0;
  /// 64-byte aligned, not cleared, until the routine returns; once.
  virtual void* Scratch(int64_t bytes) = 0;
};

/// Writes all results. `inputs[i]` null for an absent one; of the types that inference has checked,
/// but of any rank where a rank is known only in the run. False: it does not take these operands,
/// has placed nothing, and the Evaluator runs the node. Throws what the operator documents.
using FSizedCompute = std::function<bool(const NodePtr&, const std::vector<TensorPtr>& inputs,
                                         int threads, SizedResults* results)>;

}  // namespace weft
