/// rules.h: what one kernel may compute: whether a node and the group that it reads have one space.
#pragma once

#include "groups.h"
#include "nodes.h"

namespace weft {

class FusionRules {
 public:
  FusionRules(FusionNodes& nodes, FusionGroups& groups) : nodes_(nodes), groups_(groups) {}
  /// Space and reductions of the fresh group of a fusible node.
  void Describe(NodeId id, EntryKeys inputs, FusionGroups::Group* group);
  /// One space for the groups `mine`, of the node, and `p`, which it reads, as far as the edges
  /// between them tell; false where there is none.
  bool Compatible(NodePtr n, EntryKeys inputs, int mine, int p, Space* merged);
  /// The union of two spaces: equal, or one of them a row space of the other.
  static bool Unite(const Space& a, const Space& b, Space* out);

 private:
  template <class F>
  bool EachEdge(EntryKeys inputs, int p, F&& f) {
    for (uint32_t i = 0; i < inputs.count; ++i)
      if (inputs[i].present() && groups_.Find(nodes_[inputs[i].id].group) == p && !f(i, inputs[i]))
        return false;
    return true;
  }
  /// These are all uses of what is in group `p`.
  bool IsOnlyReadHere(EntryKeys inputs, int p);
  bool ElementwiseJoins(NodePtr n, EntryKeys inputs, const Space& a, const Space& b, int p,
                        Space* merged);
  bool ReductionJoins(NodePtr n, EntryKeys inputs, const Space& a, const Space& b, int p,
                      Space* merged);
  bool InjectiveJoins(NodePtr n, EntryKeys inputs, const Space& a, const Space& b, int p,
                      Space* merged);
  bool LocalJoins(NodePtr n, EntryKeys inputs, const Space& a, const Space& b, int p,
                  Space* merged);
  FusionNodes& nodes_;
  FusionGroups& groups_;
};

}  // namespace weft
