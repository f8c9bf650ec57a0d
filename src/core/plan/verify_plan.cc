/// verify_plan.cc: checks a memory plan without sharing a line with the planner.
///
/// A sweep over time keeps the ranges that are alive in a map by offset. As long as they are
/// disjoint, a new one can collide only with its two neighbours, so the check costs n log n.
#include <algorithm>
#include <map>

#include "weft/core/plan/offset_planner.h"
#include "weft/support/check.h"

namespace weft {

void VerifyPlan(const std::vector<PlanItem>& items, const Plan& plan) {
  WEFT_ICHECK(plan.offsets.size() == items.size(), "{} offsets for {} items", plan.offsets.size(),
              items.size());
  struct Event {
    int step;
    bool begins;
    size_t item;
    bool operator<(const Event& o) const {
      if (step != o.step) return step < o.step;
      return begins != o.begins ? !begins : item < o.item;
    }
  };
  std::vector<Event> events;
  for (size_t i = 0; i < items.size(); ++i) {
    const PlanItem& item = items[i];
    const int64_t offset = plan.offsets[i];
    WEFT_ICHECK(item.size >= 0 && item.begin <= item.end && item.alignment > 0,
                "item {} is malformed", i);
    if (item.size == 0 || item.begin == item.end) continue;
    WEFT_ICHECK(
        offset >= 0 && item.size <= plan.arena_bytes && offset <= plan.arena_bytes - item.size,
        "item {} at offset {} with {} bytes leaves the arena of {} bytes", i, offset, item.size,
        plan.arena_bytes);
    WEFT_ICHECK(offset % item.alignment == 0, "item {} at offset {} is not aligned to {}", i,
                offset, item.alignment);
    events.push_back({item.begin, true, i});
    events.push_back({item.end, false, i});
  }
  std::sort(events.begin(), events.end());
  std::map<int64_t, size_t> alive;  // item by offset
  const auto check = [&](size_t low, size_t high) {
    WEFT_ICHECK(plan.offsets[low] + items[low].size <= plan.offsets[high],
                "items {} and {} collide: bytes [{}, {}) in steps [{}, {}) and bytes [{}, {}) in "
                "steps [{}, {})",
                low, high, plan.offsets[low], plan.offsets[low] + items[low].size, items[low].begin,
                items[low].end, plan.offsets[high], plan.offsets[high] + items[high].size,
                items[high].begin, items[high].end);
  };
  for (const Event& e : events) {
    const int64_t offset = plan.offsets[e.item];
    if (!e.begins) {
      alive.erase(offset);
      continue;
    }
    const auto next = alive.lower_bound(offset);
    if (next != alive.end()) check(e.item, next->second);
    if (next != alive.begin()) check(std::prev(next)->second, e.item);
    alive.emplace(offset, e.item);
  }
}

}  // namespace weft
