/// addresses.cc: stays of values as items of the core's offset planner; bytes there are words here.
#include "addresses.h"

#include <algorithm>

#include "weft/support/check.h"

namespace hsimd {
namespace {

/// Plans with smaller budgets before giving up on a mode.
constexpr int kMostCuts = 12;
/// Looks of a search for addresses, about 0.2 s.
constexpr int64_t kSearchWork = 200'000'000;

/// The stays of one memory; cycles become ranks, since the planner counts steps.
struct Items {
  std::vector<size_t> stays;
  std::vector<weft::PlanItem> items;
};

Items ItemsOf(const ScheduleProblem& problem, const Schedule& schedule, int memory,
              int64_t alignment) {
  std::vector<int64_t> cycles;
  for (const Stay& stay : schedule.stays) {
    cycles.push_back(stay.begin);
    cycles.push_back(stay.end);
  }
  std::sort(cycles.begin(), cycles.end());
  cycles.erase(std::unique(cycles.begin(), cycles.end()), cycles.end());
  const auto rank = [&cycles](int64_t cycle) {
    return int(std::lower_bound(cycles.begin(), cycles.end(), cycle) - cycles.begin());
  };
  Items out;
  for (size_t s = 0; s < schedule.stays.size(); ++s) {
    const Stay& stay = schedule.stays[s];
    const ScheduleProblem::Value& value = problem.values[size_t(stay.value)];
    if (value.memory != memory) continue;
    out.stays.push_back(s);
    out.items.push_back({value.words, rank(stay.begin), rank(stay.end), alignment});
  }
  return out;
}

}  // namespace

weft::Plan PlanWithin(const std::vector<weft::PlanItem>& items, int64_t capacity) {
  weft::PlanEffort effort;
  effort.capacity = capacity;
  weft::Plan plan = weft::PlanOffsets(items, effort);
  if (plan.arena_bytes > capacity && plan.lower_bound <= capacity) {
    effort.work = kSearchWork;
    plan = weft::PlanOffsets(items, effort);
  }
  weft::VerifyPlan(items, plan);
  return plan;
}

bool AddressPlan::Fits(const ScheduleProblem& problem) const {
  for (size_t m = 0; m < used_words.size(); ++m)
    if (used_words[m] > problem.memories[m].budget) return false;
  return true;
}

AddressPlan PlanAddresses(const ScheduleProblem& problem, const Schedule& schedule,
                          const std::vector<int64_t>& alignment) {
  WEFT_ICHECK(alignment.empty() || alignment.size() == problem.memories.size(),
              "{} alignments for {} memories", alignment.size(), problem.memories.size());
  AddressPlan out;
  out.base.assign(schedule.stays.size(), 0);
  for (size_t m = 0; m < problem.memories.size(); ++m) {
    const Items items = ItemsOf(problem, schedule, int(m), alignment.empty() ? 1 : alignment[m]);
    const weft::Plan plan = PlanWithin(items.items, problem.memories[m].budget);
    for (size_t k = 0; k < items.stays.size(); ++k) out.base[items.stays[k]] = plan.offsets[k];
    out.used_words.push_back(plan.arena_bytes);
  }
  return out;
}

PlacedSchedule PlanPlacedSchedule(const ScheduleProblem& problem,
                                  const std::vector<int64_t>& alignment, ScheduleMode mode,
                                  const ScheduleEffort& effort) {
  ScheduleProblem cut = problem;
  const std::vector<LeastBudget> least = LeastBudgets(problem);
  for (int k = 0; k < kMostCuts; ++k) {
    PlacedSchedule placed;
    placed.schedule = PlanSchedule(cut, mode, effort);
    placed.addresses = PlanAddresses(problem, placed.schedule, alignment);
    if (placed.addresses.Fits(problem)) return placed;
    bool smaller = false;
    for (size_t m = 0; m < problem.memories.size(); ++m) {
      const int64_t over = placed.addresses.used_words[m] - problem.memories[m].budget;
      if (over <= 0) continue;
      const int64_t budget = std::max(
          least[m].words, std::min(cut.memories[m].budget, placed.schedule.peak_words[m]) - over);
      smaller = smaller || budget < cut.memories[m].budget;
      cut.memories[m].budget = budget;
    }
    if (!smaller) break;
  }
  // One node at a time: all that is near overlaps in time, so there are no holes.
  cut = problem;
  cut.overlap = false;
  PlacedSchedule placed;
  placed.schedule = PlanSchedule(cut, ScheduleMode::kFromDram, effort);
  placed.addresses = PlanAddresses(problem, placed.schedule, alignment);
  for (size_t m = 0; m < problem.memories.size(); ++m)
    WEFT_CHECK(placed.addresses.used_words[m] <= problem.memories[m].budget, kLimit,
               "addresses need {} words of {}, aligned; the budget is {}",
               placed.addresses.used_words[m], problem.memories[m].name,
               problem.memories[m].budget);
  return placed;
}

}  // namespace hsimd
