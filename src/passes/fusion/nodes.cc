/// nodes.cc: the kind and the shape of each node. Operator attributes are looked up once an
/// operator, shapes are numbered once an entry: the sweep then reads the table alone.
#include "nodes.h"

#include <algorithm>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/repeatable.h"

namespace weft {
namespace {

uint16_t NumberOf(const char* op) {
  const Op* found = Op::Find(op);
  return found ? uint16_t(found->index()) : FusionNode::kVariable - 1;
}

}  // namespace

FusionNodes::FusionNodes(const Graph& g, const Target& target, bool libraries)
    : g_(g),
      facts_{g.GetAttr<ShapeMap>("shape"), g.GetAttr<TypeMap>("dtype"),
             g.GetAttr<ValueMap>("value")},
      known_(g.AttrOr<Facts>("facts")),
      spaces_(known_),
      target_(libraries ? target : Target()),
      rows_(g.id_bound()),
      assign_(NumberOf(builtin::kAssign)),
      read_(NumberOf(builtin::kRead)),
      group_(NumberOf(builtin::kGroup)),
      constant_(NumberOf("Constant")) {
  for (const NodeEntry& e : g.outputs) outputs_.push_back(e.key().packed());
  std::sort(outputs_.begin(), outputs_.end());
}

const FusionNodes::OpFacts& FusionNodes::FactsOf(const Op* op) {
  if (op->index() >= ops_.size()) ops_.resize(op->index() + 1);
  OpFacts& f = ops_[op->index()];
  if (f.known) return f;
  const FCodeGen* code = Op::GetAttr<FCodeGen>("FCodeGen").find(op);
  const FFuseKind* told = Op::GetAttr<FFuseKind>("FFuseKind").find(op);
  f.known = true;
  f.stateful = Op::GetAttr<TIsStateful>("TIsStateful").get(op, false);
  f.may_draw = Op::GetAttr<FDrawsAnew>("FDrawsAnew").find(op) != nullptr;
  f.view = Op::GetAttr<TIsView>("TIsView").get(op, false);
  f.has_code = code != nullptr;
  f.low_bit = Op::GetAttr<TTakesLowBit>("TTakesLowBit").get(op, false);
  const bool anchor = told && *told == FuseKind::kAnchor && target_.compute(op);
  f.opaque = anchor || (told && *told == FuseKind::kOpaque);
  if (anchor) f.takes = TakesDTypeOf(target_, op);
  f.elementwise = (code && code->elementwise) || (told && *told == FuseKind::kElementwise);
  return f;
}

void FusionNodes::Look(NodePtr n, EntryKeys inputs) {
  FusionNode& me = rows_[n->id()];
  me.shape = spaces_.ShapeNumber(facts_.shapes.find(n->id(), 0));
  const Type* t = facts_.types.find(n->id(), 0);
  me.computable = me.shape >= 0 && t && t->is_tensor() && IsComputable(t->dtype);
  me.op = n->is_variable() ? FusionNode::kVariable : uint16_t(n->op()->index());
  me.kind = KindOf(n, inputs);
}

bool FusionNodes::IsComputableEntry(const EntryKey& e) {
  if (e.index == 0) return rows_[e.id].computable;
  const Type* t = facts_.types.find(e.id, e.index);
  return t && t->is_tensor() && IsComputable(t->dtype) && ShapeOf(e) >= 0;
}

NodeKind FusionNodes::KindOf(NodePtr n, EntryKeys inputs) {
  if (n->is_variable()) return NodeKind::kOpaque;
  const OpFacts& op = FactsOf(n->op());
  if (rows_[n->id()].op == assign_) return KindOfAssign(n, inputs);
  if (op.stateful || (op.may_draw && DrawsAnew(n))) return NodeKind::kOpaque;
  // An output that nothing reads as a tensor because its value is known costs no kernel.
  if (IsFollowed(n)) return NodeKind::kShapeOnly;
  if (!op.has_code || (op.opaque && IsTaken(op.takes, TypeOf({n->id(), 0}))))
    return NodeKind::kOpaque;
  const uint32_t outputs = n->num_outputs();
  bool packs = false;
  for (uint32_t i = 0; i < outputs; ++i) {
    const EntryKey e{n->id(), i};
    if (!HasCode(op, e)) return NodeKind::kOpaque;
    packs = packs || DTypeBits(TypeOf(e)) < 8;
  }
  for (const EntryKey& e : inputs)
    if (e.present() && !HasCode(op, e)) return NodeKind::kOpaque;
  if (packs) {
    // A point of the kernel is a byte of several elements, which would each compute what stands
    // before the node.
    rows_[n->id()].node_class = int(classes_.size());
    classes_.push_back(NodeClass{NodeKind::kLocal, {}, 0, false, false, {}});
    return NodeKind::kLocal;
  }
  if (op.elementwise) return NodeKind::kElementwise;
  if (op.view)
    return SpaceOf(inputs[0]) == SpaceOf({n->id(), 0}) ? NodeKind::kElementwise
                                                       : NodeKind::kInjective;
  return KindOfGeneral(n, inputs);
}

bool FusionNodes::HasCode(const OpFacts& op, const EntryKey& e) {
  return IsComputableEntry(e) || (op.low_bit && IsLowBit(TypeOf(e)) && ShapeOf(e) >= 0);
}

/// A write is element-wise: the value, stored where the variable lies.
NodeKind FusionNodes::KindOfAssign(NodePtr n, EntryKeys inputs) {
  const bool fits = inputs.count == 2 && inputs[0].present() && inputs[1].present() &&
                    n->inputs[0].node->is_variable() && IsComputableEntry(inputs[0]) &&
                    IsComputableEntry(inputs[1]) && ShapeOf(inputs[0]) == ShapeOf(inputs[1]) &&
                    ShapeOf(inputs[0]) == rows_[n->id()].shape && !IsFollowed(n);
  return fits ? NodeKind::kElementwise : NodeKind::kOpaque;
}

NodeKind FusionNodes::KindOfGeneral(NodePtr n, EntryKeys inputs) {
  NodeClass c = ClassifyGeneral(n, facts_);
  const int in = c.kind == NodeKind::kReduction ? ShapeOf(inputs[uint32_t(c.full_input)]) : -1;
  const uint64_t mask = in >= 0 ? spaces_.AxesMask(in, c.axes) : 0;
  if (c.kind == NodeKind::kReduction && mask == 0)
    c.kind = NodeKind::kLocal;  // reduces extents of 1 only
  NodeKind kind = c.kind;
  // A kernel has one space. Where results that are read have several, the op stays; those of
  // a reduction may be over the whole space or over its rows.
  std::vector<int> allowed;
  if (kind == NodeKind::kReduction) {
    const int space = spaces_.SpaceOf(in);
    allowed = {space, spaces_.Without(space, mask)};
  }
  for (uint32_t i = 0; i < n->num_outputs(); ++i) {
    if (n->num_outputs() > 1 && !IsRead(n, i)) continue;
    const int space = SpaceOf({n->id(), i});
    if (allowed.empty()) allowed.push_back(space);
    if (std::find(allowed.begin(), allowed.end(), space) == allowed.end()) kind = NodeKind::kOpaque;
  }
  rows_[n->id()].node_class = int(classes_.size());
  classes_.push_back(std::move(c));
  return kind;
}

bool FusionNodes::IsFollowed(NodePtr n) const {
  const SymTensorPtr* v = facts_.values.find(n->id(), 0);
  if (!v || !*v || n->num_outputs() != 1) return false;
  return (*v)->fully_known();
}

bool FusionNodes::IsRead(NodePtr n, uint32_t output) const {
  for (const Use& u : n->uses())
    if (!u.control && u.user->inputs[u.slot].index == output) return true;
  return std::binary_search(outputs_.begin(), outputs_.end(), EntryKey{n->id(), output}.packed());
}

int FusionNodes::OutputUses(NodePtr n) const {
  if (!g_.is_output(n)) return 0;
  auto begin = std::lower_bound(outputs_.begin(), outputs_.end(), EntryKey{n->id(), 0}.packed());
  auto end = std::upper_bound(begin, outputs_.end(), EntryKey{n->id(), ~0u}.packed());
  return int(end - begin);
}

}  // namespace weft
