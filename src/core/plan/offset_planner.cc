/// offset_planner.cc: dynamic storage allocation by a portfolio of greedy plans.
///
///   sweep      in the order of time, best fit into a free list, as an allocator at run time
///              would: n log n
///   first fit  in a given order, each item into the lowest gap among those that share a step with
///              it: fewest bytes on nets, but its cost is the number of overlapping pairs; it is
///              given up when that exceeds a budget
///   skyline    where first fit is given up: in a given order, each item on top of all that share a
///              step with it: n log n by a tree of heights
///
/// Orders: large items first, large size x lifetime first, long-lived first. What wins differs from
/// graph to graph (chains, skip connections, training), so all are tried and the smallest arena is
/// taken; the first that reaches the lower bound ends the search. Small instances are also planned
/// valley by valley (offset_valleys.cc), and at last by a local search over the order of first fit.
#include "weft/core/plan/offset_planner.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "offset_instance.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft {
namespace {

/// Overlapping pairs that one first-fit plan may look at: about 0.2 s.
constexpr int64_t kPairBudget = 4'000'000;
/// Rounds of the local search, pairs that it may look at, and rounds without progress after
/// which it goes back.
constexpr int kImproveRounds = 400;
constexpr int64_t kImproveBudget = 1'000'000;
constexpr int kPatience = 48;
/// A plan within a thousandth of the lower bound is not worth more search.
constexpr int64_t kCloseEnough = 1000;

void CheckItems(const std::vector<PlanItem>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    const PlanItem& item = items[i];
    WEFT_ICHECK(item.size >= 0 && item.begin <= item.end && item.alignment > 0,
                "item {}: size {}, steps [{}, {}), alignment {}", i, item.size, item.begin,
                item.end, item.alignment);
  }
}

// ---- sweep ----

/// Free ranges below the top of the arena, by offset and by size.
class FreeList {
 public:
  int64_t Allocate(int64_t size, int64_t alignment) {
    // a larger range fails only by alignment, which the next ones soon satisfy
    constexpr int kTries = 8;
    auto it = by_size_.lower_bound({size, 0});
    for (int i = 0; i < kTries && it != by_size_.end(); ++i, ++it) {
      const auto [bytes, from] = *it;
      const int64_t offset = CheckedRoundUp(from, alignment);
      if (offset + size <= from + bytes) return Take(from, bytes, offset, size);
    }
    // Above the top; a free range that touches it counts as part of the room above.
    if (!by_offset_.empty()) {
      const auto [from, bytes] = *by_offset_.rbegin();
      if (from + bytes == top_) {
        Remove(from, bytes);
        top_ = from;
      }
    }
    const int64_t offset = CheckedRoundUp(top_, alignment);
    if (offset > top_) Add(top_, offset - top_);
    top_ = CheckedAdd(offset, size);
    return offset;
  }

  void Free(int64_t offset, int64_t size) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + size) {
      size += next->second;
      Remove(next->first, next->second);
      next = by_offset_.lower_bound(offset);
    }
    if (next != by_offset_.begin()) {
      const auto [from, bytes] = *std::prev(next);
      if (from + bytes == offset) {
        Remove(from, bytes);
        offset = from;
        size += bytes;
      }
    }
    Add(offset, size);
  }

 private:
  void Add(int64_t offset, int64_t size) {
    by_offset_.emplace(offset, size);
    by_size_.emplace(size, offset);
  }
  void Remove(int64_t offset, int64_t size) {
    by_offset_.erase(offset);
    by_size_.erase({size, offset});
  }
  int64_t Take(int64_t from, int64_t bytes, int64_t offset, int64_t size) {
    Remove(from, bytes);
    if (offset > from) Add(from, offset - from);
    if (from + bytes > offset + size) Add(offset + size, from + bytes - offset - size);
    return offset;
  }
  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t top_ = 0;
};

Plan Sweep(const Instance& in) {
  std::vector<uint32_t> starts = in.live, ends = in.live;
  std::sort(starts.begin(), starts.end(), [&](uint32_t a, uint32_t b) {
    if (in.begin[a] != in.begin[b]) return in.begin[a] < in.begin[b];
    if (in.items[a].size != in.items[b].size) return in.items[a].size > in.items[b].size;
    return a < b;
  });
  std::sort(ends.begin(), ends.end(), [&](uint32_t a, uint32_t b) {
    return in.end[a] != in.end[b] ? in.end[a] < in.end[b] : a < b;
  });
  Plan plan = EmptyPlan(in);
  FreeList free;
  size_t next_end = 0;
  for (const uint32_t i : starts) {
    for (; in.end[ends[next_end]] <= in.begin[i]; ++next_end) {
      free.Free(plan.offsets[ends[next_end]], in.items[ends[next_end]].size);
    }
    PlaceItem(in, &plan, i, free.Allocate(in.items[i].size, in.items[i].alignment));
  }
  return plan;
}

// ---- skyline ----

/// Height of every step; the maximum over a range, and raising a range to one height.
class HeightTree {
 public:
  explicit HeightTree(uint32_t steps)
      : steps_(steps), max_(4 * size_t{steps} + 4, 0), set_(max_.size(), -1) {}
  int64_t Max(uint32_t begin, uint32_t end) { return Max(1, 0, steps_, begin, end); }
  void Raise(uint32_t begin, uint32_t end, int64_t height) {
    Raise(1, 0, steps_, begin, end, height);
  }

 private:
  // Recursion is as deep as the tree, at most 32.
  int64_t Max(size_t node, uint32_t lo, uint32_t hi, uint32_t begin, uint32_t end) {
    if (end <= lo || hi <= begin) return 0;
    if (begin <= lo && hi <= end) return max_[node];
    if (set_[node] >= 0) return set_[node];
    const uint32_t mid = lo + (hi - lo) / 2;
    return std::max(Max(2 * node, lo, mid, begin, end), Max(2 * node + 1, mid, hi, begin, end));
  }
  void Raise(size_t node, uint32_t lo, uint32_t hi, uint32_t begin, uint32_t end, int64_t height) {
    if (end <= lo || hi <= begin) return;
    if (begin <= lo && hi <= end) {
      max_[node] = set_[node] = height;
      return;
    }
    if (set_[node] >= 0) {
      max_[2 * node] = set_[2 * node] = max_[2 * node + 1] = set_[2 * node + 1] = set_[node];
      set_[node] = -1;
    }
    const uint32_t mid = lo + (hi - lo) / 2;
    Raise(2 * node, lo, mid, begin, end, height);
    Raise(2 * node + 1, mid, hi, begin, end, height);
    max_[node] = std::max(max_[2 * node], max_[2 * node + 1]);
  }
  uint32_t steps_;
  std::vector<int64_t> max_, set_;  // set_: one height for the whole range, or -1
};

Plan Skyline(const Instance& in, const std::vector<uint32_t>& order) {
  Plan plan = EmptyPlan(in);
  HeightTree heights(in.num_steps);
  for (const uint32_t i : order) {
    const int64_t offset =
        CheckedRoundUp(heights.Max(in.begin[i], in.end[i]), in.items[i].alignment);
    PlaceItem(in, &plan, i, offset);
    heights.Raise(in.begin[i], in.end[i], offset + in.items[i].size);
  }
  return plan;
}

// ---- first fit ----

/// Placed items that share a step with a range. An item either lives at the first step of the range
/// (found by walking down a tree over steps whose nodes list the items that cover them) or begins
/// within it (found in a bit set over the items sorted by their begin).
class OverlapIndex {
 public:
  explicit OverlapIndex(const Instance& in)
      : in_(in), by_begin_(in.live), rank_(in.items.size()), first_(in.num_steps + 1, 0) {
    while (leaves_ < in.num_steps) leaves_ *= 2;
    covers_.resize(2 * leaves_);
    std::sort(by_begin_.begin(), by_begin_.end(), [&](uint32_t a, uint32_t b) {
      return in.begin[a] != in.begin[b] ? in.begin[a] < in.begin[b] : a < b;
    });
    for (uint32_t r = 0; r < by_begin_.size(); ++r) {
      rank_[by_begin_[r]] = r;
      ++first_[in.begin[by_begin_[r]] + 1];
    }
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    placed_.resize(by_begin_.size() / 64 + 1, 0);
  }

  void Add(uint32_t item) {
    placed_[rank_[item] / 64] |= uint64_t{1} << (rank_[item] % 64);
    size_t lo = in_.begin[item] + leaves_, hi = in_.end[item] + leaves_;
    for (; lo < hi; lo /= 2, hi /= 2) {
      if (lo & 1) covers_[lo++].push_back(item);
      if (hi & 1) covers_[--hi].push_back(item);
    }
  }

  template <class F>
  void ForEach(uint32_t item, F f) const {
    for (size_t node = in_.begin[item] + leaves_; node > 0; node /= 2) {
      for (const uint32_t other : covers_[node]) f(other);
    }
    const uint32_t from = first_[in_.begin[item] + 1], to = first_[in_.end[item]];
    for (uint32_t word = from / 64; word * 64 < to; ++word) {
      uint64_t bits = placed_[word];
      if (word == from / 64) bits &= ~uint64_t{0} << (from % 64);
      if (to - word * 64 < 64) bits &= (uint64_t{1} << (to - word * 64)) - 1;
      for (; bits; bits &= bits - 1) f(by_begin_[word * 64 + uint32_t(__builtin_ctzll(bits))]);
    }
  }

 private:
  const Instance& in_;
  std::vector<uint32_t> by_begin_, rank_;
  std::vector<uint32_t> first_;  // first_[s]: rank of the first item that begins at s
  std::vector<uint64_t> placed_;
  size_t leaves_ = 1;
  std::vector<std::vector<uint32_t>> covers_;
};

/// Nothing when looking at more than `*budget` pairs, or when the arena would exceed `limit`.
std::optional<Plan> FirstFit(const Instance& in, const std::vector<uint32_t>& order,
                             int64_t* budget, int64_t limit) {
  Plan plan = EmptyPlan(in);
  OverlapIndex index(in);
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (const uint32_t i : order) {
    taken.clear();
    index.ForEach(i, [&](uint32_t other) {
      taken.emplace_back(plan.offsets[other], plan.offsets[other] + in.items[other].size);
    });
    *budget -= int64_t(taken.size()) + 1;
    if (*budget < 0) return std::nullopt;
    std::sort(taken.begin(), taken.end());
    const int64_t size = in.items[i].size, alignment = in.items[i].alignment;
    int64_t offset = 0;
    for (const auto& [from, to] : taken) {
      if (from >= offset && from - offset >= size) break;
      if (to > offset) offset = CheckedRoundUp(to, alignment);
    }
    PlaceItem(in, &plan, i, offset);
    if (plan.arena_bytes >= limit) return std::nullopt;
    index.Add(i);
  }
  return plan;
}

/// Local search over the order of first fit: an item that ends highest is placed earlier, at the
/// front or at a place drawn at random. An order that is no worse is kept, so that the search
/// crosses plateaus; one that stays stuck goes back to the best.
void Improve(const Instance& in, std::vector<uint32_t> order, int64_t enough, Plan* best) {
  int64_t budget = kImproveBudget;
  auto start = FirstFit(in, order, &budget, INT64_MAX);
  if (!start) return;
  Plan best_here = *start, current = *std::move(start);
  Draws draws;
  std::vector<uint32_t> best_order = order, top;
  int stuck = 0;
  for (int round = 0; round < kImproveRounds && best->arena_bytes > enough; ++round) {
    top.clear();
    for (uint32_t k = 0; k < order.size(); ++k)
      if (current.offsets[order[k]] + in.items[order[k]].size == current.arena_bytes)
        top.push_back(k);
    const uint32_t from = top[draws.Below(top.size())];
    std::vector<uint32_t> next = order;
    if (from == 0)  // nothing is before it: two others change places
      std::swap(next[draws.Below(next.size())], next[draws.Below(next.size())]);
    else
      std::rotate(next.begin() + (stuck % 4 == 0 ? 0 : draws.Below(from)), next.begin() + from,
                  next.begin() + from + 1);
    auto plan = FirstFit(in, next, &budget, INT64_MAX);
    if (!plan) return;
    if (plan->arena_bytes <= current.arena_bytes || draws.Below(16) == 0) {
      current = *std::move(plan);
      order = std::move(next);
    }
    if (current.arena_bytes < best_here.arena_bytes) {
      best_here = current;
      best_order = order;
      stuck = 0;
      if (best_here.arena_bytes < best->arena_bytes) *best = best_here;
    } else if (++stuck >= kPatience) {
      current = best_here;
      order = best_order;
      stuck = 0;
    }
  }
}

std::vector<std::vector<uint32_t>> Orders(const Instance& in) {
  const auto length = [&in](uint32_t i) { return int64_t{in.items[i].end} - in.items[i].begin; };
  const auto area = [&](uint32_t i) { return double(in.items[i].size) * double(length(i)); };
  std::vector<std::vector<uint32_t>> orders(3, in.live);
  std::sort(orders[0].begin(), orders[0].end(), [&](uint32_t a, uint32_t b) {
    if (in.items[a].size != in.items[b].size) return in.items[a].size > in.items[b].size;
    return length(a) != length(b) ? length(a) > length(b) : a < b;
  });
  std::sort(orders[1].begin(), orders[1].end(),
            [&](uint32_t a, uint32_t b) { return area(a) != area(b) ? area(a) > area(b) : a < b; });
  std::sort(orders[2].begin(), orders[2].end(), [&](uint32_t a, uint32_t b) {
    if (length(a) != length(b)) return length(a) > length(b);
    return in.items[a].size != in.items[b].size ? in.items[a].size > in.items[b].size : a < b;
  });
  return orders;
}

}  // namespace

Plan PlanOffsets(const std::vector<PlanItem>& items) {
  CheckItems(items);
  const Instance in(items);
  if (in.live.empty()) return EmptyPlan(in);
  const int64_t bound = PeakLive(items);
  const std::vector<std::vector<uint32_t>> orders = Orders(in);
  Plan best = Sweep(in);
  const std::vector<uint32_t>* best_order = nullptr;
  for (const auto& order : orders) {
    if (best.arena_bytes == bound) return best;
    int64_t budget = kPairBudget;
    if (auto plan = FirstFit(in, order, &budget, best.arena_bytes)) {
      best = *std::move(plan);
      best_order = &order;
      continue;
    }
    // First fit was worse than the best; the skyline is never lower than first fit.
    if (budget >= 0) continue;
    Plan plan = Skyline(in, order);
    if (plan.arena_bytes < best.arena_bytes) best = std::move(plan);
  }
  const int64_t enough = bound + bound / kCloseEnough;
  if (best.arena_bytes > enough) FillValleys(in, enough, &best);
  if (best.arena_bytes > enough) Improve(in, best_order ? *best_order : orders[1], enough, &best);
  return best;
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
