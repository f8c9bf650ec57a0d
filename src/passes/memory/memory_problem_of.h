/// memory_problem_of.h: a graph as the account of memory sees it (core/plan/memory_problem.h).
#pragma once

#include <vector>

#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/plan/memory_problem.h"
#include "weft/core/plan/size_hints.h"

namespace weft {

/// Numbers for sizes, for decisions that any number leaves right: those of the attribute `hint`,
/// else `assumed`, within what the facts of the graph allow.
class SizeGuess {
 public:
  explicit SizeGuess(const Graph& graph, int64_t assumed = kAssumedExtent);
  /// `assumed` for what is unknown; at least 0, at most 2^48.
  int64_t Of(SymInt size);

 private:
  int64_t OfSymbol(SymInt symbol);

  const int64_t assumed_;
  const SizeHints hints_;
  const Facts facts_;
  SymBindings symbols_;                          // guessed so far
  std::unordered_map<SymInt, int64_t> guesses_;  // looked up only
};

/// Node k is `order[k]`, value i is entry `entries[i]`.
struct GraphMemory {
  MemoryProblem problem;
  std::vector<NodeEntry> entries;
};

/// The arena's bytes of a graph that PlanMemory can plan. `order`: its nodes, producers first.
/// Inputs, constants, variables, their new contents and results of the graph lie outside. Reads and
/// writes of a variable, and other effects, stay in the order in which they are. Scratch memory of
/// nodes is what the attribute `scratch` says of it (core/plan/scratch.h). `costs`:
/// operations and bytes moved of every node, which takes a look at the bodies of kernels; else 0.
GraphMemory MemoryProblemOf(const Graph& graph, const std::vector<NodePtr>& order,
                            bool costs = true, int64_t assumed = kAssumedExtent);

}  // namespace weft
