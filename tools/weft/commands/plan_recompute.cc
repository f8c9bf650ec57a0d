/// plan_recompute.cc: the planners of order and recomputation on a plain problem.
#include "plan_recompute.h"

#include "common.h"
#include "weft/core/json/memory_file.h"
#include "weft/core/plan/memory_budget.h"
#include "weft/core/plan/order_search.h"
#include "weft/core/recompute/recompute_search.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

/// The names of the steps: `a` the first time, then `a#1`, `a#2`.
std::vector<std::string> Steps(const MemoryFile& file, const MemoryOrder& order) {
  std::vector<std::string> steps;
  std::vector<int> ran(file.names.size(), 0);
  for (int k : order) {
    const int again = ran[size_t(k)]++;
    steps.push_back(again == 0 ? file.names[size_t(k)]
                               : fmt::format("{}#{}", file.names[size_t(k)], again));
  }
  return steps;
}

}  // namespace

int PlanRecomputation(const std::string& path, const std::string& text, bool json) {
  const MemoryBudget budget = MemoryBudget::Parse(text, "--memory-budget");
  WEFT_CHECK(!budget.all, kUsage, "--memory-budget: a problem holds nothing else than its nodes");
  const MemoryFile file = ParseMemoryFile(ReadFile(path), path);
  const MemoryProblem& problem = file.problem;
  CheckProblem(problem);
  const MemoryOrder given = GivenOrder(problem);
  const MemoryUse use = UseOf(problem, given);
  OrderPlan ordered = SearchOrder(problem);
  RecomputeChoice choice;
  if (!budget.any()) {
    choice.plan = {std::move(ordered.order), ordered.peak, 0};
    choice.met = true;
    choice.lower_bound = ordered.lower_bound;
  } else {
    RecomputeGoal goal;
    if (budget.kind != MemoryBudget::Kind::kLeast) goal.budget = budget.BytesOf(ordered.peak);
    std::vector<RecomputePlan> plans = RecomputePlans(problem, given);
    if (ordered.peak < use.peak)
      plans = JoinPlans(std::move(plans), RecomputePlans(problem, ordered.order));
    choice = ChooseRecompute(problem, plans, goal);
  }
  CheckOrder(problem, choice.plan.order);
  const std::vector<std::string> steps = Steps(file, choice.plan.order);
  if (json) {
    PrintJson(Json{{"order", steps},
                   {"peak", choice.plan.peak},
                   {"extra_cost", choice.plan.extra_cost},
                   {"met", choice.met},
                   {"lower_bound", choice.lower_bound}});
  } else {
    PrintText(
        fmt::format("{}: peak {} ({} bytes), {} bytes as the file has it; no order needs less "
                    "than {} bytes\n",
                    Plural(problem.nodes.size(), "node"), FormatBytes(choice.plan.peak),
                    choice.plan.peak, use.peak, choice.lower_bound));
    PrintText(fmt::format("{} run again, cost {} added to {}\n",
                          Plural(steps.size() - problem.nodes.size(), "step"),
                          choice.plan.extra_cost, use.cost));
    for (const std::string& step : steps) PrintText(step + "\n");
    if (!choice.met) PrintText("the budget is not met\n");
  }
  return choice.met ? 0 : 1;
}

}  // namespace weft::tool
