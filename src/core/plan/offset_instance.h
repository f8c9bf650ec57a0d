/// offset_instance.h: the planning problem as the heuristics of PlanOffsets see it.
/// Private to the core.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "weft/core/plan/offset_planner.h"
#include "weft/support/checked.h"

namespace weft {

inline bool TakesRoom(const PlanItem& i) { return i.size > 0 && i.begin < i.end; }

/// Items that take room, with their steps numbered densely, so that trees over steps are no larger
/// than the items.
struct Instance {
  explicit Instance(const std::vector<PlanItem>& all) : items(all) {
    std::vector<int> steps;
    for (uint32_t i = 0; i < all.size(); ++i) {
      if (!TakesRoom(all[i])) continue;
      live.push_back(i);
      steps.push_back(all[i].begin);
      steps.push_back(all[i].end);
    }
    std::sort(steps.begin(), steps.end());
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    num_steps = uint32_t(steps.size());
    begin.resize(all.size());
    end.resize(all.size());
    const auto rank = [&steps](int s) {
      return uint32_t(std::lower_bound(steps.begin(), steps.end(), s) - steps.begin());
    };
    for (const uint32_t i : live) begin[i] = rank(all[i].begin), end[i] = rank(all[i].end);
  }

  const std::vector<PlanItem>& items;
  std::vector<uint32_t> live;        ///< items that take room
  std::vector<uint32_t> begin, end;  ///< dense steps, by item
  uint32_t num_steps = 0;
};

inline Plan EmptyPlan(const Instance& in) {
  return Plan{std::vector<int64_t>(in.items.size(), 0), 0};
}

inline void PlaceItem(const Instance& in, Plan* plan, uint32_t item, int64_t offset) {
  plan->offsets[item] = offset;
  plan->arena_bytes = std::max(plan->arena_bytes, CheckedAdd(offset, in.items[item].size));
}

/// Numbers that are the same everywhere.
class Draws {
 public:
  /// In [0, n).
  uint32_t Below(size_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return uint32_t((state_ >> 33) % n);
  }

 private:
  uint64_t state_ = 1;
};

/// Plans by filling the lowest valley first (offset_valleys.cc), until one is at most `enough`
/// bytes; the smallest, or `best` where none is smaller.
void FillValleys(const Instance& in, int64_t enough, Plan* best);

}  // namespace weft
