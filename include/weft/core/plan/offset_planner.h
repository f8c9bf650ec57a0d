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
};

/// Offsets such that no two items that live at the same step overlap. The best of several greedy
/// plans, each near n log n; the packing problem itself is NP-hard. Deterministic. Throws
/// kOverflow, and InternalError for a bad item.
WEFT_API Plan PlanOffsets(const std::vector<PlanItem>& items);

/// Checks a plan by itself, whoever made it: throws InternalError naming the item out of place or
/// the two that collide.
WEFT_API void VerifyPlan(const std::vector<PlanItem>& items, const Plan& plan);

/// Most bytes alive at one step: no plan needs less.
WEFT_API int64_t PeakLive(const std::vector<PlanItem>& items);

}  // namespace weft
