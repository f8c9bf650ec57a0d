/// recompute_search_test.cc: plans of recomputation against every order of tiny problems, and by
/// what they promise: peaks as the account counts them, monotone in the budget, nothing run again
/// that must not.
#include "weft/core/recompute/recompute_search.h"

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <random>

#include "weft/support/error.h"
#include "weft/support/limits.h"
#include "weft/support/request.h"

namespace weft {
namespace {

/// A forward chain of `n` and its backward half: step k back reads the gradient and what forward
/// step k made; every third is read by a later forward step as well.
MemoryProblem Training(int n, unsigned seed, bool skips) {
  std::mt19937 random(seed);
  MemoryProblem p;
  std::vector<int> made;
  const auto node = [&](std::vector<int> in, int64_t bytes, int64_t cost) {
    const int k = int(p.nodes.size()), v = int(p.values.size());
    p.nodes.emplace_back();
    p.nodes.back().inputs = std::move(in);
    p.nodes.back().outputs = {v};
    p.nodes.back().cost = cost;
    p.values.push_back({bytes, k});
    return v;
  };
  for (int k = 0; k < n; ++k) {
    std::vector<int> in;
    if (k > 0) in.push_back(made[size_t(k) - 1]);
    if (skips && k >= 3 && k % 3 == 0) in.push_back(made[size_t(k) - 3]);
    made.push_back(node(in, 1 + int64_t(random() % 8), 1 + int64_t(random() % 9)));
  }
  int gradient = made.back();
  for (int k = n - 1; k >= 0; --k)
    gradient = node({gradient, made[size_t(k)]}, 1 + int64_t(random() % 8), 2);
  p.values[size_t(gradient)].keep = true;
  return p;
}

/// Small graphs of any form, with views, kept values, in place, and nodes that run once.
MemoryProblem Any(int n, unsigned seed, bool whole) {
  std::mt19937 random(seed);
  MemoryProblem p;
  const auto bytes_shown = [&](int v) {
    while (p.values[size_t(v)].shows >= 0) v = p.values[size_t(v)].shows;
    return p.values[size_t(v)].bytes;
  };
  for (int k = 0; k < n; ++k) {
    MemoryNode node;
    for (int v = 0; v < int(p.values.size()); ++v)
      if (random() % 3 == 0) node.inputs.push_back(v);
    if (random() % 8 == 0) node.recompute = false;
    node.cost = int64_t(random() % 5);
    const int v = int(p.values.size());
    node.outputs = {v};
    MemoryValue value{1 + int64_t(random() % 9), k};
    if (!node.inputs.empty() && random() % 5 == 0)
      value.shows = node.inputs[random() % node.inputs.size()], value.bytes = 0, node.cost = 0;
    else if (!node.inputs.empty() && random() % 3 == 0)
      node.inplace = {{0, 0}}, value.bytes = bytes_shown(node.inputs[0]);
    value.keep = random() % 9 == 0;
    if (value.shows < 0 && random() % 4 == 0) node.scratch = int64_t(random() % 4);
    p.nodes.push_back(node);
    p.values.push_back(value);
    // What makes a view reads nothing else and can run again in the problems that are searched
    // whole: where it cannot, the search leaves alone what it shows, though a reader of that alone
    // might have a copy.
    if (whole && value.shows >= 0)
      p.nodes.back().recompute = true, p.nodes.back().inputs = {value.shows};
    if (random() % 6 == 0 && !(whole && value.shows >= 0)) {
      p.nodes.back().outputs.push_back(v + 1);
      p.values.push_back({1 + int64_t(random() % 4), k});
    }
  }
  return p;
}

/// The least cost of any order below each peak, among those with at most `most` copies whose first
/// runs stand as given: all of them are tried.
std::map<int64_t, int64_t> EveryOrder(const MemoryProblem& p, int most) {
  std::map<int64_t, int64_t> best;
  MemoryOrder order;
  const int n = int(p.nodes.size());
  const std::function<void(int, int)> extend = [&](int next, int copies) {
    if (next == n) {
      const MemoryUse use = UseOf(p, order);
      const auto it = best.find(use.peak);
      if (it == best.end() || it->second > use.cost) best[use.peak] = use.cost;
    } else {
      order.push_back(next);
      extend(next + 1, copies);
      order.pop_back();
    }
    if (copies == most) return;
    for (int k = 0; k < next; ++k)
      if (p.nodes[size_t(k)].recompute && (order.empty() || order.back() != k)) {
        order.push_back(k);
        extend(next, copies + 1);
        order.pop_back();
      }
  };
  extend(0, 0);
  return best;
}

int64_t CheapestOf(const std::map<int64_t, int64_t>& best, int64_t budget) {
  int64_t cheapest = -1;
  for (auto [peak, cost] : best)
    if (peak <= budget && (cheapest < 0 || cost < cheapest)) cheapest = cost;
  return cheapest;
}

void CheckPromises(const MemoryProblem& p, const std::vector<RecomputePlan>& plans) {
  REQUIRE(!plans.empty());
  const int64_t base = UseOf(p, plans[0].order).cost;
  CHECK(plans[0].order == GivenOrder(p));
  for (size_t k = 0; k < plans.size(); ++k) {
    CHECK_NOTHROW(CheckOrder(p, plans[k].order));
    const MemoryUse use = UseOf(p, plans[k].order);
    CHECK(use.peak == plans[k].peak);
    CHECK(use.cost - base == plans[k].extra_cost);
    CHECK(plans[k].peak >= LargestStep(p));
    if (k == 0) continue;
    CHECK(plans[k].peak < plans[k - 1].peak);
    CHECK(plans[k].extra_cost >= plans[k - 1].extra_cost);
  }
  // 20 budgets: never a higher peak for less, never a dearer plan for more.
  int64_t last_peak = -1, last_cost = INT64_MAX;
  const int64_t low = plans.back().peak, high = plans.front().peak;
  for (int k = 0; k <= 20; ++k) {
    RecomputeGoal goal;
    goal.budget = low + (high - low) * k / 20;
    const RecomputeChoice choice = ChooseRecompute(p, plans, goal);
    CHECK(choice.met);
    CHECK(choice.plan.peak <= goal.budget);
    CHECK(choice.plan.peak >= last_peak);
    CHECK(choice.plan.extra_cost <= last_cost);
    last_peak = choice.plan.peak, last_cost = choice.plan.extra_cost;
  }
}

TEST_CASE("lists of plans are found once for the same problem, order and effort") {
  const MemoryProblem p = Training(12, 3, true);
  MemoryProblem other = p;
  other.nodes[2].scratch = 5;
  RecomputeEffort less;
  less.work = 1000;
  const MemoryOrder order = GivenOrder(p);
  const auto same = [](const std::vector<RecomputePlan>& a, const std::vector<RecomputePlan>& b) {
    REQUIRE(a.size() == b.size());
    for (size_t k = 0; k < a.size(); ++k) {
      CHECK(a[k].order == b[k].order);
      CHECK(a[k].peak == b[k].peak);
      CHECK(a[k].extra_cost == b[k].extra_cost);
      CHECK(a[k].moved == b[k].moved);
    }
  };
  const auto without = RecomputePlans(p, order), of_other = RecomputePlans(other, order),
             of_less = RecomputePlans(p, order, less);
  RecomputeMemo memo;
  for (int times = 0; times < 2; ++times) {
    same(RecomputePlans(p, order), without);
    same(RecomputePlans(other, order), of_other);
    same(RecomputePlans(p, order, less), of_less);
    CHECK(memo.taken_again() == 3 * times);
  }
  {
    const RecomputeMemo inner;
    same(RecomputePlans(p, order), without);
    CHECK(inner.taken_again() == 0);
  }
  same(RecomputePlans(p, order), without);
  CHECK(memo.taken_again() == 4);
}

TEST_CASE("recompute: no order with two copies is below the plans of tiny problems") {
  int problems = 0, lowered = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const MemoryProblem p = seed % 2 ? Any(6, seed, true) : Training(3, seed, true);
    const auto plans = RecomputePlans(p, GivenOrder(p));
    CheckPromises(p, plans);
    const auto best = EveryOrder(p, 2);
    for (const auto& found : best) {
      const int64_t peak = found.first, cheapest = CheapestOf(best, peak);
      RecomputeGoal goal;
      goal.budget = peak;
      const RecomputeChoice choice = ChooseRecompute(p, plans, goal);
      CAPTURE(seed);
      CAPTURE(peak);
      CHECK(choice.met);
      if (choice.met) CHECK(choice.plan.extra_cost + UseOf(p, GivenOrder(p)).cost <= cheapest);
    }
    ++problems;
    lowered += plans.size() > 1;
  }
  CHECK(problems == 300);
  CHECK(lowered > 50);
}

TEST_CASE("recompute: plans of larger problems keep what they promise") {
  for (unsigned seed = 0; seed < 12; ++seed) {
    const MemoryProblem p =
        seed % 3 == 0 ? Any(60, seed, false) : Training(20 + 15 * int(seed), seed, seed % 2 == 0);
    RecomputeEffort effort;
    effort.work = 5'000'000;
    const auto plans = RecomputePlans(p, GivenOrder(p), effort);
    CheckPromises(p, plans);
    if (seed % 3 != 0) CHECK(plans.back().peak * 2 < plans.front().peak);
  }
}

TEST_CASE(
    "recompute: a chain of equals in the square root of its length for less than one forward") {
  const int n = 100;
  MemoryProblem p = Training(n, 0, false);
  for (MemoryValue& v : p.values) v.bytes = 1;
  for (MemoryNode& node : p.nodes) node.cost = 1;
  RecomputeGoal goal;
  goal.budget = 2 * 10 + 3;
  const RecomputeChoice choice = PlanRecompute(p, GivenOrder(p), goal);
  CHECK(choice.met);
  CHECK(choice.plan.extra_cost <= n);
}

TEST_CASE("recompute: goals") {
  const MemoryProblem p = Training(12, 7, false);
  const auto plans = RecomputePlans(p, GivenOrder(p));
  const RecomputeChoice least = ChooseRecompute(p, plans, {});
  CHECK(least.met);
  CHECK(least.plan.peak == plans.back().peak);
  RecomputeGoal share;
  share.cost_share = 0;
  CHECK(ChooseRecompute(p, plans, share).plan.extra_cost == 0);
  share.cost_share = 0.1;
  const RecomputeChoice tenth = ChooseRecompute(p, plans, share);
  CHECK(double(tenth.plan.extra_cost) <= 0.1 * double(UseOf(p, GivenOrder(p)).cost));
  CHECK(tenth.plan.peak < plans.front().peak);
  RecomputeGoal none;
  none.budget = 1;
  CHECK_FALSE(ChooseRecompute(p, plans, none).met);
  CHECK(ChooseRecompute(p, plans, none).plan.peak == least.plan.peak);
}

TEST_CASE("recompute: nothing that runs once runs again, and what is kept stays") {
  MemoryProblem p = Training(10, 3, true);
  for (MemoryNode& n : p.nodes) n.recompute = false;
  CHECK(RecomputePlans(p, GivenOrder(p)).size() == 1);
  p = Training(10, 3, true);
  for (MemoryValue& v : p.values) v.keep = true;
  for (const RecomputePlan& plan : RecomputePlans(p, GivenOrder(p)))
    CHECK(plan.peak == UseOf(p, GivenOrder(p)).peak);
}

/// Runs of nodes that run elsewhere too, and whose results nothing reads.
int Unread(const MemoryProblem& p, const MemoryOrder& order) {
  std::vector<int> runs(p.nodes.size(), 0), latest(p.values.size(), -1);
  std::vector<char> read(order.size(), 0);
  for (int k : order) ++runs[size_t(k)];
  for (size_t r = 0; r < order.size(); ++r) {
    for (int v : p.nodes[size_t(order[r])].inputs)
      if (latest[size_t(v)] >= 0) read[size_t(latest[size_t(v)])] = 1;
    for (int v : p.nodes[size_t(order[r])].outputs) latest[size_t(v)] = int(r);
  }
  for (size_t v = 0; v < p.values.size(); ++v)
    if (p.values[v].keep) read[size_t(latest[v])] = 1;
  int unread = 0;
  for (size_t r = 0; r < order.size(); ++r) unread += !read[r] && runs[size_t(order[r])] > 1;
  return unread;
}

TEST_CASE("recompute: a node runs again only where its results were read before") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const MemoryProblem p = seed % 2 ? Any(14, seed, false) : Training(20, seed, true);
    for (const RecomputePlan& plan : RecomputePlans(p, GivenOrder(p)))
      CHECK(Unread(p, plan.order) == 0);
  }
}

TEST_CASE("recompute: no run stands behind what its node has to stay in front of") {
  int again = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    MemoryProblem p = Training(seed % 2 ? 12 : 80, seed, true);
    for (int k = 0; k + 1 < int(p.nodes.size()); k += 3)
      p.nodes[size_t(k)].before = {k + 1 + int(random() % (p.nodes.size() - size_t(k) - 1))};
    RecomputeEffort effort;
    effort.work = 1'000'000;
    const auto plans = RecomputePlans(p, GivenOrder(p), effort);
    CheckPromises(p, plans);  // CheckOrder refuses what stands behind
    for (int k : plans.back().order) again += !p.nodes[size_t(k)].before.empty();
    again -= int((p.nodes.size() + 1) / 3);
  }
  CHECK(again > 0);
}

TEST_CASE("recompute: sums that leave 64 bits are refused, costs that near them are not") {
  MemoryProblem p = Training(10, 1, false);
  for (MemoryNode& n : p.nodes) n.cost = INT64_MAX / 64;
  CHECK(RecomputePlans(p, GivenOrder(p)).size() > 1);
  p.values[0].bytes = INT64_MAX / 2;
  CHECK_THROWS_AS(RecomputePlans(p, GivenOrder(p)), const Error&);
}

TEST_CASE("recompute: a deadline ends the search") {
  Limits limits;
  limits.deadline_s = 0.05;
  RequestScope scope(limits);
  const MemoryProblem p = Training(2000, 1, true);
  RecomputeEffort effort;
  effort.work = INT64_MAX / 16;
  CHECK_THROWS_AS(RecomputePlans(p, GivenOrder(p), effort), const Error&);
}

}  // namespace
}  // namespace weft
