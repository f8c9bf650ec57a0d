/// body_exit.h: nodes that leave the body of a Loop or Scan for the graph around it.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

/// How a body gets a value in an iteration.
enum class BodyRole : uint8_t {
  kInvariant,  ///< a capture or a constant: the same in all
  kSlice,      ///< that of an operand of a Scan
  kVarying,    ///< a state, or what the body computes of one
};

class BodyExit {
 public:
  /// `loop` is a Loop or a Scan of `graph`; `body` its body, as inference left it.
  BodyExit(Graph& graph, const NodePtr& loop, Graph body);
  Graph& graph() const { return graph_; }
  const Graph& body() const { return body_; }
  /// Of an input, a constant or what has left; the rest varies.
  BodyRole role(const NodeEntry& e) const;
  /// What stands outside for an invariant or a slice: for a slice all of them, on the first axis.
  NodeEntry outside(const NodeEntry& e);
  /// The node has left: its result is this outside, and what `role` says inside.
  void Leave(const NodePtr& node, const NodeEntry& outside, BodyRole role);
  /// The loop anew, whose body gets what has left and is read in it. Nothing else may be called
  /// then.
  void Finish();

 private:
  Graph& graph_;
  NodePtr loop_;
  Graph body_;
  size_t first_slice_ = 0, first_capture_ = 0;  // of the operands and the inputs
  struct Outside {
    NodeEntry entry;
    BodyRole role = BodyRole::kVarying;
  };
  std::unordered_map<EntryKey, Outside> outside_;
  std::vector<NodeEntry> left_;  // of the body
};

/// The graph without what `leave` takes out of its loops; true: something has left. `names`: the
/// operators that count as loops. Needs "shape" and "dtype".
Graph LeaveLoops(Graph g, const std::vector<std::string>& names,
                 const std::function<bool(const NodePtr& loop, BodyExit& exit)>& leave);

}  // namespace weft
