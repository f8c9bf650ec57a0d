/// recompute_search.h: which values an order drops and computes again, so that its peak stays below
/// a number of bytes. Works on the account of memory_problem.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/core/plan/memory_problem.h"
#include "weft/support/api.h"

namespace weft {

struct RecomputePlan {
  MemoryOrder order;       ///< a node that is named again runs again
  int64_t peak = 0;        ///< of `order`, by UseOf
  int64_t extra_cost = 0;  ///< of what runs again
  MemoryOrder moved = {};  ///< nodes that run later than given: nothing reads them before
};

/// What is asked of a plan: the cheapest one at most `budget` bytes high; else the lowest one whose
/// extra cost is at most `cost_share` of the cost of the given order; else the lowest one.
struct RecomputeGoal {
  int64_t budget = -1;
  double cost_share = -1;
};

/// How far to look at most (less where there is little to look at), in units of work and not of
/// time: the same problem has the same plans anywhere.
struct RecomputeEffort {
  int64_t work = 30'000'000;
};

/// Plans from no recomputation (the given order, first) to the least memory that was found, each
/// lower and dearer than the one before. They do not depend on a goal, so who takes the cheapest
/// one that fits a budget never gets a higher peak for a smaller budget, nor a dearer plan for a
/// larger one. First runs keep the given order, but for those that only a later run of the same
/// node is read of: they are left out. Polls the request.
WEFT_API std::vector<RecomputePlan> RecomputePlans(const MemoryProblem& problem,
                                                   const MemoryOrder& given,
                                                   const RecomputeEffort& effort = {});

/// While it lives, this thread keeps the lists that RecomputePlans gives, and takes them again for
/// the same problem, order and effort: who comes near a budget asks several times for it.
class WEFT_API RecomputeMemo {
 public:
  RecomputeMemo();
  ~RecomputeMemo();
  RecomputeMemo(const RecomputeMemo&) = delete;
  RecomputeMemo& operator=(const RecomputeMemo&) = delete;
  int64_t taken_again() const;  ///< lists so far

 private:
  struct Impl;
  friend WEFT_API std::vector<RecomputePlan> RecomputePlans(const MemoryProblem&,
                                                            const MemoryOrder&,
                                                            const RecomputeEffort&);
  std::unique_ptr<Impl> impl_;
  RecomputeMemo* const outer_;
};

/// One list of two, of the same problem in two orders: falling peaks, rising costs.
WEFT_API std::vector<RecomputePlan> JoinPlans(std::vector<RecomputePlan> a,
                                              std::vector<RecomputePlan> b);

struct RecomputeChoice {
  RecomputePlan plan;
  bool met = false;         ///< plan.peak <= budget; always where none is asked
  int64_t lower_bound = 0;  ///< no order of this problem has a lower peak: its largest step
};
/// `plans` as RecomputePlans gives them; where none meets the goal, the lowest.
WEFT_API RecomputeChoice ChooseRecompute(const MemoryProblem& problem,
                                         const std::vector<RecomputePlan>& plans,
                                         const RecomputeGoal& goal);
WEFT_API RecomputeChoice PlanRecompute(const MemoryProblem& problem, const MemoryOrder& given,
                                       const RecomputeGoal& goal,
                                       const RecomputeEffort& effort = {});

}  // namespace weft
