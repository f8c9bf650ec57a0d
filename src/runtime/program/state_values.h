/// state_values.h: state variables of a graph that is to become regions: written when a run has
/// ended, so that one that fails leaves them as they were.
#pragma once

#include "weft/core/graph/graph.h"

namespace weft {

/// Takes writes and reads of state variables out of a graph, in the order of the program: who read
/// a variable behind a write reads the value that was written.
///
///   a = Assign(v, f(v));  y = g(Read(v))   ->   y = g(f(v)), and f(v) is another output
///
/// Between construction and Restore the graph has an output for each variable that it writes,
/// behind its own. Throws kUnsupported for an operator that writes in another way.
class StateValues {
 public:
  explicit StateValues(Graph* graph);
  /// These outputs become one weft::Assign for each variable again, which no other node reads:
  /// whoever runs the graph does so last.
  void Restore(Graph* graph) const;

 private:
  std::vector<NodePtr> written_;  ///< variables, in the graph from before
  Graph before_;                  ///< holds them
};

}  // namespace weft
