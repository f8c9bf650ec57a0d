/// offset_valleys.cc: storage allocation by filling the lowest valley first.
///
/// Over the steps of a program the arena has a height. The lowest stretch of steps takes the best
/// item that lives within it; where none does, the stretch is filled up to its lower neighbour.
/// What lives long goes below what lives briefly, so the nested lifetimes of training (forward
/// results that the backward pass reads in reverse) stack without gaps.
///
///   rules   longest first; size x lifetime; size; lifetime x root of size; then the
///           same with some noise
///   cost    items x (items + steps) a plan, so only for some thousand items
///   source  best-fit skyline packing (Burke, Kendall, Whitwell 2004), with fixed horizontal places
#include <cmath>

#include "offset_instance.h"

namespace weft {
namespace {

constexpr int kRules = 4;
/// Work of one plan and of all, in looks at an item or a step: about 1 ns each.
constexpr int64_t kPlanBudget = 16'000'000, kAllBudget = 8'000'000;
constexpr int kMostPlans = 24;

double Rank(const PlanItem& item, uint32_t rule) {
  const double length = double(item.end) - double(item.begin), size = double(item.size);
  switch (rule) {
    case 0:
      return length;
    case 1:
      return length * size;
    case 2:
      return size;
    default:
      return length * std::sqrt(size);
  }
}

/// `order`: what is preferred, first.
Plan FillValleys(const Instance& in, std::vector<uint32_t> order) {
  Plan plan = EmptyPlan(in);
  const uint32_t steps = in.num_steps - 1;  // the last one is an end only
  std::vector<int64_t> height(steps, 0);
  while (!order.empty()) {
    const uint32_t first =
        uint32_t(std::min_element(height.begin(), height.end()) - height.begin());
    uint32_t last = first;
    while (last < steps && height[last] == height[first]) ++last;
    const auto it = std::find_if(order.begin(), order.end(), [&](uint32_t i) {
      return in.begin[i] >= first && in.end[i] <= last;
    });
    if (it == order.end()) {
      int64_t to = INT64_MAX;
      if (first > 0) to = std::min(to, height[first - 1]);
      if (last < steps) to = std::min(to, height[last]);
      std::fill(height.begin() + first, height.begin() + last, to);
      continue;
    }
    const PlanItem& item = in.items[*it];
    const int64_t offset = CheckedRoundUp(height[first], item.alignment);
    PlaceItem(in, &plan, *it, offset);
    std::fill(height.begin() + in.begin[*it], height.begin() + in.end[*it], offset + item.size);
    order.erase(it);
  }
  return plan;
}

}  // namespace

void FillValleys(const Instance& in, int64_t enough, Plan* best) {
  const auto items = int64_t(in.live.size());
  if (items > (int64_t{1} << 20)) return;
  const int64_t work = items * (items + in.num_steps);
  if (work > kPlanBudget) return;
  const int plans = int(std::min<int64_t>(kMostPlans, kAllBudget / std::max<int64_t>(work, 1)));
  Draws draws;
  std::vector<double> rank(in.items.size());
  for (int k = 0; k < std::max(plans, kRules) && best->arena_bytes > enough; ++k) {
    const uint32_t rule = k < kRules ? uint32_t(k) : draws.Below(kRules);
    for (uint32_t i : in.live) {
      rank[i] = Rank(in.items[i], rule);
      if (k >= kRules) rank[i] *= 1 + double(draws.Below(1024)) / 2048;
    }
    std::vector<uint32_t> order = in.live;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      if (rank[a] != rank[b]) return rank[a] > rank[b];
      return in.items[a].size != in.items[b].size ? in.items[a].size > in.items[b].size : a < b;
    });
    Plan plan = FillValleys(in, std::move(order));
    if (plan.arena_bytes < best->arena_bytes) *best = std::move(plan);
  }
}

}  // namespace weft
