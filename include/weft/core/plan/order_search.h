/// order_search.h: orders of steps that keep few bytes alive. Used by the pass Schedule, by
/// Checkpoint, and by `weft plan`.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/core/plan/memory_problem.h"

namespace weft {

/// How much an order is worth.
struct OrderEffort {
  /// Looks at an operand or a result, a few nanoseconds each: counted, so that an order does not
  /// depend on the machine. 0: what a compilation spends, some milliseconds up to a hundred nodes,
  /// less than a second for ten thousand, and nearly nothing where the given order reaches the
  /// lower bound.
  int64_t work = 0;
  /// Bytes below which nobody gains: an order that needs no more is not improved.
  int64_t enough = 0;
};

struct OrderPlan {
  MemoryOrder order;        ///< every node once
  int64_t peak = 0;         ///< UseOf(order).peak
  int64_t lower_bound = 0;  ///< proven: no order without recomputation needs less
  /// Other orders that were met, better ones first, none as good as `order`, all better than the
  /// given one.
  std::vector<MemoryOrder> others;
  bool optimal() const { return peak == lower_bound; }
};

/// The order with the lowest peak that a portfolio of searches meets; the given one (the nodes as
/// they stand) unless another is better. Deterministic. Throws kOverflow and kCancelled.
/// `problem` is one that CheckProblem takes. Source: src/core/plan/order_search.cc.
WEFT_API OrderPlan SearchOrder(const MemoryProblem& problem, const OrderEffort& effort = {});

}  // namespace weft
