/// plan_recompute.cc: the planners of order and recomputation on a plain problem.
#include "plan_recompute.h"

#include <cmath>
#include <optional>

#include "common.h"
#include "weft/core/json/memory_file.h"
#include "weft/core/plan/order_search.h"
#include "weft/core/recompute/recompute_search.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

/// Bytes of `budget`; nothing for `min`. `full`: the peak without recomputation.
std::optional<int64_t> BytesOf(const std::string& budget, int64_t full) {
  if (budget == "min") return std::nullopt;
  std::string number = budget;
  const char unit = number.empty() ? ' ' : number.back();
  const char* const kUse =
      "{} is not a budget: expected bytes with an optional K, M or G, a share "
      "as 50%, or min";
  if (unit == '%') {
    number.pop_back();
    const auto share = TryParseDouble(number);
    WEFT_CHECK(share && *share > 0 && *share <= 100, kUsage, fmt::runtime(kUse), budget);
    return int64_t(std::floor(double(full) * *share / 100));
  }
  const int shift = unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0;
  if (shift > 0) number.pop_back();
  const auto v = TryParseInt64(number);
  WEFT_CHECK(v && *v > 0 && *v <= (INT64_MAX >> shift), kUsage, fmt::runtime(kUse), budget);
  return *v << shift;
}

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

int PlanRecomputation(const std::string& path, const std::string& budget, bool json) {
  if (!budget.empty()) (void)BytesOf(budget, 100);  // usage before a long search
  const MemoryFile file = ParseMemoryFile(ReadFile(path), path);
  const MemoryProblem& problem = file.problem;
  CheckProblem(problem);
  const MemoryOrder given = GivenOrder(problem);
  const MemoryUse use = UseOf(problem, given);
  OrderPlan ordered = SearchOrder(problem);
  RecomputeChoice choice;
  if (budget.empty()) {
    choice.plan = {std::move(ordered.order), ordered.peak, 0};
    choice.met = true;
    choice.lower_bound = ordered.lower_bound;
  } else {
    RecomputeGoal goal;
    if (const auto bytes = BytesOf(budget, ordered.peak)) goal.budget = *bytes;
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
