/// late_copies.h: does to the graph what FusionLate has found, so that the sweep sees ordinary
/// nodes, some of which wait for their readers.
///
/// Which nodes become one kernel is known only behind the sweep, so it is tried: a late node whose
/// result would cross to another kernel is copied once more for that kernel, and where that does
/// not help either, the value is kept in memory as it would be without. Kernels get so many copies
/// as the plan has values, and none more than it has room for: a chain of which every kernel reads
/// the end would be copied for each, and fit in none.
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
  LateCopies(Graph& g, PassContext& ctx, const LatePlan& plan);
  /// By id: the node is computed where it is read.
  const std::vector<uint8_t>& late() const { return late_; }
  /// After a sweep: is there nothing left to change?
  bool Settle(const FusionPlan& trial);
  /// Are there values that the plan has late and that lie in memory?
  bool gave_back() const { return gave_back_; }
  /// Erases what nothing needs, lest kernels write what it reads. `undo`: the graph is again what
  /// it was.
  void Finish(bool undo);
  /// How many copies kernels hold.
  int64_t CountIn(const FusionPlan& plan) const;

 private:
  /// An input that reads something else now, or a control edge that came or went.
  struct Change {
    NodePtr user;
    uint32_t slot = 0;
    NodeEntry before;    ///< of an input
    NodePtr dependency;  ///< of a control edge, else null
    bool added = false;
  };
  void Undo();
  void SetInput(NodePtr user, uint32_t slot, NodePtr to);
  /// A node that is read no more orders nothing.
  void DropUnread(NodePtr n);
  /// It does again, and so does what it reads.
  void ReadAgain(NodePtr n);
  /// `writers`: those of control edges from `of`.
  NodePtr AddCopy(TypedEdit* edit, NodePtr of, const std::vector<NodeEntry>& inputs,
                  const std::vector<NodePtr>& writers);

  Graph& g_;
  const int64_t max_ops_;
  int64_t clones_left_ = 0;
  bool gave_back_ = false;
  std::vector<Change> changes_;
  int rounds_ = 0;
  std::vector<uint8_t> late_;
  std::unordered_map<NodeId, NodeId> original_;  // of copies; looked up only
  std::unordered_set<NodeId> unread_;            // nodes that nothing needs; looked up only
  std::unordered_map<NodeId, std::vector<NodePtr>>
      dropped_;  // what waited for them; looked up only
};

}  // namespace weft
