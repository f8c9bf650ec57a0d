/// graph_store.cc: allocation of nodes and the upkeep of use lists.
///
/// Every input slot remembers where it stands in its producer's use list, so removing a use is O(1): the last use
/// takes its place and its slot is told the new position.
#include "graph_store.h"

#include <atomic>
#include <new>

#include "weft/support/check.h"

namespace weft {

uint64_t GraphStore::NextSerial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

GraphStore::~GraphStore() {
  for (Node* n : nodes)
    if (n) n->~Node();
  for (void* c : chunks_) ::operator delete(c);
}

void* GraphStore::Allocate() {
  if (used_in_last_ == kChunk) {
    chunks_.push_back(::operator new(kChunk * sizeof(Node)));
    used_in_last_ = 0;
  }
  return static_cast<char*>(chunks_.back()) + sizeof(Node) * used_in_last_++;
}

Node* GraphStore::NewNode() {
  WEFT_CHECK(nodes.size() < 0xffffffffu, kLimit, "a graph holds at most 2^32 - 1 nodes");
  Node* n = new (Allocate()) Node(this, NodeId(nodes.size()));
  stale.push_back(n->id());
  nodes.push_back(n);
  ++num_nodes;
  Changed();
  return n;
}

void GraphStore::Destroy(Node* node) {
  ClearInputs(node);
  ClearControl(node);
  Drop(node);
}

void GraphStore::Drop(Node* node) {
  nodes[node->id()] = nullptr;
  --num_nodes;
  Changed();
  stale.push_back(node->id());
  node->~Node();  // its memory goes with the chunk
}

void GraphStore::CheckOwns(const NodeEntry& e, const char* what) const {
  if (!e.node || Lives(e.node.get())) return;
  // Nothing but the id is left of an erased node.
  WEFT_CHECK(e.node->store() != this, kApiMisuse,
             "{} is a node that was erased from this graph: %{}", what, e.node->id());
  ThrowError(ErrorCode::kApiMisuse,
             fmt::format("{} is a node of another graph: {}", what, e.node->Describe()), "",
             "assign entries to `outputs` or call Graph::Import to copy nodes between graphs; "
             "inside a pass build "
             "nodes from the entries of the pass's graph");
}

void GraphStore::AddUse(Node* producer, Use use, uint32_t* pos) {
  *pos = producer->uses_.size();
  producer->uses_.push_back(use);
}

void GraphStore::RemoveUse(Node* producer, uint32_t pos) {
  auto& uses = producer->uses_;
  if (pos + 1 != uses.size()) {
    uses[pos] = uses.back();
    const Use& moved = uses[pos];
    (moved.control ? moved.user->control_deps.use_pos_[moved.slot]
                   : moved.user->inputs.use_pos_[moved.slot]) = pos;
  }
  uses.pop_back();
}

void GraphStore::PushInput(Node* user, const NodeEntry& e) {
  CheckOwns(e, "an input");
  InputList& in = user->inputs;
  uint32_t pos = 0;
  const uint32_t slot = in.entries_.size();
  if (e.node) AddUse(e.node.get(), {user, slot, false}, &pos);
  in.entries_.push_back(e);
  in.use_pos_.push_back(pos);
  Changed();
}

void GraphStore::SetInput(Node* user, uint32_t slot, const NodeEntry& e) {
  CheckOwns(e, "an input");
  InputList& in = user->inputs;
  WEFT_CHECK(slot < in.entries_.size(), kApiMisuse, "node {} has {} inputs, slot {} asked for",
             user->Describe(), in.entries_.size(), slot);
  if (in.entries_[slot].node) RemoveUse(in.entries_[slot].node.get(), in.use_pos_[slot]);
  in.entries_[slot] = e;
  if (e.node) AddUse(e.node.get(), {user, slot, false}, &in.use_pos_[slot]);
  Changed();
}

void GraphStore::ClearInputs(Node* user) {
  InputList& in = user->inputs;
  for (uint32_t i = 0; i < in.entries_.size(); ++i)
    if (in.entries_[i].node) RemoveUse(in.entries_[i].node.get(), in.use_pos_[i]);
  in.entries_.clear();
  in.use_pos_.clear();
  Changed();
}

void GraphStore::PushControl(Node* user, Node* before) {
  CheckOwns(NodeEntry(before), "a control dependency");
  ControlList& c = user->control_deps;
  for (Node* n : c.nodes_)
    if (n == before) return;
  uint32_t pos = 0;
  AddUse(before, {user, c.nodes_.size(), true}, &pos);
  c.nodes_.push_back(before);
  c.use_pos_.push_back(pos);
  Changed();
}

void GraphStore::ClearControl(Node* user) {
  ControlList& c = user->control_deps;
  for (uint32_t i = 0; i < c.nodes_.size(); ++i) RemoveUse(c.nodes_[i], c.use_pos_[i]);
  c.nodes_.clear();
  c.use_pos_.clear();
  Changed();
}

std::shared_ptr<GraphStore> GraphStore::Clone() const {
  auto copy = std::make_shared<GraphStore>();
  copy->nodes.reserve(nodes.size());
  for (const Node* n : nodes) {
    if (!n) {
      copy->nodes.push_back(nullptr);
      continue;
    }
    Node* c = copy->NewNode();
    c->attrs = n->attrs;
    c->origin_ = n->origin_;
  }
  auto twin = [&](NodePtr p) { return p ? copy->nodes[p->id()] : nullptr; };
  for (const Node* n : nodes) {
    if (!n) continue;
    Node* c = copy->nodes[n->id()];
    // Positions are copied, not recomputed: the twin's use lists have the same order.
    c->inputs.entries_.reserve(n->inputs.entries_.size());
    for (const NodeEntry& e : n->inputs) c->inputs.entries_.push_back({twin(e.node), e.index});
    c->inputs.use_pos_ = n->inputs.use_pos_;
    for (Node* d : n->control_deps) c->control_deps.nodes_.push_back(twin(d));
    c->control_deps.use_pos_ = n->control_deps.use_pos_;
    c->uses_.reserve(n->uses_.size());
    for (const Use& u : n->uses_)
      c->uses_.push_back({copy->nodes[u.user->id()], u.slot, u.control});
  }
  for (const NodeEntry& e : outputs) copy->outputs.push_back({twin(e.node), e.index});
  for (NodePtr p : inputs) copy->inputs.push_back(twin(p));
  copy->output_names = output_names;
  copy->name = name;
  copy->revision = revision;
  copy->stale = stale;
  copy->structure_changed = structure_changed;
  copy->partial = partial;
  return copy;
}

}  // namespace weft
