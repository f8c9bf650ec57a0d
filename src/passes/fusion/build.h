/// build.h: turns the groups of a plan into weft::Fused nodes with bodies.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "sweep.h"
#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/core/graph/typed_edit.h"

namespace weft {

class FusedBuilder {
 public:
  FusedBuilder(Graph& g, const FusionPlan& plan);
  /// What others read of a kernel's members becomes an output of its fused node. Scalars and
  /// tensors whose value is followed are copied into the body; every other outside value becomes
  /// an operand, once. The members move into the body; then what is dead is erased, and the rows
  /// and `subgraph` are stored.
  void Run();

 private:
  /// A use of a member's output by a node that is no member of its kernel.
  struct Crossing {
    Node* user;
    uint32_t slot;
    EntryKey entry;
  };
  struct Kernel {
    NodePtr node;
    std::shared_ptr<Graph> body;
    std::vector<NodeEntry> results;  ///< entries of members
  };
  class Body;

  int KernelOf(NodeId id) const { return plan_.kernel_of[id]; }
  bool IsMember(NodeId id, int kernel) const {
    return id < plan_.kernel_of.size() && KernelOf(id) == kernel;  // fused nodes came later
  }
  const NodePtr* begin(int kernel) const { return members_.data() + begin_[size_t(kernel)]; }
  const NodePtr* end(int kernel) const { return members_.data() + begin_[size_t(kernel) + 1]; }
  void CollectMembers();
  void OrderByParts();
  Ints ResultsOfParts(int kernel) const;
  void FindCrossings();
  void Cross(Node* user, uint32_t slot, const EntryKey& e, int kernel);
  void Read(const EntryKey& e);
  void AddFused(int kernel);
  NodeEntry FusedEntry(const EntryKey& e) const;
  void Redirect();
  void RedirectControl(int kernel);
  void FillBody(int kernel);
  void Finish();

  Graph& g_;
  const FusionPlan& plan_;
  SubgraphMap bodies_;
  TypedEdit edit_;                // a fused entry is as the one that it replaces
  std::vector<NodePtr> members_;  // by kernel, topological
  std::vector<NodeId> member_ids_;
  std::vector<uint32_t> begin_;  // of each kernel in members_
  std::vector<Crossing> crossings_;
  std::vector<Kernel> kernels_;
  /// Number of the result that an entry is: of outputs 0 by node id, of others beside them.
  static constexpr int kNotRead = -1, kRead = -2;
  std::vector<int> result_;
  std::unordered_map<EntryKey, int> more_results_;  // looked up only
};

}  // namespace weft
