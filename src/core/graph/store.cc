/// store.cc: allocation of nodes and the upkeep of use lists.
///
/// Every input slot remembers where it stands in its producer's use list, so removing a use is
/// O(1): the last use takes its place and its slot is told the new position.
#include "store.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <new>

#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/support/check.h"

namespace weft {

uint64_t GraphStore::NextSerial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// ---- memory of nodes ----

/// A chunk lives as long as the store that made it, because a handle of an erased node may still be
/// asked for its id, and as long as any of its nodes lives in another store.
struct GraphStore::Chunk {
  std::atomic<uint32_t> users;  // the maker, and one for each node elsewhere
  uint32_t capacity;
  std::atomic<GraphStore*> maker;                     // null once it is gone
  static constexpr size_t kHeader = 64, kAlign = 64;  // nodes begin with a cache line
  static constexpr uint32_t kFirst = 8, kMost = 256;
  Node* at(uint32_t place) {
    return reinterpret_cast<Node*>(reinterpret_cast<char*>(this) + kHeader + place * sizeof(Node));
  }
};

GraphStore::Chunk* GraphStore::ChunkOf(Node* node) {
  return reinterpret_cast<Chunk*>(reinterpret_cast<char*>(node - node->place_in_chunk_) -
                                  Chunk::kHeader);
}

void GraphStore::Release(Chunk* chunk, uint32_t count) {
  if (count == 0 || chunk->users.fetch_sub(count, std::memory_order_acq_rel) != count) return;
  chunk->~Chunk();
  ::operator delete (chunk, std::align_val_t{Chunk::kAlign});
}

Node* GraphStore::Allocate(NodeId id) {
  if (chunks_.empty() || used_in_last_ == chunks_.back()->capacity) {
    // Small bodies are many, large graphs few: chunks grow.
    static_assert(sizeof(Chunk) <= Chunk::kHeader && alignof(Node) <= alignof(std::max_align_t));
    static_assert(Chunk::kMost <= UINT16_MAX);
    const uint32_t capacity =
        chunks_.empty() ? Chunk::kFirst : std::min(chunks_.back()->capacity * 2, Chunk::kMost);
    void* memory =
        ::operator new (Chunk::kHeader + capacity * sizeof(Node), std::align_val_t{Chunk::kAlign});
    chunks_.push_back(new (memory) Chunk{{1}, capacity, {this}});
    used_in_last_ = 0;
  }
  Node* n = new (chunks_.back()->at(used_in_last_)) Node(this, id);
  n->place_in_chunk_ = uint16_t(used_in_last_++);
  return n;
}

GraphStore::~GraphStore() {
  // Nodes of one chunk mostly follow each other: they let go of it together.
  Chunk* run = nullptr;
  uint32_t in_run = 0;
  for (Node* n : nodes) {
    if (!n) continue;
    Chunk* chunk = ChunkOf(n);
    n->~Node();
    if (chunk->maker.load(std::memory_order_relaxed) == this) continue;
    if (chunk != run) {
      if (run) Release(run, in_run);
      run = chunk;
      in_run = 0;
    }
    ++in_run;
  }
  if (run) Release(run, in_run);
  for (Chunk* c : left_) Release(c, 1);
  for (Chunk* c : chunks_) {
    c->maker.store(nullptr, std::memory_order_relaxed);
    Release(c, 1);
  }
}

Node* GraphStore::NewNode() {
  WEFT_CHECK(nodes.size() < 0xffffffffu, kLimit, "a graph holds at most 2^32 - 1 nodes");
  Node* n = Allocate(NodeId(nodes.size()));
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
  Chunk* chunk = ChunkOf(node);
  node->~Node();
  if (chunk->maker.load(std::memory_order_relaxed) != this) left_.push_back(chunk);
}

void GraphStore::Adopt(GraphStore& from, const NodePtr* adopted, size_t count,
                       const std::function<NodeEntry(const NodeEntry&)>& outside) {
  // What is among the adopted is here already when a user of it is looked at: producers come first.
  constexpr size_t kAhead = 8;
  size_t uses = 0, uses_here = 0;
  WEFT_CHECK(nodes.size() + count < 0xffffffffu, kLimit, "a graph holds at most 2^32 - 1 nodes");
  nodes.reserve(nodes.size() + count);
  stale.reserve(stale.size() + count);
  // Nodes of one chunk mostly follow each other: they take hold of it together, also when
  // the rest is refused.
  struct Holds {
    Chunk* chunk = nullptr;
    uint32_t nodes = 0;
    void Add(Chunk* c) {
      if (c != chunk) Take(), chunk = c;
      ++nodes;
    }
    void Take() {
      if (nodes) chunk->users.fetch_add(nodes, std::memory_order_relaxed);
      nodes = 0;
    }
    ~Holds() { Take(); }
  } holds;
  for (size_t k = 0; k < count; ++k) {
    Node* n = adopted[k].get();
    if (k + kAhead < count) PrefetchNode(adopted[k + kAhead].get(), true);
    from.CheckOwns(NodeEntry(n), "a moved node");
    WEFT_CHECK(!n->is_variable() && !n->is_output_, kApiMisuse,
               "{} is a variable or an output and cannot be moved", n->Describe());
    for (uint32_t i = 0; i < n->inputs.entries_.size(); ++i) {
      const NodeEntry e = n->inputs.entries_[i];
      if (!e.node) continue;
      if (e.node->store() == this) {
        ++uses_here;
        continue;
      }
      const NodeEntry in = outside(e);
      CheckOwns(in, "what stands for an input");
      Rewire(n, i, in);
    }
    for (uint32_t i = n->control_deps.nodes_.size(); i-- > 0;) {
      Node* before = n->control_deps.nodes_[i];
      if (before->store() == this)
        ++uses_here;
      else
        RemoveControl(n, before);
    }
    uses += n->uses_.size();
    if (Chunk* c = ChunkOf(n); c->maker.load(std::memory_order_relaxed) != &from) {
      // It has been moved before: the other store's hold on the chunk goes over to this one.
      if (c->maker.load(std::memory_order_relaxed) == this) from.left_.push_back(c);
    } else {
      holds.Add(c);
    }
    from.nodes[n->id_] = nullptr;
    from.stale.push_back(n->id_);
    --from.num_nodes;
    n->store_ = this;
    n->id_ = NodeId(nodes.size());
    nodes.push_back(n);
    ++num_nodes;
    stale.push_back(n->id_);
  }
  from.Changed();
  Changed();
  WEFT_CHECK(uses == uses_here, kApiMisuse,
             "nodes that stay behind use {} outputs of nodes that were moved", uses - uses_here);
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

namespace {

/// What is remembered of a variable in `mutation_known_`.
enum : uint8_t { kNotKnown = 0, kNotMutated, kMutated };

const OpMap<FMutateInputs>& Mutations() {
  static const auto& mutates = Op::GetAttr<FMutateInputs>("FMutateInputs");
  return mutates;
}

}  // namespace

bool GraphStore::IsMutated(const Node* variable) {
  const uint8_t known = variable->mutation_known_.load(std::memory_order_relaxed);
  if (known != kNotKnown) return known == kMutated;
  bool mutated = false, final = true;
  for (const Use& u : variable->uses_) {
    if (u.control) continue;
    final = final && u.user->op();  // a node that is still being put together may get any operator
    const FMutateInputs* f = Mutations().find(u.user->op());
    if (!f) continue;
    const std::vector<int> slots = (*f)(u.user);
    mutated = std::find(slots.begin(), slots.end(), int(u.slot)) != slots.end();
    if (mutated) break;
  }
  if (mutated || final)
    variable->mutation_known_.store(mutated ? kMutated : kNotMutated, std::memory_order_relaxed);
  return mutated;
}

void GraphStore::ForgetMutations(Node* node) {
  if (!Mutations().find(node->op())) return;
  for (const NodeEntry& e : node->inputs)
    if (e.node) e.node->mutation_known_.store(kNotKnown, std::memory_order_relaxed);
}

void GraphStore::AddUse(Node* producer, Use use, uint32_t* pos) {
  // One more reader leaves a constant one.
  if (producer->mutation_known_.load(std::memory_order_relaxed) == kNotMutated && !use.control &&
      (!use.user->op() || Mutations().find(use.user->op())))
    producer->mutation_known_.store(kNotKnown, std::memory_order_relaxed);
  *pos = producer->uses_.size();
  producer->uses_.push_back(use);
}

void GraphStore::RemoveUse(Node* producer, uint32_t pos) {
  auto& uses = producer->uses_;
  if (producer->mutation_known_.load(std::memory_order_relaxed) == kMutated)
    producer->mutation_known_.store(kNotKnown, std::memory_order_relaxed);
  if (pos + 1 != uses.size()) {
    uses[pos] = uses.back();
    const Use& moved = uses[pos];
    (moved.control ? moved.user->control_deps.use_pos_[moved.slot]
                   : moved.user->inputs.use_pos_[moved.slot]) = pos;
  }
  uses.pop_back();
}

// ---- edges ----

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
  Rewire(user, slot, e);
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

void GraphStore::RemoveControl(Node* user, Node* before) {
  ControlList& c = user->control_deps;
  const uint32_t size = c.nodes_.size();
  uint32_t at = 0;
  while (at < size && c.nodes_[at] != before) ++at;
  if (at == size) return;
  RemoveUse(before, c.use_pos_[at]);
  for (uint32_t i = at + 1; i < size; ++i) {
    c.nodes_[i - 1] = c.nodes_[i];
    c.use_pos_[i - 1] = c.use_pos_[i];
    c.nodes_[i]->uses_[c.use_pos_[i]].slot = i - 1;
  }
  c.nodes_.pop_back();
  c.use_pos_.pop_back();
  Changed();
}

void GraphStore::SkipControls(Node* user, const std::vector<uint8_t>& live) {
  std::vector<Node*> dead;
  for (Node* d : user->control_deps)
    if (!live[d->id()]) dead.push_back(d);
  const size_t direct = dead.size();
  std::set<Node*> seen(dead.begin(), dead.end());
  for (size_t i = 0; i < dead.size(); ++i) {
    const auto before = [&](Node* d) {
      if (!d || d->is_variable()) return;
      if (live[d->id()])
        PushControl(user, d);
      else if (seen.insert(d).second)
        dead.push_back(d);
    };
    for (const NodeEntry& e : dead[i]->inputs) before(e.node.get());
    for (Node* d : dead[i]->control_deps) before(d);
  }
  for (size_t i = 0; i < direct; ++i) RemoveControl(user, dead[i]);
}

void GraphStore::ClearControl(Node* user) {
  ControlList& c = user->control_deps;
  for (uint32_t i = 0; i < c.nodes_.size(); ++i) RemoveUse(c.nodes_[i], c.use_pos_[i]);
  c.nodes_.clear();
  c.use_pos_.clear();
  Changed();
}

// ---- outputs ----

void GraphStore::NoteOutput(size_t i) {
  Node* n = outputs[i].node.get();
  if (!n) return;
  output_places.emplace(n->id_, uint32_t(i));
  n->is_output_ = true;
}
void GraphStore::UnnoteOutput(size_t i) {
  Node* n = outputs[i].node.get();
  if (!n) return;
  output_places.erase({n->id_, uint32_t(i)});
  auto other = output_places.lower_bound({n->id_, 0});
  n->is_output_ = other != output_places.end() && other->first == n->id_;
}
void GraphStore::SetOutputs(std::vector<NodeEntry> entries) {
  for (const NodeEntry& e : outputs)
    if (e.node) e.node->is_output_ = false;
  outputs = std::move(entries);
  RenumberOutputs();
  Changed();
}
void GraphStore::RenumberOutputs() {
  output_places.clear();
  for (size_t i = 0; i < outputs.size(); ++i) NoteOutput(i);
}
void GraphStore::SetOutput(size_t i, const NodeEntry& e) {
  UnnoteOutput(i);
  outputs[i] = e;
  NoteOutput(i);
  Changed();
}
void GraphStore::PushOutput(const NodeEntry& e) {
  outputs.push_back(e);
  NoteOutput(outputs.size() - 1);
  Changed();
}
void GraphStore::ResizeOutputs(size_t n) {
  for (size_t i = n; i < outputs.size(); ++i) UnnoteOutput(i);
  outputs.resize(n);
  Changed();
}
std::vector<size_t> GraphStore::OutputsThatAre(const NodeEntry& e) const {
  std::vector<size_t> found;
  if (!e.node->is_output_) return found;
  for (auto it = output_places.lower_bound({e.node->id_, 0});
       it != output_places.end() && it->first == e.node->id_; ++it)
    if (outputs[it->second].index == e.index) found.push_back(it->second);
  return found;
}

// ---- copies ----

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
    c->is_output_ = n->is_output_;
  }
  copy->output_places = output_places;
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
