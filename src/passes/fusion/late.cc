/// late.cc: proposed from the last node to the first, because a value is late where its readers
/// are; decided from the first to the last.
#include "late.h"

#include <algorithm>

#include "weft/core/graph/builtin_ops.h"

namespace weft {

void FusionLate::NoteDepth(NodeId id, EntryKeys inputs) {
  int depth = 0;
  for (const EntryKey& e : inputs) {
    if (!e.present()) continue;
    const bool waits =
        nodes_[e.id].kind == NodeKind::kOpaque && nodes_.ContentOf(e.id) == EntryKey::kAbsent;
    depth = std::max(depth, depth_[e.id] + int(waits));
  }
  depth_[id] = depth;
}

/// The operand with as many elements as the node, where there is one only and the others are made
/// by kernels: rows that spread over it. Or there are no others, and the node makes it wider.
const EntryKey* FusionLate::OnlyFull(NodePtr n, EntryKeys inputs) {
  const NodeId id = n->id();
  if (nodes_[id].kind != NodeKind::kElementwise || nodes_.Assigns(id) || !nodes_[id].computable)
    return nullptr;
  const int space = nodes_.SpaceOf({id, 0});
  const EntryKey* full = nullptr;
  bool spreads = false;
  for (const EntryKey& e : inputs) {
    if (!e.present()) continue;
    if (nodes_.SpaceOf(e) == space) {
      if (full) return nullptr;
      full = &e;
    } else {
      spreads |= nodes_[e.id].kind != NodeKind::kOpaque;
    }
  }
  return spreads || Widens(n, inputs) ? full : nullptr;
}

bool FusionLate::Widens(NodePtr n, EntryKeys inputs) const {
  return inputs.count == 1 && inputs[0].present() &&
         DTypeBits(nodes_.TypeOf({n->id(), 0})) > DTypeBits(nodes_.TypeOf(inputs[0])) &&
         IsOp(n, "Cast");
}

void FusionLate::Propose(NodePtr n, EntryKeys inputs) {
  const NodeId id = n->id();
  if (!OnlyFull(n, inputs) || !n->control_deps.empty() || n->uses().empty() ||
      nodes_.OutputUses(n) > 0)
    return;
  int readers = -1;
  for (const Use& u : n->uses()) {
    const NodeId user = u.user->id();
    const NodeKind kind = nodes_[user].kind;
    const int depth = depth_[user];
    // All in one kernel, as far as that can be told.
    if (u.control || (kind != NodeKind::kElementwise && kind != NodeKind::kReduction) ||
        (readers >= 0 && readers != depth))
      return;
    readers = depth;
  }
  if (readers <= depth_[id]) return;
  late_[id] = 1;
  depth_[id] = readers;
}

void FusionLate::Decide(NodePtr n, EntryKeys inputs) {
  const NodeId id = n->id();
  if (!late_[id]) return;
  const EntryKey full = *OnlyFull(n, inputs);
  if (late_[full.id]) return;
  late_[id] = ReadAtOnce(n, full);
}

/// Is `full` in memory, and does a kernel that comes before the readers of `n` read it
/// anyway, element by element?
bool FusionLate::ReadAtOnce(NodePtr n, const EntryKey& full) {
  if (nodes_[full.id].kind != NodeKind::kOpaque) return false;
  const auto entry = std::find_if(n->inputs.begin(), n->inputs.end(), [&](const NodeEntry& e) {
    return e.node && e.node->id() == full.id && e.index == full.index;
  });
  const int space = nodes_.SpaceOf(full);
  const auto& uses = entry->node->uses();
  return std::any_of(uses.begin(), uses.end(), [&](const Use& u) {
    const NodeId user = u.user->id();
    return !u.control && NodeEntry(*entry) == u.user->inputs[size_t(u.slot)] && !late_[user] &&
           nodes_[user].kind == NodeKind::kElementwise && nodes_.SpaceOf({user, 0}) == space &&
           depth_[user] < depth_[n->id()];
  });
}

}  // namespace weft
