/// late.h: which values are computed where they are read, long after their operands are there.
///
/// Kernels in front of library calls and kernels behind them read the same values: those of a
/// forward pass and their gradients. What crosses lies in memory meanwhile, so it is chosen by a
/// least cut: a late kernel gets what it reads from tensors that take the fewest bytes for the
/// shortest time, and computes the rest again, element by element, from the same operators. Here
/// x - mean, which the gradient of a normalisation reads; x is in memory anyway:
///
///   before  {%m = Mean(%x)  %h = Sub(%x, %m)  %y = f(%h)}   %g = Conv..
///           {%s = ReduceSum(Mul(%g, %h))}
///   after   {%m = Mean(%x)  %h = Sub(%x, %m)  %y = f(%h)}   %g = Conv..
///           {%c = Sub(%x, %m)  %s = ReduceSum(Mul(%g, %c))}
///
///   time     of a node: library calls in a row that it waits for. A value crosses where its reader
///            has a later one. Times are taken from the last to the first, since what one reader
///            holds is free for those before it.
///   cut      nodes: element-wise operators over the space of the reader, and reductions that only
///            late ones read. Capacity of a node: bytes, times the share of the way from where it
///            is there to its reader that nothing else holds it, and less for reading it, and for
///            writing it where nothing else needs it in memory. Cost of a node behind the cut: its
///            arithmetic, unless it only moves.
///   never    copies a reduction, a loop inside a point, a draw or an effect
///   source   recomputation by least cuts: functorch's min-cut partitioner (2022), there between
///            two passes that are known beforehand, here between any two library calls
#pragma once

#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "nodes.h"
#include "weft/core/pass/pass.h"

namespace weft {

/// What is computed late.
struct LatePlan {
  /// An operand: an entry of the graph, or copy number `copy`.
  struct Operand {
    EntryKey entry;
    int copy = -1;
  };
  struct Copy {
    NodeId of;
    std::vector<Operand> operands;
  };
  /// Input `slot` of `user` reads output 0 of a copy instead.
  struct Use {
    NodeId user;
    uint32_t slot;
    int copy;
  };
  std::vector<Copy> copies;   ///< operands first
  std::vector<NodeId> moved;  ///< read late only: nothing computes them early
  std::vector<Use> uses;
  bool empty() const { return copies.empty() && moved.empty(); }
};

class FusionLate {
 public:
  FusionLate(const Graph& g, PassContext& ctx);
  LatePlan Run();

 private:
  class Cutter;
  static constexpr int kForever = std::numeric_limits<int>::max(), kNever = -1;

  void Read();
  void Cut(int time, const std::vector<uint32_t>& kernels);
  void FindTimes();
  void FindHolds();
  /// A kernel may take in what computes its operands.
  bool IsSoft(NodeId id) {
    return nodes_[id].kind == NodeKind::kElementwise || nodes_[id].kind == NodeKind::kReduction;
  }
  void Hold(const EntryKey& e, int time);
  int HeldUntil(const EntryKey& e) const;
  EntryKey RootOf(EntryKey e);
  EntryKeys InputsOf(NodeId id) const {
    const uint32_t k = place_[id];
    return {inputs_.data() + begin_[k], begin_[k + 1] - begin_[k]};
  }

  /// It writes a variable: what it waits for may be done later.
  bool Writes(NodePtr n) const;
  int64_t Bytes(const EntryKey& e);
  int64_t KeepCost(const EntryKey& e, int time);
  int64_t Arithmetic(NodePtr n);
  int64_t TwiceCost(NodePtr n);
  bool IsCopyable(NodePtr n, int space);
  bool IsMovable(NodePtr n, int space, int time);
  bool IsRowValue(NodePtr n, int space, int time);

  const Graph& g_;
  PassContext& ctx_;
  FusionNodes nodes_;
  std::vector<NodePtr> order_;
  std::vector<uint32_t> begin_, place_;  // of inputs by place in the order; place by id
  std::vector<EntryKey> inputs_;
  std::vector<uint8_t> waits_, moved_;  // by id
  std::vector<int> time_, latest_;      // by id: calls waited for; the same of the first reader
  /// The last time at which something else than a kernel that may do without reads the entry;
  /// kForever: it is in memory anyway. Of outputs 0 by id.
  std::vector<int> held_;
  std::unordered_map<uint64_t, int> more_held_;        // looked up only
  std::unordered_set<uint64_t> redirected_;            // looked up only
  std::unordered_map<const Op*, int64_t> arithmetic_;  // looked up only
  LatePlan plan_;
};

}  // namespace weft
