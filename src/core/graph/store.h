/// store.h: the heap object behind a Graph: nodes in chunks at stable addresses, use lists,
/// revision, and the list of nodes whose derived attribute rows went stale.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

/// Asks for the cache lines of a node that is read soon: id and inputs, with `all` also
/// control edges, uses, operator.
inline void PrefetchNode(const Node* n, bool all) {
#if defined(__GNUC__)
  const char* p = reinterpret_cast<const char*>(n);
  __builtin_prefetch(p);
  __builtin_prefetch(p + 64);
  if (!all) return;
  __builtin_prefetch(p + 128);
#else
  (void)n, (void)all;
#endif
}

class GraphStore {
 public:
  GraphStore() = default;
  ~GraphStore();
  GraphStore(const GraphStore&) = delete;
  GraphStore& operator=(const GraphStore&) = delete;

  /// A fresh node with the next id.
  Node* NewNode();
  /// Deep copy with equal ids.
  std::shared_ptr<GraphStore> Clone() const;
  void Destroy(Node* node);
  /// Removes the uses by `node` from the producers for which `keep` holds; for bulk
  /// removal, followed by Drop.
  template <class F>
  void ForgetUses(Node* node, F&& keep) {
    for (uint32_t i = 0; i < node->inputs.entries_.size(); ++i) {
      Node* p = node->inputs.entries_[i].node.get();
      if (p && keep(p)) RemoveUse(p, node->inputs.use_pos_[i]);
    }
    for (uint32_t i = 0; i < node->control_deps.nodes_.size(); ++i)
      if (keep(node->control_deps.nodes_[i]))
        RemoveUse(node->control_deps.nodes_[i], node->control_deps.use_pos_[i]);
  }
  /// Frees a node whose edges are no longer recorded anywhere.
  void Drop(Node* node);

  void PushInput(Node* user, const NodeEntry& e);
  void SetInput(Node* user, uint32_t slot, const NodeEntry& e);
  void ClearInputs(Node* user);
  void PushControl(Node* user, Node* before);
  void RemoveControl(Node* user, Node* before);
  void ClearControl(Node* user);
  /// Control edges of `user` to nodes that do not live become edges to the living ones
  /// that stand before those.
  void SkipControls(Node* user, const std::vector<uint8_t>& live);

  // Every change of the outputs comes through these.
  void SetOutputs(std::vector<NodeEntry> entries);
  void SetOutput(size_t i, const NodeEntry& e);
  void PushOutput(const NodeEntry& e);
  void ResizeOutputs(size_t n);
  void RenumberOutputs();  ///< after nodes got other ids
  /// Positions of the outputs that are `e`, ascending.
  std::vector<size_t> OutputsThatAre(const NodeEntry& e) const;

  /// See Graph::MoveNodes.
  void Adopt(GraphStore& from, const NodePtr* adopted, size_t count,
             const std::function<NodeEntry(const NodeEntry&)>& outside);
  /// Redirects an input slot without looking at whose nodes they are.
  void Rewire(Node* user, uint32_t slot, const NodeEntry& e) {
    InputList& in = user->inputs;
    if (in.entries_[slot].node) RemoveUse(in.entries_[slot].node.get(), in.use_pos_[slot]);
    in.entries_[slot] = e;
    if (e.node) AddUse(e.node.get(), {user, slot, false}, &in.use_pos_[slot]);
  }
  /// May an operator write this variable? Remembered as long as its uses allow.
  static bool IsMutated(const Node* variable);

  /// Derived rows of `node` no longer hold.
  void MarkStale(Node* node) {
    Changed();
    stale.push_back(node->id());
  }
  /// The attributes of `node` have changed: so may have what it writes.
  void ForgetMutations(Node* node);
  /// Edges, nodes, outputs or declared inputs changed: what was derived from the structure as a
  /// whole no longer holds.
  void Changed() {
    ++revision;
    structure_changed = true;
  }
  /// The node is in this store and was not erased.
  bool Lives(const Node* n) const {
    return n->store() == this && n->id() < nodes.size() && nodes[n->id()] == n;
  }
  /// The producer's use list knows of this edge, at the place that the edge remembers.
  bool UseIsRecorded(const Node* user, uint32_t slot, bool control) const {
    const Node* p =
        control ? user->control_deps.nodes_[slot] : user->inputs.entries_[slot].node.get();
    const uint32_t pos = control ? user->control_deps.use_pos_[slot] : user->inputs.use_pos_[slot];
    if (pos >= p->uses_.size()) return false;
    const Use& u = p->uses_[pos];
    return u.user == user && u.slot == slot && u.control == control;
  }
  void CheckOwns(const NodeEntry& e, const char* what) const;

  std::vector<Node*> nodes;  ///< by id; null: erased
  size_t num_nodes = 0;
  std::vector<NodeEntry> outputs;  ///< read only; written by SetOutputs ...
  /// Where each node stands in `outputs`: (id, position).
  std::set<std::pair<NodeId, uint32_t>> output_places;
  std::vector<std::string> output_names;  ///< "" : default
  std::vector<NodePtr> inputs;
  std::string name;
  uint64_t revision = 1;
  bool structure_changed = false;  ///< since stale attributes were last cleared
  /// Differs between all stores of the process and from before a renumbering: says what
  /// a recorded id means.
  uint64_t serial = NextSerial();
  /// Of a body, which is immutable: effects.cc's answer, and the revision that it holds for.
  std::atomic<uint64_t> body_effects{0};
  std::vector<NodeId> stale;
  std::set<std::string> partial;  ///< derived attributes that lost rows since they were last stored
  /// names that edits leave alone while a pass that vouches for them runs
  std::set<std::string> preserved;
  /// Where nodes imported from another store went: old id -> new id, ~0u for none. Keyed
  /// by the source store.
  std::map<const GraphStore*, std::vector<NodeId>> imported;
  std::map<const GraphStore*, uint64_t>
      imported_serial;                 ///< `serial` of the source; an address may come again
  std::shared_ptr<IndexedGraph> view;  ///< dense view of the last revision asked for
  /// Emptied views of earlier revisions: a reference that a caller kept throws instead of dangling.
  std::vector<std::shared_ptr<IndexedGraph>> old_views;

  static uint64_t NextSerial();

 private:
  struct Chunk;
  static Chunk* ChunkOf(Node* node);
  static void Release(Chunk* chunk, uint32_t count);
  Node* Allocate(NodeId id);
  void AddUse(Node* producer, Use use, uint32_t* pos);
  void RemoveUse(Node* producer, uint32_t pos);
  void NoteOutput(size_t i);
  void UnnoteOutput(size_t i);
  std::vector<Chunk*> chunks_;  ///< made here
  uint32_t used_in_last_ = 0;
  /// made elsewhere, of nodes that were here: their handles may be asked for an id
  std::vector<Chunk*> left_;
};

}  // namespace weft
