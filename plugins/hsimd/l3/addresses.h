/// addresses.h: addresses for the values of a schedule, memory by memory, by the core's planner.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule.h"
#include "weft/core/plan/offset_planner.h"

namespace hsimd {

/// Addresses of one memory, in words, of which `capacity` are as good as fewer: with a search where
/// that decides whether they suffice. Checked; throws what PlanOffsets throws.
weft::Plan PlanWithin(const std::vector<weft::PlanItem>& items, int64_t capacity);

struct AddressPlan {
  std::vector<int64_t> base;        ///< words, one per stay of the schedule
  std::vector<int64_t> used_words;  ///< by memory
  bool Fits(const ScheduleProblem& problem) const;
};

/// `alignment`: by memory, of every base, words; empty: 1. A plan may need more words than the
/// budget although no cycle has more alive (holes): then Fits is false, and the caller plans the
/// schedule again with a budget smaller by what is missing. Throws what PlanOffsets throws.
AddressPlan PlanAddresses(const ScheduleProblem& problem, const Schedule& schedule,
                          const std::vector<int64_t>& alignment = {});

/// A schedule whose addresses fit: plans both, with budgets cut until the addresses fit. Throws as
/// PlanSchedule, and kLimit where no cut fits.
struct PlacedSchedule {
  Schedule schedule;
  AddressPlan addresses;
};
PlacedSchedule PlanPlacedSchedule(const ScheduleProblem& problem,
                                  const std::vector<int64_t>& alignment = {},
                                  ScheduleMode mode = ScheduleMode::kPlan,
                                  const ScheduleEffort& effort = {});

}  // namespace hsimd
