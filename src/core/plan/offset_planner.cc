/// offset_planner.cc: dynamic storage allocation, cheapest planner first.
///
///   sweep      in the order of time                                             offset_greedy.cc
///   first fit  in several orders; the skyline where that takes too long         offset_greedy.cc
///   valleys    the lowest stretch of steps first                                offset_valleys.cc
///   windows    what lies around the highest places, packed anew                 offset_windows.cc
///   search     for a height between the bound and the best, with proof          offset_search.cc
///
/// Orders: large items first, large size x lifetime first, long-lived first. What wins differs from
/// graph to graph (chains, skip connections, training), so all are tried and the smallest arena is
/// taken; the first that reaches the lower bound ends it all.
#include "weft/core/plan/offset_planner.h"

#include <algorithm>

#include "offset_instance.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft {
namespace {

/// A plan within a thousandth of the lower bound is not worth more of a binding's time.
constexpr int64_t kCloseEnough = 1000;
/// What a binding spends: 15 ms, and 3 us for every item.
constexpr int64_t kBinding = 15'000'000, kEach = 3200;
/// What first fit spends on a pair of items that share a step.
constexpr int64_t kEachPair = 20;
/// Up to this many items, work is kept for the search.
constexpr uint32_t kSearched = 1000;
/// What is spent beyond that is spent on the last byte.
constexpr int64_t kThorough = 1'000'000'000;

void CheckItems(const std::vector<PlanItem>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    const PlanItem& item = items[i];
    WEFT_ICHECK(item.size >= 0 && item.begin <= item.end && item.alignment > 0,
                "item {}: size {}, steps [{}, {}), alignment {}", i, item.size, item.begin,
                item.end, item.alignment);
  }
}

std::vector<std::vector<uint32_t>> Orders(const Instance& in) {
  std::vector<uint32_t> all(in.n());
  std::iota(all.begin(), all.end(), 0);
  const auto length = [&in](uint32_t i) { return in.end[i] - in.begin[i]; };
  const auto area = [&](uint32_t i) { return double(in.size[i]) * double(length(i)); };
  std::vector<std::vector<uint32_t>> orders(3, all);
  std::sort(orders[0].begin(), orders[0].end(), [&](uint32_t a, uint32_t b) {
    if (in.size[a] != in.size[b]) return in.size[a] > in.size[b];
    return length(a) != length(b) ? length(a) > length(b) : a < b;
  });
  std::sort(orders[1].begin(), orders[1].end(),
            [&](uint32_t a, uint32_t b) { return area(a) != area(b) ? area(a) > area(b) : a < b; });
  std::sort(orders[2].begin(), orders[2].end(), [&](uint32_t a, uint32_t b) {
    if (length(a) != length(b)) return length(a) > length(b);
    return in.size[a] != in.size[b] ? in.size[a] > in.size[b] : a < b;
  });
  return orders;
}

/// Pairs of items that share a step.
int64_t Pairs(const Instance& in) {
  // Those that begin before the end of an item, without those that end before it begins.
  std::vector<uint32_t> begins = in.begin, ends = in.end;
  std::sort(begins.begin(), begins.end());
  std::sort(ends.begin(), ends.end());
  int64_t pairs = 0;
  size_t ended = 0;
  for (size_t k = 0; k < begins.size(); ++k) {
    while (ends[ended] <= begins[k]) ++ended;
    pairs += int64_t(k - ended);
  }
  return pairs;
}

/// Searches for a height at the bound, which is reached more often than not, then halves what lies
/// between heights that are too low, or too hard, and the best.
void Bisect(const Instance& in, int64_t enough, int64_t work, int64_t* bound, Packing* best) {
  int64_t low = std::max(*bound, enough), next = low;
  while (best->height > low && work > 0) {
    int64_t share = next == low ? work / 2 : work / 4;
    work -= share;
    Packing found;
    const Found what = SearchPacking(in, next, &share, &found);
    work += std::max<int64_t>(share, 0);
    if (what == Found::kPacking) *best = std::move(found);
    if (what == Found::kNone) *bound = std::max(*bound, next + 1);
    if (what != Found::kPacking) low = next + 1;
    next = low + (best->height - low) / 2;
  }
}

/// All planners in turn, cheapest first, until a packing is at most `enough` high; what is left of
/// the work goes to the search, which may raise the bound.
void Improve(const Instance& in, int64_t enough, int64_t work, int64_t* bound, Packing* best) {
  const bool thorough = work >= kThorough;
  // One planner, with `part` of the work that is left; not at all where it is sure to need more.
  const auto spend = [&](int64_t part, int64_t need, const auto& planner) {
    int64_t share = work / part;
    if (best->height <= enough || need > share) return;
    work -= share;
    if (std::optional<Packing> packing = planner(&share))
      if (packing->height < best->height) *best = *std::move(packing);
    work += std::max<int64_t>(share, 0);
  };
  const int64_t n = in.n(), pairs = Pairs(in), alive = pairs / n;
  // Which of these weights is best differs from one instance to the next.
  for (const auto& [closeness, backwards] : {std::pair{4.0, false}, {1.0, false}, {4.0, true}})
    spend(2, n * (3 * alive + 64),
          [&, closeness = closeness, backwards = backwards](int64_t* share) {
            return SweepByEnds(in, closeness, backwards, best->height, share);
          });
  const int64_t need = in.n() <= kShelf ? n * n / 4 : pairs * kEachPair;
  const std::vector<std::vector<uint32_t>> orders = Orders(in);
  for (const std::vector<uint32_t>& order : orders)
    spend(4, need, [&](int64_t* share) { return FirstFit(in, order, best->height, share); });
  if (need > work / 4) {
    spend(2, 0, [&](int64_t* share) {
      *share -= 300 * n;
      return std::optional(Skyline(in, orders.back()));
    });
    spend(4, n * kStretch / 2,
          [&](int64_t* share) { return PackStretches(in, best->height, share); });
  }
  spend(4, n * n, [&](int64_t* share) { return FillValleys(in, enough, share); });
  spend(in.n() > kSearched ? 1
        : thorough         ? 64
                           : 2,
        0, [&](int64_t* share) {
          Packing repaired = *best;
          RepairWindows(in, enough, share, &repaired);
          return std::optional(std::move(repaired));
        });
  if (best->height > enough) Bisect(in, enough, work, bound, best);
}

}  // namespace

Plan PlanOffsets(const std::vector<PlanItem>& items, const PlanEffort& effort) {
  const int64_t live = PeakLive(items);
  const Instance in(items);
  Plan plan;
  plan.offsets.assign(items.size(), 0);
  if (in.n() == 0) return plan;
  int64_t bound = in.peak;
  const int64_t fits = effort.capacity / in.unit;
  const bool thorough = effort.work >= kThorough;
  const int64_t enough = std::max({bound, fits, thorough ? 0 : bound + bound / kCloseEnough});
  Packing best = Sweep(in);
  if (best.height > enough)
    Improve(in, enough, effort.work > 0 ? effort.work : kBinding + kEach * in.n(), &bound, &best);
  for (uint32_t i = 0; i < in.n(); ++i) {
    int64_t& offset = plan.offsets[in.id[i]];
    WEFT_CHECK(!__builtin_mul_overflow(best.at[i], in.unit, &offset), kOverflow,
               "an arena of more than 2^63 bytes");
    plan.arena_bytes = std::max(plan.arena_bytes, CheckedAdd(offset, items[in.id[i]].size));
  }
  // Of the sizes rounded up, one need not be: that of the item that ends highest.
  plan.lower_bound = std::max(live, bound * in.unit - in.slack);
  return plan;
}

int64_t PeakLive(const std::vector<PlanItem>& items) {
  CheckItems(items);
  std::vector<std::pair<int, int64_t>> changes;
  for (const PlanItem& i : items) {
    if (!TakesRoom(i)) continue;
    changes.emplace_back(i.begin, i.size);
    changes.emplace_back(i.end, -i.size);
  }
  std::sort(changes.begin(), changes.end());  // at one step what ends comes before what begins
  int64_t live = 0, peak = 0;
  for (const auto& [step, bytes] : changes) {
    live = CheckedAdd(live, bytes);
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace weft
