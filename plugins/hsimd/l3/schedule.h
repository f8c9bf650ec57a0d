/// schedule.h: in what order nodes run, and when values are loaded ahead, stored, loaded again or
/// computed again, by cycles, under a budget of words that is never passed: the scheduler as an
/// algorithm on a plain problem.
///
/// A value lies in a memory of the machine ("near"), off chip ("DRAM"), or in both. A node runs
/// when its inputs are near and there is room for its outputs. Loads and stores go over one link,
/// nodes run on the rest of the machine; the two overlap in time where the machine allows it. Room
/// that is given back can be used from the cycle on in which its last user has finished.
///
/// New state is written over the old by a node that `overwrites` it, after all that read it: from
/// there on it cannot be loaded again.
///
/// Copies that the core's Checkpoint made are nodes of their own here, with `after` edges that hold
/// them back: what was marked to be computed again is, whatever the scheduler would choose.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hsimd {

struct ScheduleProblem {
  struct Memory {
    std::string name;
    int64_t budget = 0;  ///< words
  };
  struct Value {
    std::string name;
    int64_t words = 0;                          ///< of its memory, in every place of it
    int memory = 0;                             ///< where it lies when it is near
    int64_t load_cycles = 0, store_cycles = 0;  ///< of the link
    bool in_dram = false;  ///< lies off chip from the start: inputs, weights, state
    bool to_dram = false;  ///< has to lie off chip at the end: results, new state
  };
  struct Node {
    std::string name;
    int64_t cycles = 0;
    std::vector<int> inputs, outputs;      ///< values; each value is the output of at most one node
    std::vector<int64_t> workspace_words;  ///< by memory, while it runs; empty: none
    std::vector<int> after;                ///< nodes that must have run before
    bool may_run_again = false;            ///< no side effects, no random state
    /// Values that lie off chip no more once it has begun.
    std::vector<int> overwrites = {};
  };
  std::vector<Memory> memories;
  std::vector<Value> values;
  std::vector<Node> nodes;  ///< in an order that is possible
  bool overlap = true;      ///< the link works while nodes run; else all share one slot
};

enum class ScheduleMode {
  kFromDram,  ///< every node loads its inputs and stores its outputs
  kReuse,     ///< in the given order; what is needed last is put out first (Belady)
  kPlan,      ///< the cheapest found by search; never more cycles than the other two
};

struct ScheduleEffort {
  int64_t work = 300'000'000;  ///< steps looked at, about 1 ns each
  /// Up to this many values and nodes the least cycles are searched exactly.
  int exact_values = 10;
};

/// One thing that happens, in cycles [begin, end).
struct ScheduleStep {
  enum Kind { kRun, kLoad, kStore } kind = kRun;
  int index = 0;  ///< the node, or the value
  int64_t begin = 0, end = 0;
  bool again = false;  ///< kRun: it ran before; kLoad: it was near before (a refill)
};

/// A value near, in cycles [begin, end): from the start of what brings it until its last user there
/// has finished.
struct Stay {
  int value = 0;
  int64_t begin = 0, end = 0;
};

struct Schedule {
  ScheduleMode mode = ScheduleMode::kPlan;  ///< which one was cheapest
  std::vector<ScheduleStep> steps;          ///< by begin
  std::vector<Stay> stays;                  ///< by begin
  int64_t cycles = 0;
  int64_t bound_cycles = 0;  ///< no schedule takes less: the larger of (sum, without overlap) work
                             ///< of nodes and compulsory loads and stores
  std::vector<int64_t> peak_words;  ///< by memory
  int64_t spilled_words = 0;
  int recomputed = 0;  ///< runs of nodes beyond the first
};

/// Cycles never rise with the budgets when all of them grow in one proportion (or one memory's
/// does, the others being equal). Throws weft::Error: kLimit where a budget is below the least that
/// one node needs, telling the least, the memory and the node; InternalError for a problem out of
/// shape; kOverflow. Deterministic.
Schedule PlanSchedule(const ScheduleProblem& problem, ScheduleMode mode = ScheduleMode::kPlan,
                      const ScheduleEffort& effort = {});

/// By memory: the least budget with which every node can run, and the node that needs it.
struct LeastBudget {
  int64_t words = 0;
  int node = -1;
};
std::vector<LeastBudget> LeastBudgets(const ScheduleProblem& problem);

/// By memory: words with which nothing ever has to leave before its last use, in the given order.
std::vector<int64_t> FullBudgets(const ScheduleProblem& problem);

/// Checks a schedule by itself, whoever made it: every node runs, with its inputs near; budgets
/// hold in every cycle; one thing at a time on the link and on the machine; results lie off chip at
/// the end. Throws InternalError naming the step.
void VerifySchedule(const ScheduleProblem& problem, const Schedule& schedule);

}  // namespace hsimd
