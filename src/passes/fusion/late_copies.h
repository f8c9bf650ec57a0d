/// late_copies.h: does to the graph what FusionLate has found, so that the sweep sees ordinary
/// nodes, some of which wait for their readers.
///
/// Which nodes become one kernel is known only behind the sweep, so it is tried: a late node whose
/// result would cross to another kernel is copied once more for that kernel, and where that does
/// not help either, the value is kept in memory as it would be without.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "late.h"
#include "sweep.h"
#include "weft/core/graph/typed_edit.h"

namespace weft {

class LateCopies {
 public:
  LateCopies(Graph& g, PassContext& ctx);
  bool any() const { return any_; }
  /// By id: the node is computed where it is read.
  const std::vector<uint8_t>& late() const { return late_; }
  /// After a sweep: is there nothing left to change?
  bool Settle(const FusionPlan& trial);
  int64_t copies() const;

 private:
  /// A node that is read no more orders nothing.
  void DropUnread(NodePtr n);
  NodePtr AddCopy(TypedEdit* edit, NodePtr of, const std::vector<NodeEntry>& inputs);

  Graph& g_;
  bool any_ = false;
  int rounds_ = 0;
  std::vector<uint8_t> late_;
  std::unordered_map<NodeId, NodeId> original_;  // of copies; looked up only
  std::unordered_set<NodeId> unread_;            // nodes that nothing needs; looked up only
};

}  // namespace weft
