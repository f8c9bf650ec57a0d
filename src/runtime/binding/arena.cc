/// arena.cc: see arena.h.
#include "arena.h"

#include <algorithm>

#include "weft/core/plan/offset_planner.h"
#include "weft/support/checked.h"

namespace weft {
namespace {
constexpr int64_t kAlign = 64;
}

ArenaLayout LayArena(const std::vector<Storage>& storages, const std::vector<int64_t>& bytes) {
  ArenaLayout out;
  std::vector<PlanItem> items, exact;
  std::vector<size_t> which;
  out.offsets.assign(storages.size(), -1);
  for (size_t s = 0; s < storages.size(); ++s) {
    const Storage& block = storages[s];
    if (block.kind != StorageKind::kArena) continue;
    items.push_back({std::max<int64_t>(CheckedRoundUp(bytes[s], kAlign), kAlign), block.begin,
                     block.end, kAlign});
    exact.push_back({bytes[s], block.begin, block.end, 1});
    which.push_back(s);
  }
  out.live_bytes = PeakLive(exact);
  const Plan plan = PlanOffsets(items);
  VerifyPlan(items, plan);
  for (size_t i = 0; i < which.size(); ++i) out.offsets[which[i]] = plan.offsets[i];
  out.arena_bytes = plan.arena_bytes;
  return out;
}

}  // namespace weft
