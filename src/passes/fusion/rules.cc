/// rules.cc: legality by symbolic spaces. "Unknown" means no.
///
/// A group is element-wise (all members and results over one space D) or row-wise (P x R:
/// reductions over R, their results over P, and members over either). Extents are compared without
/// their 1s; an operand that broadcasts inside a group must be a row value spread over exactly R.
#include "rules.h"

namespace weft {

void FusionRules::Describe(NodeId id, EntryKeys inputs, FusionGroups::Group* group) {
  const NodeKind kind = nodes_[id].kind;
  Space& space = group->space;
  if (kind != NodeKind::kReduction) {
    space.key = nodes_.SpaceOf({id, 0});
    if (kind == NodeKind::kLocal) group->reductions = 1;
    return;
  }
  const NodeClass& c = *nodes_.ClassOf(id);
  const int in = nodes_.ShapeOf(inputs[uint32_t(c.full_input)]);
  space.key = nodes_.spaces().SpaceOf(in);
  space.mask = nodes_.spaces().AxesMask(in, c.axes);
  space.row_key = nodes_.spaces().Without(space.key, space.mask);
  group->reductions = 1;
}

bool FusionRules::Unite(const Space& a, const Space& b, Space* out) {
  if (a.key == b.key && (!a.is_row() || !b.is_row() || a.mask == b.mask))
    *out = a.is_row() ? a : b;
  else if (a.is_row() && !b.is_row() && b.key == a.row_key)
    *out = a;
  else if (b.is_row() && !a.is_row() && a.key == b.row_key)
    *out = b;
  else
    return false;
  return true;
}

bool FusionRules::Compatible(NodePtr n, EntryKeys inputs, int mine, int p, Space* merged) {
  const Space &a = groups_[p].space, &b = groups_[mine].space;
  switch (nodes_[n->id()].kind) {
    case NodeKind::kElementwise:
      return ElementwiseJoins(n, inputs, a, b, p, merged);
    case NodeKind::kReduction:
      return ReductionJoins(n, inputs, a, b, p, merged);
    case NodeKind::kInjective:
      return InjectiveJoins(n, inputs, a, b, p, merged);
    case NodeKind::kLocal:
      return LocalJoins(n, inputs, a, b, p, merged);
    default:
      return false;
  }
}

bool FusionRules::IsOnlyReadHere(EntryKeys inputs, int p) {
  int64_t edges = 0;
  EachEdge(inputs, p, [&](uint32_t, const EntryKey&) { return ++edges, true; });
  return groups_[p].open_uses == edges;
}

bool FusionRules::ElementwiseJoins(NodePtr n, EntryKeys inputs, const Space& a, const Space& b,
                                   int p, Space* merged) {
  const int out = nodes_[n->id()].shape;
  const int key = nodes_.spaces().SpaceOf(out);
  if (!Unite(a, b, merged)) return false;
  const bool full = key == merged->key, row = merged->is_row() && key == merged->row_key;
  if (!full && !row) return false;
  const bool view = nodes_.IsView(n->op());
  return EachEdge(inputs, p, [&](uint32_t i, const EntryKey& e) {
    const int in = nodes_.ShapeOf(e);
    // A view: element for element, whatever the 1s.
    if (view) return i == 0 && nodes_.spaces().SpaceOf(in) == key;
    const auto mask = nodes_.spaces().BroadcastMask(in, out);
    if (!mask) return false;
    if (*mask == 0) return true;
    return full && merged->is_row() && *mask == merged->mask;
  });
}

bool FusionRules::ReductionJoins(NodePtr n, EntryKeys inputs, const Space& a, const Space& b, int p,
                                 Space* merged) {
  const NodeClass& c = *nodes_.ClassOf(n->id());
  if (!Unite(a, b, merged) || !merged->is_row()) return false;
  if (!a.is_row() && groups_[p].reductions > 0) return false;  // a row may be read once a pass
  // Only the reduced tensor itself may come from inside, and only as a value over the whole space.
  return EachEdge(inputs, p, [&](uint32_t i, const EntryKey& e) {
    return int(i) == c.full_input && nodes_.SpaceOf(e) == merged->key;
  });
}

bool FusionRules::InjectiveJoins(NodePtr n, EntryKeys inputs, const Space& a, const Space& b, int p,
                                 Space* merged) {
  // The producers' space disappears behind the new one: nothing else may want it.
  if (!IsOnlyReadHere(inputs, p)) return false;
  const NodeClass* c = nodes_.ClassOf(n->id());
  const bool permutes = c && !c->perm.empty();
  if (!a.is_row()) {
    // A reduction inside a point would be done again for every position that reads it, unless
    // each is read once.
    if (groups_[p].reductions > 0 && !permutes && !nodes_.IsView(n->op())) return false;
    *merged = b;
    return !b.is_row();
  }
  if (!permutes || nodes_.SpaceOf(inputs[0]) != a.key) return false;
  // A permutation of the whole space: the reduced extents move with it.
  const std::vector<SymInt>& in = nodes_.spaces().extents(nodes_.ShapeOf(inputs[0]));
  std::vector<int> position(in.size(), -1);
  for (size_t d = 0, k = 0; d < in.size(); ++d)
    if (!in[d].is(1)) position[d] = int(k++);
  uint64_t mask = 0;
  int k = 0;
  for (int from : c->perm) {
    if (in[size_t(from)].is(1)) continue;
    if (a.mask >> position[size_t(from)] & 1) mask |= uint64_t{1} << k;
    ++k;
  }
  merged->key = b.key;
  merged->mask = mask;
  merged->row_key = nodes_.spaces().Without(b.key, mask);
  return true;
}

/// Windows that do not overlap take in what computes their elements, as a movement operator does.
bool FusionRules::LocalJoins(NodePtr n, EntryKeys inputs, const Space& a, const Space& b, int p,
                             Space* merged) {
  const NodeClass* c = nodes_.ClassOf(n->id());
  if (!c || !c->reads_once || a.is_row() || groups_[p].reductions > 0) return false;
  *merged = b;
  return IsOnlyReadHere(inputs, p);
}

}  // namespace weft
