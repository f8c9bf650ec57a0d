/// schedule.cc: Schedule. Fixes the execution order: the topological one with ties by the traversal
/// from the outputs, or that of Checkpoint's plan, unless another keeps fewer bytes alive.
///   needs      shape, dtype
///   provides   order
///   preserves  everything
///   never      moves an effect across another, or chooses an order whose arena is not smaller at
///              the sizes that it plans for (attribute `hint`, core/plan/size_hints.h)
///   cost       linear where the given order reaches the lower bound, or where all of it is small;
///              else counted work (core/plan/order_search.h)
///
/// What the search counts leaves out where variables and results lie; PlanMemory's own plan of the
/// best orders decides.
#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

#include "memory_problem_of.h"
#include "plan_storage.h"
#include "planned_order.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/pass/pass.h"
#include "weft/core/plan/offset_planner.h"
#include "weft/core/plan/order_search.h"
#include "weft/core/plan/scratch.h"

namespace weft {
namespace {

Order OrderOf(const std::vector<NodePtr>& nodes, const MemoryOrder& order) {
  Order out;
  out.nodes.reserve(order.size());
  for (const int k : order) out.nodes.push_back(nodes[size_t(k)]->id());
  return out;
}

/// What symbols without a hint are taken for: an order is searched for the first two of these, and
/// may be worse than the given one at none. Batches are small when networks are large.
constexpr int64_t kSizes[] = {kAssumedExtent, kAssumedExtent / 8, kAssumedExtent * 4};
constexpr size_t kSearched = 2;

/// Bytes of the arena that an order leads to, by size.
struct Arenas {
  std::array<int64_t, std::size(kSizes)> live = {};
  int64_t bytes = 0;  ///< with gaps, at the first size
  int copies = 0;     ///< of contents of variables: time, which no bytes are worth
};

/// Contents that an order has brought apart from the variables that they are of.
int CopiesOf(const Graph& g, const Order& order, const StoragePlan& plan) {
  int copies = 0;
  const auto apart = [&](const NodeEntry& a, const NodeEntry& b) {
    const int *x = plan.of.find(a), *y = plan.of.find(b);
    return x && y && *x != *y;
  };
  for (const NodeId id : order.nodes) {
    const NodePtr n = g.node(id);
    if (IsOp(n, builtin::kAssign)) copies += apart(n->inputs[1], NodeEntry(n));
    if (IsOp(n, builtin::kRead)) copies += apart(n->inputs[0], NodeEntry(n));
    for (const auto& [i, k] : WrittenInputs(n))
      if (k >= 0) copies += apart(n->inputs[size_t(i)], NodeEntry(n, uint32_t(k)));
  }
  return copies;
}

Arenas ArenasOf(const Graph& g, const Order& order) {
  const StoragePlan plan = PlanStorage(g, order);
  const ScratchMap scratch = g.AttrOr<ScratchMap>("scratch");
  Arenas arenas;
  arenas.copies = CopiesOf(g, order, plan);
  for (size_t k = 0; k < std::size(kSizes); ++k) {
    SizeGuess guess(g, kSizes[k]);
    std::vector<PlanItem> items;
    const auto add = [&items](int64_t bytes, int begin, int end) {
      items.push_back(
          {(bytes + kArenaAlign - 1) / kArenaAlign * kArenaAlign, begin, end, kArenaAlign});
    };
    for (const Storage& s : plan.storages)
      if (s.kind == StorageKind::kArena)
        add(std::max<int64_t>(guess.Of(s.bytes), 1), s.begin, s.end);
    for (size_t step = 0; step < order.nodes.size(); ++step)
      if (const int64_t* bytes = scratch.find(order.nodes[step]))
        add(*bytes, int(step), int(step) + 1);
    arenas.live[k] = PeakLive(items);
    if (k == 0) arenas.bytes = PlanOffsets(items).arena_bytes;
  }
  return arenas;
}

/// A gain has to be worth an order that leaves the traversal, whose results are read soon.
bool IsWorthIt(int64_t bytes, int64_t before) { return bytes <= before - before / 100; }

/// Product of the shares that are left at the sizes that orders are searched for; 1: the order is
/// not worth it.
double ShareOf(const Arenas& arenas, const Arenas& before) {
  if (arenas.copies > before.copies) return 1;
  if (!IsWorthIt(arenas.live[0], before.live[0]) || !IsWorthIt(arenas.bytes, before.bytes))
    return 1;
  double share = 1;
  for (size_t k = 0; k < std::size(kSizes); ++k) {
    if (arenas.live[k] > before.live[k]) return 1;
    if (k < kSearched && before.live[k] > 0)
      share *= double(arenas.live[k]) / double(before.live[k]);
  }
  return share;
}

Graph Schedule(Graph g, PassContext& ctx) {
  const std::vector<NodePtr> nodes = PlannedNodes(g);
  OrderEffort effort;
  effort.work = ctx.option<int64_t>("work");
  effort.enough = ctx.option<int64_t>("enough");
  std::vector<Order> candidates;
  int64_t last = -1;  // the peak at the size before
  for (size_t k = 0; k < kSearched; ++k) {
    const MemoryProblem problem = MemoryProblemOf(g, nodes, false, kSizes[k]).problem;
    const int64_t peak = UseOf(problem, GivenOrder(problem)).peak;
    if (peak == last) break;  // sizes are known
    last = peak;
    OrderPlan plan = SearchOrder(problem, effort);
    if (!IsWorthIt(plan.peak, peak)) continue;
    candidates.push_back(OrderOf(nodes, plan.order));
    for (const MemoryOrder& other : plan.others)
      if (IsWorthIt(UseOf(problem, other).peak, peak)) candidates.push_back(OrderOf(nodes, other));
  }
  MemoryOrder given(nodes.size());
  std::iota(given.begin(), given.end(), 0);
  Order best = OrderOf(nodes, given);
  if (!candidates.empty()) {
    const Arenas before = ArenasOf(g, best);
    double least = 1;
    int64_t saved = 0;
    for (Order& candidate : candidates) {
      const Arenas arenas = ArenasOf(g, candidate);
      const double share = ShareOf(arenas, before);
      if (share >= least) continue;
      least = share;
      best = std::move(candidate);
      saved = before.bytes - arenas.bytes;
    }
    ctx.Count("saved", saved);
  }
  g.SetAttr("order", std::move(best));
  return g;
}

WEFT_REGISTER_PASS(Schedule)
    .describe("fixes the execution order: topological, with few bytes alive")
    .set_body(Schedule)
    .enters_bodies()
    .set_change_graph(false)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .provide_graph_attr("order")
    .preserve_all()
    .option("enough", int64_t{64} << 10, "bytes of an arena below which no order is better")
    .option("work", int64_t{0},
            "looks at operands that the search may take; 0: by the graph's size")
    .statistic("saved", "bytes of the arena, at the sizes that plans are made for");

}  // namespace
}  // namespace weft
