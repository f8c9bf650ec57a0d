/// late.h: values that are computed where they are read, long after their operands are there.
///
/// The gradient of a normalisation reads h = (x - mean) / deviation. Its operands are there as soon
/// as the statistics are, and it would fit into the kernel that has them, which would write as many
/// elements as it reads. But x stays in memory anyway: whoever reads h can as well read x. So it is
/// with a Cast to a wider type on the way.
///
///   before  {%m = Mean(%x)  %y = f(%x, %m)  %h = Sub(%x, %m)}   %g = Conv..
///           {%s = ReduceSum(Mul(%g, %h))}
///   after   {%m = Mean(%x)  %y = f(%x, %m)}   %g = Conv..
///           {%h = Sub(%x, %m)  %s = ReduceSum(Mul(%g, %h))}
#pragma once

#include <vector>

#include "nodes.h"

namespace weft {

class FusionLate {
 public:
  explicit FusionLate(FusionNodes& nodes) : nodes_(nodes) {}
  /// `order`: topological; `inputs(k)`: of order[k]. All nodes have their rows.
  template <class Inputs>
  void Find(const std::vector<NodePtr>& order, Inputs&& inputs) {
    depth_.assign(nodes_.bound(), 0);
    late_.assign(nodes_.bound(), 0);
    for (size_t k = 0; k < order.size(); ++k) NoteDepth(order[k]->id(), inputs(k));
    for (size_t k = order.size(); k-- > 0;) Propose(order[k], inputs(k));
    for (size_t k = 0; k < order.size(); ++k) Decide(order[k], inputs(k));
    depth_.clear();
  }
  bool Is(NodeId id) const { return !late_.empty() && late_[id]; }
  /// A Cast to a wider type: who reads what it reads, instead of what it makes, reads less.
  bool Widens(NodePtr n, EntryKeys inputs) const;

 private:
  void NoteDepth(NodeId id, EntryKeys inputs);
  void Propose(NodePtr n, EntryKeys inputs);
  void Decide(NodePtr n, EntryKeys inputs);
  const EntryKey* OnlyFull(NodePtr n, EntryKeys inputs);
  bool ReadAtOnce(NodePtr n, const EntryKey& full);

  FusionNodes& nodes_;
  /// calls that kernels have to wait for; of a late node those of its readers
  std::vector<int> depth_;
  std::vector<uint8_t> late_;  ///< by id
};

}  // namespace weft
