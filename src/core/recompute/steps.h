/// steps.h: a problem of memory as the search for recomputation sees it: steps in the
/// order of their first runs, no views (who reads a view reads the value whose bytes it shows), no
/// values from outside.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "weft/core/plan/memory_problem.h"

namespace weft::recompute {

struct Step {
  std::vector<int> inputs;                   ///< values, each once
  std::vector<int> outputs;                  ///< values
  std::vector<std::pair<int, int>> inplace;  ///< values of equal bytes: (read once, made)
  int64_t scratch = 0;
  int64_t cost = 0;    ///< scaled so that sums of many copies stay within 64 bits
  bool again = false;  ///< it may run more than once
  int until = 0;       ///< the last step that a run of it may stand in front of
  bool MayRunAt(int at) const { return again && at <= until; }
};

struct Steps {
  std::vector<Step> steps;
  std::vector<int64_t> bytes;             ///< by value
  std::vector<int> maker;                 ///< step, by value
  std::vector<std::vector<int>> readers;  ///< steps, ascending, by value
  std::vector<char> keep;                 ///< by value: read after the last step
  std::vector<int> node;                  ///< of the problem, by step

  Steps(const MemoryProblem& problem, const MemoryOrder& given);
};

/// A node that runs again: in front of the first run of step `at`.
struct Copy {
  int at = 0, step = 0;
  bool operator==(const Copy& o) const { return at == o.at && step == o.step; }
  bool operator<(const Copy& o) const { return at != o.at ? at < o.at : step < o.step; }
};
/// Sorted. Copies in front of one step run in the order of their first runs.
using Copies = std::vector<Copy>;

/// The order of the problem that has these copies, and views again wherever what they show was made
/// again since.
MemoryOrder OrderOf(const MemoryProblem& problem, const Steps& steps, const Copies& copies);
/// The same for runs of steps in any order.
MemoryOrder OrderOfRuns(const MemoryProblem& problem, const Steps& steps,
                        const std::vector<int>& runs);

/// What was found: copies, or (for small problems) runs.
struct Found {
  int64_t peak = 0, cost = 0;  ///< as the search counted
  Copies copies;
  std::vector<int> runs;
};

/// Plans of a small problem, each the cheapest below its peak in the order of first runs; none
/// where it is too large. `whole`: the work was enough, and none is lower than the last.
struct Frontier {
  std::vector<Found> plans;
  bool whole = false;
};
Frontier ExactFrontier(const Steps& steps, int64_t peak, int64_t work,
                       const std::function<int64_t(const std::vector<int>&)>& peak_of);

/// Plans by local search, as many as `work` allows.
std::vector<Found> LocalFrontier(const Steps& steps, int64_t work);

}  // namespace weft::recompute
