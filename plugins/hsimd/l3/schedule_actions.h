/// schedule_actions.h: schedules as lists of actions, which fit a budget by their order alone, and
/// the cycles in which they happen. Private to the scheduler.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule.h"

namespace hsimd {

struct Action {
  enum Kind { kRun, kLoad, kStore, kDrop } kind = kRun;
  int index = 0;  ///< node or value
};
using Actions = std::vector<Action>;
using Words = std::vector<int64_t>;  ///< by memory

/// What the scheduler looks up often.
struct ScheduleTables {
  explicit ScheduleTables(const ScheduleProblem& problem);
  const ScheduleProblem& problem;
  std::vector<int> producer;  ///< by value; -1
  /// By value: whether it can be computed again from what lies off chip.
  std::vector<char> again;
  std::vector<std::vector<int>> inputs;  ///< by node, each once
  /// By node: what it needs near by itself, by memory.
  std::vector<Words> needs;
};

/// When the actions happen: each as soon as its unit, its values and room in the budgets are there,
/// in the order of the list on the link, on the machine, and for room.
Schedule TimeActions(const ScheduleTables& tables, const Actions& actions, const Words& budgets);

/// Loads moved ahead of up to `runs` runs where there is room, and stores as early as can be.
Actions Ahead(const ScheduleTables& tables, const Actions& actions, const Words& budgets, int runs);

/// The least sum of cycles by best-first search over what is near, off chip and computed; without
/// overlap, for few values and nodes. Nothing where `most_states` do not suffice.
std::optional<Actions> LeastActions(const ScheduleTables& tables, const Words& budgets,
                                    int64_t most_states);

/// How a list of actions is made from an order.
struct ActionPolicy {
  std::vector<int> order;       ///< nodes
  std::vector<double> keep;     ///< by value: factor of its worth
  std::vector<char> recompute;  ///< by value: computed again rather than stored, where it can be
  bool always_from_dram = false;
  /// Worth of a value near: 0: the sooner its next use; 1: cycles to bring it back, by words and
  /// time until then.
  int worth = 0;
};

/// Nothing where computing again needs more room than there is.
std::optional<Actions> MakeActions(const ScheduleTables& tables, const ActionPolicy& policy,
                                   const Words& budgets, int64_t* work);

}  // namespace hsimd
