/// nodes.h: what Fusion knows of each node, in one dense table by id.
#pragma once

#include <vector>

#include "kind.h"
#include "space.h"
#include "weft/core/graph/graph.h"
#include "weft/core/op/op.h"
#include "weft/core/takes_dtype.h"

namespace weft {

/// Asks for the cache line of what is read soon.
inline void PrefetchLine(const void* p) {
#if defined(__GNUC__)
  __builtin_prefetch(p);
#else
  (void)p;
#endif
}

/// Inputs of one node.
struct EntryKeys {
  const EntryKey* first;
  uint32_t count;
  const EntryKey* begin() const { return first; }
  const EntryKey* end() const { return first + count; }
  const EntryKey& operator[](uint32_t i) const { return first[i]; }
};

struct FusionNode {
  int group = -1;
  int shape = -1;       ///< Spaces number of output 0, -1: not known
  int node_class = -1;  ///< of a general op, see ClassOf
  NodeKind kind = NodeKind::kOpaque;
  bool computable = false;  ///< output 0 is a tensor that kernels compute with, its shape known
  bool after = false;       ///< it uses a result of a reduction in its own group
  uint16_t op = 0;          ///< the operator's number, cut to 16 bits; of a variable kVariable
  static constexpr uint16_t kVariable = 0xffff;
};

class FusionNodes {
 public:
  /// `libraries`: operators that a library of the target runs are left to it.
  FusionNodes(const Graph& g, const Target& target, bool libraries);
  FusionNode& operator[](NodeId id) { return rows_[id]; }
  /// Fills the row of a node whose producers have theirs.
  void Look(NodePtr n, EntryKeys inputs);
  /// Asks for what Look will read of a node.
  void Prefetch(NodeId id) const {
    if (const Shape* s = facts_.shapes.find(id, 0)) PrefetchLine(s->dims().data());
  }
  bool IsView(const Op* op) { return FactsOf(op).view; }
  /// Its expression must be looked at to know.
  bool MayReduce(const Op* op) {
    const OpFacts& f = FactsOf(op);
    return f.has_code && !f.elementwise && !f.view && !f.opaque;
  }
  /// Kernels may have to wait for it.
  bool MayWait(const Op* op) {
    const OpFacts& f = FactsOf(op);
    return (!f.has_code || f.opaque) && !f.view && op->index() != constant_ &&
           op->index() != read_ && op->index() != group_;
  }
  NodeId bound() const { return NodeId(rows_.size()); }
  /// A weft::Assign that a kernel may hold.
  bool Assigns(NodeId id) const {
    return rows_[id].op == assign_ && rows_[id].kind == NodeKind::kElementwise;
  }
  /// The variable whose content the node gives without work: itself, or what a
  /// weft::Read reads; kAbsent: none.
  NodeId ContentOf(NodeId id) const {
    const FusionNode& n = rows_[id];
    if (n.op == FusionNode::kVariable) return id;
    if (n.op != read_) return EntryKey::kAbsent;
    return g_.node(id)->inputs[0].node->id();
  }
  DType TypeOf(const EntryKey& e) const {
    const Type* t = facts_.types.find(e.id, e.index);
    return t ? t->dtype : DType::kUnknown;
  }
  TensorPtr ConstantOf(const EntryKey& e) const {
    return Graph::ConstantOf(NodeEntry(g_.node(e.id), e.index));
  }
  bool IsGroup(NodeId id) const { return rows_[id].op == group_; }
  const NodeClass* ClassOf(NodeId id) const {
    const int c = rows_[id].node_class;
    return c < 0 ? nullptr : &classes_[size_t(c)];
  }
  /// Of an entry whose producer has its row; -1: not known.
  int ShapeOf(const EntryKey& e) {
    return e.index == 0 ? rows_[e.id].shape
                        : spaces_.ShapeNumber(facts_.shapes.find(e.id, e.index));
  }
  int SpaceOf(const EntryKey& e) { return spaces_.SpaceOf(ShapeOf(e)); }
  Spaces& spaces() { return spaces_; }
  /// How many outputs of the graph are outputs of this node.
  int OutputUses(NodePtr n) const;
  /// Something reads that output.
  bool IsRead(NodePtr n, uint32_t output) const;

 private:
  /// Attributes of an operator, looked up once.
  struct OpFacts {
    bool known = false, stateful = false, may_draw = false, view = false, has_code = false,
         elementwise = false;
    bool opaque = false;                 ///< told so, or a library of the target computes it better
    const FTakesDType* takes = nullptr;  ///< the library does so in these dtypes alone
    bool low_bit = false;                ///< its code takes numbers of few bits
  };
  const OpFacts& FactsOf(const Op* op);
  NodeKind KindOf(NodePtr n, EntryKeys inputs);
  NodeKind KindOfAssign(NodePtr n, EntryKeys inputs);
  NodeKind KindOfGeneral(NodePtr n, EntryKeys inputs);
  bool IsComputableEntry(const EntryKey& e);
  /// The code of `op` takes, or gives, what the entry is.
  bool HasCode(const OpFacts& op, const EntryKey& e);
  bool IsFollowed(NodePtr n) const;

  const Graph& g_;
  FusionFacts facts_;
  Facts known_;
  Spaces spaces_;
  const Target target_;  // none: what its library runs become kernels as well
  std::vector<FusionNode> rows_;
  std::vector<NodeClass> classes_;
  std::vector<OpFacts> ops_;                   // by op index
  std::vector<uint64_t> outputs_;              // of the graph, packed, sorted
  uint16_t assign_, read_, group_, constant_;  // numbers of those operators
};

}  // namespace weft
