/// verify_memory.cc: VerifyMemory. Replays the order, the storage plan and offsets at the sizes
/// that plans are made for, and at smaller and larger ones (core/plan/verify_memory.h).
///   needs      order, storage
///   provides   -
///   preserves  everything
///   never      changes anything, or asks a planner whether it is right; a wrong plan is an
///              internal error
///   cost       n log n in entries
#include "weft/core/plan/verify_memory.h"

#include <algorithm>

#include "memory_problem_of.h"
#include "weft/core/pass/pass.h"
#include "weft/core/plan/offset_planner.h"

namespace weft {
namespace {

Graph VerifyMemoryPass(Graph g, PassContext& ctx) {
  const Order& order = g.GetAttr<Order>("order");
  const StoragePlan& plan = g.GetAttr<StoragePlan>("storage");
  for (const int64_t assumed : {kAssumedExtent, int64_t{1}, 4 * kAssumedExtent}) {
    SizeGuess guess(g, assumed);
    PlacedStorage placed;
    std::vector<PlanItem> items;
    for (const Storage& s : plan.storages) {
      const bool in_arena = s.kind == StorageKind::kArena;
      placed.bytes.push_back(in_arena ? guess.Of(s.bytes) : 0);
      items.push_back({placed.bytes.back(), s.begin, s.end, kArenaAlign});
    }
    const Plan offsets = PlanOffsets(items);
    placed.offsets = offsets.offsets;
    placed.arena_bytes = offsets.arena_bytes;
    placed.live_bytes = PeakLive(items);
    VerifyMemory(g, order, plan, placed);
    if (assumed == kAssumedExtent) ctx.Count("live", placed.live_bytes);
  }
  return g;
}

WEFT_REGISTER_PASS(VerifyMemory)
    .describe("replays the order of steps over the bytes of the arena")
    .set_body(VerifyMemoryPass)
    .enters_bodies()
    .set_change_graph(false)
    .depend_graph_attr("order")
    .depend_graph_attr("storage")
    .preserve_all()
    .statistic("live", "bytes alive at most, at the sizes that plans are made for");

}  // namespace
}  // namespace weft
