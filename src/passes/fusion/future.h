/// future.h: over which axes the elements of a value will be reduced.
///
/// One kernel reduces a space over one set of axes. Where a graph reduces a space over several (the
/// gradient of LayerNormalization: rows for dx, columns for the scale), a value that will be summed
/// down the columns must not end in a kernel of rows only because both read one tensor: it would be
/// written out, and the columns could not take it in.
#pragma once

#include <unordered_map>
#include <vector>

#include "rules.h"

namespace weft {

class FusionFuture {
 public:
  explicit FusionFuture(FusionNodes& nodes) : nodes_(nodes) {}
  /// Could it matter? Only then all nodes are looked at before they are placed.
  bool Matters(const std::vector<NodePtr>& order);
  /// `inputs(k)`: of order[k]. All nodes have their rows.
  template <class Inputs>
  void Find(const std::vector<NodeId>& ids, FusionRules& rules, Inputs&& inputs) {
    for (size_t k = 0; k < ids.size(); ++k) NoteReduction(ids[k], inputs(k), rules);
    if (!several_) return;
    sets_.assign(nodes_.bound(), 0);
    source_.assign(nodes_.bound(), -1);
    for (size_t k = 0; k < ids.size(); ++k) NoteSource(ids[k], inputs(k));
    for (size_t k = ids.size(); k-- > 0;) PassOn(ids[k], inputs(k));
  }
  /// Of an element-wise node: a bit for every set of axes that its space is reduced over behind it;
  /// of a reduction its own. 0: nothing is known, or nothing follows.
  uint32_t Of(NodeId id) const { return sets_.empty() ? 0 : sets_[id]; }

 private:
  void NoteReduction(NodeId id, EntryKeys inputs, FusionRules& rules);
  void NoteSource(NodeId id, EntryKeys inputs);
  void PassOn(NodeId id, EntryKeys inputs);

  FusionNodes& nodes_;
  std::unordered_map<int, std::vector<uint64_t>> axes_;  ///< by space; looked up only
  std::unordered_map<NodeId, std::pair<int, uint32_t>>
      reductions_;        ///< space and bit; looked up only
  bool several_ = false;  ///< some space is reduced in two ways
  std::vector<uint32_t> sets_;
  std::vector<int> source_;  ///< of a row value: the space whose reduction it comes from; -1: none
};

}  // namespace weft
