/// recompute_search.cc: the list of plans that recompute_search.h promises: what the searches find,
/// counted by UseOf, without what another plan does as low for less.
#include "weft/core/recompute/recompute_search.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "steps.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft {
namespace {

using recompute::Found;
using recompute::Steps;

/// The order without runs that nothing reads, of nodes that run elsewhere as well. What comes
/// behind a node because it says so stays behind its first run.
void DropUnread(const MemoryProblem& problem, MemoryOrder* order, MemoryOrder* moved) {
  const size_t runs = order->size(), nodes = problem.nodes.size();
  const int none = int(runs);
  std::vector<int> left(nodes, 0), first(nodes, none), follower(nodes, none), next(nodes, none);
  for (size_t r = 0; r < runs; ++r) {
    const size_t k = size_t((*order)[r]);
    if (left[k]++ == 0) first[k] = int(r);
  }
  for (size_t k = 0; k < nodes; ++k) {
    for (const int a : problem.nodes[k].after)
      follower[size_t(a)] = std::min(follower[size_t(a)], first[k]);
    for (const int b : problem.nodes[k].before)
      follower[k] = std::min(follower[k], first[size_t(b)]);
  }
  // The runs whose results each run reads, one after another.
  std::vector<int> reads, begin, latest(problem.values.size(), -1);
  for (size_t r = 0; r < runs; ++r) {
    const MemoryNode& n = problem.nodes[size_t((*order)[r])];
    begin.push_back(int(reads.size()));
    for (const int v : n.inputs)
      if (latest[size_t(v)] >= 0) reads.push_back(latest[size_t(v)]);
    for (const int v : n.outputs) latest[size_t(v)] = int(r);
  }
  begin.push_back(int(reads.size()));
  std::vector<char> stays(runs, 0);
  for (size_t v = 0; v < problem.values.size(); ++v)
    if (problem.values[v].keep && latest[v] >= 0) stays[size_t(latest[v])] = 1;
  for (size_t r = runs; r-- > 0;) {
    const size_t k = size_t((*order)[r]);
    if (!stays[r] && left[k] > 1 && (first[k] != int(r) || next[k] < follower[k])) {
      --left[k];
      if (first[k] == int(r)) moved->push_back(int(k));
      continue;
    }
    stays[r] = 1;
    next[k] = int(r);
    for (int i = begin[r]; i < begin[r + 1]; ++i) stays[size_t(reads[size_t(i)])] = 1;
  }
  size_t kept = 0;
  for (size_t r = 0; r < runs; ++r)
    if (stays[r]) (*order)[kept++] = (*order)[r];
  order->resize(kept);
}

RecomputePlan Judge(const MemoryProblem& problem, MemoryOrder order, int64_t base_cost) {
  RecomputePlan plan;
  DropUnread(problem, &order, &plan.moved);
  const MemoryUse use = UseOf(problem, order);
  plan.peak = use.peak;
  plan.extra_cost = use.cost - base_cost;
  plan.order = std::move(order);
  return plan;
}

std::vector<RecomputePlan> FindPlans(const MemoryProblem& problem, const MemoryOrder& given,
                                     const RecomputeEffort& effort) {
  const Steps steps(problem, given);
  const MemoryUse use = UseOf(problem, given);
  std::vector<RecomputePlan> plans;
  const auto take = [&](MemoryOrder order) {
    RecomputePlan plan = Judge(problem, std::move(order), use.cost);
    if (plan.peak < use.peak) plans.push_back(std::move(plan));
  };
  // What is small has been looked through long before: a fraction of a second is enough.
  constexpr int64_t kEnough = 50'000;  // for each step
  const int64_t most = kEnough * (int64_t(steps.steps.size()) + 1);
  const recompute::Frontier exact = recompute::ExactFrontier(
      steps, use.peak, std::min(effort.work, 8 * most), [&](const std::vector<int>& runs) {
        return UseOf(problem, recompute::OrderOfRuns(problem, steps, runs)).peak;
      });
  for (const Found& f : exact.plans) take(recompute::OrderOfRuns(problem, steps, f.runs));
  if (!exact.whole)
    for (const Found& f : recompute::LocalFrontier(steps, std::min(effort.work, most)))
      take(recompute::OrderOf(problem, steps, f.copies));
  std::stable_sort(plans.begin(), plans.end(), [](const RecomputePlan& a, const RecomputePlan& b) {
    return a.extra_cost != b.extra_cost ? a.extra_cost < b.extra_cost : a.peak < b.peak;
  });
  std::vector<RecomputePlan> frontier(1);
  frontier[0].order = given;
  frontier[0].peak = use.peak;
  for (RecomputePlan& plan : plans)
    if (plan.peak < frontier.back().peak) {
      // For nothing: views again alone.
      if (plan.extra_cost == 0 && frontier.size() > 1) frontier.pop_back();
      frontier.push_back(std::move(plan));
    }
  return frontier;
}

/// All that plans depend on, as numbers.
std::vector<int64_t> KeyOf(const MemoryProblem& problem, const MemoryOrder& given,
                           const RecomputeEffort& effort) {
  std::vector<int64_t> key{effort.work, int64_t(problem.nodes.size())};
  const auto add = [&key](const std::vector<int>& list) {
    key.push_back(int64_t(list.size()));
    key.insert(key.end(), list.begin(), list.end());
  };
  for (const MemoryNode& n : problem.nodes) {
    for (const std::vector<int>* list : {&n.inputs, &n.outputs, &n.after, &n.before}) add(*list);
    key.push_back(int64_t(n.inplace.size()));
    for (const auto& [i, o] : n.inplace) key.insert(key.end(), {i, o});
    key.insert(key.end(), {n.scratch, n.cost, n.recompute});
  }
  for (const MemoryValue& v : problem.values)
    key.insert(key.end(), {v.bytes, v.producer, v.shows, v.keep});
  add(given);
  return key;
}

thread_local RecomputeMemo* latest_memo = nullptr;

}  // namespace

struct RecomputeMemo::Impl {
  std::vector<std::pair<std::vector<int64_t>, std::vector<RecomputePlan>>> lists;
  int64_t again = 0;
};
RecomputeMemo::RecomputeMemo()
    : impl_(std::make_unique<Impl>()), outer_(std::exchange(latest_memo, this)) {}
RecomputeMemo::~RecomputeMemo() { latest_memo = outer_; }
int64_t RecomputeMemo::taken_again() const { return impl_->again; }

std::vector<RecomputePlan> RecomputePlans(const MemoryProblem& problem, const MemoryOrder& given,
                                          const RecomputeEffort& effort) {
  CheckProblem(problem);
  CheckOrder(problem, given);
  WEFT_CHECK(given.size() == problem.nodes.size(), kInvalidModel,
             "an order to plan recomputation for runs every node once");
  if (!latest_memo) return FindPlans(problem, given, effort);
  RecomputeMemo::Impl& memo = *latest_memo->impl_;
  std::vector<int64_t> key = KeyOf(problem, given, effort);
  for (const auto& [known, plans] : memo.lists)
    if (known == key) {
      ++memo.again;
      return plans;
    }
  std::vector<RecomputePlan> plans = FindPlans(problem, given, effort);
  memo.lists.emplace_back(std::move(key), plans);
  return plans;
}

std::vector<RecomputePlan> JoinPlans(std::vector<RecomputePlan> a, std::vector<RecomputePlan> b) {
  std::move(b.begin(), b.end(), std::back_inserter(a));
  std::stable_sort(a.begin(), a.end(), [](const RecomputePlan& x, const RecomputePlan& y) {
    return x.extra_cost != y.extra_cost ? x.extra_cost < y.extra_cost : x.peak < y.peak;
  });
  std::vector<RecomputePlan> joined;
  for (RecomputePlan& plan : a)
    if (joined.empty() || plan.peak < joined.back().peak) joined.push_back(std::move(plan));
  return joined;
}

RecomputeChoice ChooseRecompute(const MemoryProblem& problem,
                                const std::vector<RecomputePlan>& plans,
                                const RecomputeGoal& goal) {
  RecomputeChoice choice;
  const RecomputePlan* chosen = &plans.back();
  if (goal.budget >= 0) {
    for (auto it = plans.rbegin(); it != plans.rend() && it->peak <= goal.budget; ++it)
      chosen = &*it;
  } else if (goal.cost_share >= 0) {
    const double cost = double(UseOf(problem, plans.front().order).cost);
    chosen = &plans.front();
    for (const RecomputePlan& plan : plans)
      if (double(plan.extra_cost) <= goal.cost_share * cost) chosen = &plan;
  }
  choice.plan = *chosen;
  choice.met = goal.budget < 0 || chosen->peak <= goal.budget;
  choice.lower_bound = LargestStep(problem);
  return choice;
}

RecomputeChoice PlanRecompute(const MemoryProblem& problem, const MemoryOrder& given,
                              const RecomputeGoal& goal, const RecomputeEffort& effort) {
  return ChooseRecompute(problem, RecomputePlans(problem, given, effort), goal);
}

}  // namespace weft
