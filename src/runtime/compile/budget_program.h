/// budget_program.h: programs with a memory budget: one graph planned in several ways, from no
/// recomputation to the least memory, of which each run takes the cheapest that fits at its
/// extents. Private to the runtime.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/program/program_impl.h"
#include "weft/core/plan/scratch.h"

namespace weft {

/// The plans of one graph for a budget.
struct PlannedWays {
  /// Of the same inputs and results, at least one; the first takes the most memory and the least
  /// time.
  std::vector<std::unique_ptr<Program::Impl>> ways;
  /// Where the extents are known: in bytes, and `ways` is the one that was chosen.
  MemoryBudget budget;
  std::vector<MemoryWay> known;  ///< then: all that were looked at, the chosen one last
};

/// Plans one way: for at most so many bytes of an arena where symbols have the values `at`; 0: as
/// few as can be; INT64_MAX: nothing is computed twice. `scratch`: what nodes of the graph take
/// beside tensors there, as far as a way that was planned before tells.
using PlanWay = std::function<std::unique_ptr<Program::Impl>(
    int64_t arena_bytes, const ScratchMap& scratch, const SymBindings& at)>;

/// The ways that a program needs. `hints`: a value of every symbol of its inputs; `is_static`:
/// there are none. Throws kOutOfMemory where the extents are known and no way meets the budget.
PlannedWays PlanWays(const MemoryBudget& budget, const SymBindings& hints, bool is_static,
                     const PlanWay& plan);

std::unique_ptr<Program::Impl> MakeBudgetProgram(PlannedWays planned);

/// Operations that copies (`recompute_of`) of the graph do again at these values, and their number.
MemoryWay WayOf(const Graph& graph, const SymBindings& bindings);

}  // namespace weft
