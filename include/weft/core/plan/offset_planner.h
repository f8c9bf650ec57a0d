/// offset_planner.h: places buffers with known sizes and lifetimes in one arena. Used by the pass
/// PlanMemory and, with the extents of a run, by the runtime.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/support/api.h"

namespace weft {

/// One buffer. It lives in the half-open range of steps [begin, end); one that is empty in time or
/// size takes no room.
struct PlanItem {
  int64_t size = 0;  ///< bytes, >= 0
  int begin = 0, end = 0;
  int64_t alignment = 64;  ///< of its offset, > 0
};

struct Plan {
  std::vector<int64_t> offsets;  ///< one per item; 0 for those that take no room
  int64_t arena_bytes = 0;
  int64_t lower_bound = 0;  ///< bytes; proven: no plan needs less
  bool optimal() const { return arena_bytes == lower_bound; }
};

/// How much a plan is worth.
struct PlanEffort {
  /// Looks at an item or a step, about 1 ns each: counted, so that a plan does not depend on the
  /// machine. 0: what a binding spends, some milliseconds up to a thousand items, and nearly
  /// nothing where a greedy plan reaches the lower bound, as it does for most programs.
  int64_t work = 0;
  /// Whatever fits in it is as good: bytes. 0: the fewest.
  int64_t capacity = 0;
};

/// Offsets such that no two items that live at the same step overlap. The packing problem is
/// NP-hard: the best of several greedy plans, each near n log n, is improved where it is highest,
/// and for up to a thousand items a search finds the fewest bytes, with the work that it is given.
/// Deterministic. Throws kOverflow, kCancelled, and InternalError for a bad item.
/// Source: src/core/plan/offset_planner.cc.
WEFT_API Plan PlanOffsets(const std::vector<PlanItem>& items, const PlanEffort& effort = {});

/// Checks a plan by itself, whoever made it: throws InternalError naming the item out of place or
/// the two that collide.
WEFT_API void VerifyPlan(const std::vector<PlanItem>& items, const Plan& plan);

/// Most bytes alive at one step: no plan needs less.
WEFT_API int64_t PeakLive(const std::vector<PlanItem>& items);

}  // namespace weft
