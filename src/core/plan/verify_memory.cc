/// verify_memory.cc: see verify_memory.h. Of the arena it keeps which storage was written last over
/// which bytes; lives are counted from the steps that name a storage, not from what the plan says.
#include "weft/core/plan/verify_memory.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/support/check.h"

namespace weft {
namespace {

void VerifySteps(const Graph& graph, const Order& order) {
  std::vector<int> step(graph.id_bound(), -1);
  for (size_t k = 0; k < order.nodes.size(); ++k) {
    const NodeId id = order.nodes[k];
    WEFT_ICHECK(id < graph.id_bound() && graph.node(id), "step {} runs node {}, which is not there",
                k, id);
    const NodePtr n = graph.node(id);
    WEFT_ICHECK(std::exchange(step[id], int(k)) < 0, "{} runs twice", n->Describe());
    const auto need = [&](const NodePtr& before) {
      WEFT_ICHECK(step[before->id()] >= 0, "{} runs before {}", n->Describe(), before->Describe());
    };
    for (const NodeEntry& e : n->inputs)
      if (e.node) need(e.node);
    for (Node* d : n->control_deps) need(d);
  }
  for (NodePtr n : graph.TopoOrder())
    WEFT_ICHECK(step[n->id()] >= 0, "{} does not run", n->Describe());
}

/// What happens to each variable, by its id, and (under the id that no node has) all other effects.
/// Reads between two writes may stand in any order.
using Effects = std::map<NodeId, std::vector<std::vector<NodeId>>>;

Effects EffectsOf(const Graph& graph, const std::vector<NodeId>& order) {
  Effects effects;
  std::map<NodeId, bool> written;
  for (const NodeId id : order)
    for (auto [i, k] : WrittenInputs(graph.node(id)))
      written[graph.node(id)->inputs[size_t(i)].node->id()] = true;
  for (const NodeId id : order) {
    const NodePtr n = graph.node(id);
    const std::vector<std::pair<int, int>> writes = WrittenInputs(n);
    for (const NodeEntry& e : n->inputs) {
      if (!e.node || !written.count(e.node->id())) continue;
      auto& groups = effects[e.node->id()];
      if (groups.empty()) groups.emplace_back();
      groups.back().push_back(id);
    }
    for (auto [i, k] : writes) effects[n->inputs[size_t(i)].node->id()].emplace_back();
    if (writes.empty() && !n->is_variable() && HasEffect(n))
      effects[EntryKey::kAbsent].push_back({id});
  }
  for (auto& [variable, groups] : effects)
    for (std::vector<NodeId>& group : groups) std::sort(group.begin(), group.end());
  return effects;
}

void VerifyEffects(const Graph& graph, const Order& order) {
  std::vector<NodeId> given;
  for (NodePtr n : graph.TopoOrder()) given.push_back(n->id());
  const Effects of_graph = EffectsOf(graph, given), of_order = EffectsOf(graph, order.nodes);
  for (const auto& [variable, groups] : of_graph) {
    const auto it = of_order.find(variable);
    WEFT_ICHECK(it != of_order.end() && it->second == groups,
                "reads and writes of {} stand in another order than in the graph",
                variable == EntryKey::kAbsent ? "a generator" : graph.node(variable)->Describe());
  }
}

/// Who wrote each byte of an arena last.
class Owners {
 public:
  void Write(int64_t begin, int64_t end, int storage) {
    // What begins before is cut off; its part behind stays its own.
    const auto cut = [this](int64_t at) {
      auto next = ranges_.lower_bound(at);
      if (next == ranges_.begin()) return;
      auto& [from, range] = *std::prev(next);
      if (range.end <= at) return;
      ranges_.emplace(at, Range{range.end, range.storage});
      range.end = at;
    };
    cut(begin);
    cut(end);
    ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
    ranges_.emplace(begin, Range{end, storage});
  }
  /// Another storage that owns a part, or -1 where nobody wrote; `storage` where all is its own.
  int OwnerOf(int64_t begin, int64_t end, int storage) const {
    auto it = ranges_.upper_bound(begin);
    if (it == ranges_.begin()) return -1;
    for (--it; begin < end; ++it) {
      if (it == ranges_.end() || it->first > begin || it->second.end <= begin) return -1;
      if (it->second.storage != storage) return it->second.storage;
      begin = it->second.end;
    }
    return storage;
  }

 private:
  struct Range {
    int64_t end;
    int storage;
  };
  std::map<int64_t, Range> ranges_;  // by their first byte
};

class Replay {
 public:
  Replay(const Graph& graph, const Order& order, const StoragePlan& plan,
         const PlacedStorage& placed)
      : graph_(graph), order_(order), plan_(plan), placed_(placed) {
    first_.assign(plan.storages.size(), -1);
    last_.assign(plan.storages.size(), -1);
  }

  void Run() {
    for (size_t k = 0; k < order_.nodes.size(); ++k) Step(graph_.node(order_.nodes[k]), int(k));
    for (const int o : plan_.copies)
      Reads(graph_.outputs[size_t(o)], int(order_.nodes.size()), "the end");
    VerifyLive();
  }

 private:
  int InArena(const NodeEntry& e) const {
    const int* s = e.node ? plan_.of.find(e) : nullptr;
    return s && plan_.storages[size_t(*s)].kind == StorageKind::kArena ? *s : -1;
  }
  int64_t Begin(int s) const { return placed_.offsets[size_t(s)]; }
  int64_t End(int s) const { return Begin(s) + placed_.bytes[size_t(s)]; }

  void Step(NodePtr n, int k) {
    if (IsOp(n, builtin::kGroup)) return;  // reads nothing, and is empty
    for (uint32_t o = 0; o < n->num_outputs(); ++o) {
      const int s = InArena(NodeEntry(n, o));
      if (s < 0) continue;
      Name(s, k);
      if (Shows(n, s) || placed_.bytes[size_t(s)] == 0) continue;
      WEFT_ICHECK(Begin(s) >= 0 && End(s) <= placed_.arena_bytes,
                  "{} writes bytes [{}, {}) of an arena of {}", n->Describe(), Begin(s), End(s),
                  placed_.arena_bytes);
      owners_.Write(Begin(s), End(s), s);
    }
    // After its results: none lies where an operand does, unless they share the storage.
    for (const NodeEntry& e : n->inputs) Reads(e, k, n->Describe());
    for (uint32_t o = 0; o < n->num_outputs(); ++o) Reads(NodeEntry(n, o), k, n->Describe());
  }
  /// The result is what the first operand is, unmoved.
  bool Shows(NodePtr n, int s) const {
    return n->num_inputs() > 0 && InArena(n->inputs[0]) == s && n->num_outputs() == 1;
  }
  void Reads(const NodeEntry& e, int k, const std::string& who) {
    const int s = InArena(e);
    if (s < 0) return;
    Name(s, k);
    if (placed_.bytes[size_t(s)] == 0) return;
    const int owner = owners_.OwnerOf(Begin(s), End(s), s);
    WEFT_ICHECK(owner == s,
                "at step {}, {} uses bytes [{}, {}) of {}, of which some were written {}", k, who,
                Begin(s), End(s), e.node->Describe(),
                owner < 0 ? "by no step" : "for block " + std::to_string(owner));
  }
  void Name(int s, int k) {
    if (first_[size_t(s)] < 0) first_[size_t(s)] = k;
    last_[size_t(s)] = k;
  }
  void VerifyLive() const {
    std::vector<int64_t> change(order_.nodes.size() + 2, 0);
    for (size_t s = 0; s < first_.size(); ++s) {
      if (first_[s] < 0) continue;
      change[size_t(first_[s])] += placed_.bytes[s];
      change[size_t(last_[s]) + 1] -= placed_.bytes[s];
    }
    int64_t live = 0, most = 0;
    for (const int64_t c : change) most = std::max(most, live += c);
    WEFT_ICHECK(most == placed_.live_bytes, "{} bytes are alive at once, not {}", most,
                placed_.live_bytes);
  }

  const Graph& graph_;
  const Order& order_;
  const StoragePlan& plan_;
  const PlacedStorage& placed_;
  Owners owners_;
  std::vector<int> first_, last_;  // steps that name a storage
};

}  // namespace

void VerifyMemory(const Graph& graph, const Order& order, const StoragePlan& plan,
                  const PlacedStorage& placed) {
  WEFT_ICHECK(
      placed.bytes.size() == plan.storages.size() && placed.offsets.size() == plan.storages.size(),
      "sizes and offsets of {} and {} blocks for {}", placed.bytes.size(), placed.offsets.size(),
      plan.storages.size());
  VerifySteps(graph, order);
  VerifyEffects(graph, order);
  VerifyStorage(graph, order.nodes, plan);
  Replay(graph, order, plan, placed).Run();
}

}  // namespace weft
