/// future.cc: reductions are noted, then what they read hears of them, from the last node to
/// the first. A value that uses a result of a reduction of its own space is bound to that kernel,
/// whatever comes later: nothing is passed on through it.
#include "future.h"

#include <algorithm>

namespace weft {
namespace {

constexpr size_t kMaxWays = 32;  // bits of a set

}  // namespace

bool FusionFuture::Matters(const std::vector<NodePtr>& order) {
  constexpr size_t kAhead = 16;
  int found = 0;
  for (size_t k = 0; k < order.size() && found < 2; ++k) {
    if (k + kAhead < order.size()) PrefetchLine(&order[k + kAhead]->attrs.op);
    if (!order[k]->is_variable()) found += nodes_.MayReduce(order[k]->op());
  }
  return found >= 2;
}

void FusionFuture::NoteReduction(NodeId id, EntryKeys inputs, FusionRules& rules) {
  if (nodes_[id].kind != NodeKind::kReduction) return;
  FusionGroups::Group described;
  rules.Describe(id, inputs, &described);
  std::vector<uint64_t>& ways = axes_[described.space.key];
  auto at = std::find(ways.begin(), ways.end(), described.space.mask);
  if (at == ways.end()) at = ways.insert(ways.end(), described.space.mask);
  several_ |= ways.size() > 1;
  const size_t way = size_t(at - ways.begin());
  reductions_[id] = {described.space.key, way < kMaxWays ? uint32_t{1} << way : 0};
}

void FusionFuture::NoteSource(NodeId id, EntryKeys inputs) {
  if (nodes_[id].kind == NodeKind::kReduction) {
    if (!nodes_.ClassOf(id)->keeps_space) source_[id] = reductions_.at(id).first;
    return;
  }
  if (nodes_[id].kind != NodeKind::kElementwise) return;
  for (const EntryKey& e : inputs) {
    if (!e.present() || source_[e.id] < 0) continue;
    // Spread over the space it came from it is no row value any more.
    if (nodes_.SpaceOf({id, 0}) != source_[e.id]) source_[id] = source_[e.id];
    return;
  }
}

void FusionFuture::PassOn(NodeId id, EntryKeys inputs) {
  const NodeKind kind = nodes_[id].kind;
  if (kind == NodeKind::kReduction) {
    const auto [space, bit] = reductions_.at(id);
    sets_[id] = bit;
    const EntryKey& full = inputs[uint32_t(nodes_.ClassOf(id)->full_input)];
    if (nodes_[full.id].kind == NodeKind::kElementwise && nodes_.SpaceOf(full) == space)
      sets_[full.id] |= bit;
    return;
  }
  if (kind != NodeKind::kElementwise || sets_[id] == 0) return;
  const int space = nodes_.SpaceOf({id, 0});
  for (const EntryKey& e : inputs)
    if (e.present() && source_[e.id] == space) return;
  for (const EntryKey& e : inputs)
    if (e.present() && nodes_[e.id].kind == NodeKind::kElementwise && nodes_.SpaceOf(e) == space)
      sets_[e.id] |= sets_[id];
}

}  // namespace weft
