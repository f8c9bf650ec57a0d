/// arena.cc: see arena.h, weft/runtime/program/predict_arena.h.
#include "arena.h"

#include <algorithm>

#include "program_impl.h"
#include "weft/core/graph/effects.h"
#include "weft/core/plan/offset_planner.h"
#include "weft/runtime/program/predict_arena.h"
#include "weft/support/check.h"
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

int64_t PredictArena(Graph graph, const CompileOptions& options, const SymBindings& bindings) {
  const std::string name = options.backend.empty() ? kDefaultBackend : options.backend;
  const std::shared_ptr<Backend> backend = BackendFor(name, options.threads);
  CheckEffects(graph);
  MarkState(graph);
  const Planned planned = PlanGraph(std::move(graph), options, *backend, false);
  WEFT_CHECK(planned.why_regions.empty(), kUnsupported, "{}", planned.why_regions);
  const StoragePlan& plan = planned.graph.GetAttr<StoragePlan>("storage");
  std::vector<int64_t> bytes;
  for (const Storage& s : plan.storages) {
    const bool placed = s.kind == StorageKind::kArena;
    WEFT_CHECK(!placed || s.bytes.known(), kUnsupported,
               "a buffer has a size that is not known before the run");
    bytes.push_back(placed ? Evaluate(s.bytes, bindings) : 0);
  }
  return LayArena(plan.storages, bytes).arena_bytes;
}

}  // namespace weft
