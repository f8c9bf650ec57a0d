/// view.cc: looking at a graph: traversal, dense views, the ambient graph of a thread.
#include <algorithm>
#include <unordered_set>

#include "attr_value.h"
#include "store.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/support/check.h"

namespace weft {
namespace {

/// Post-order over inputs and control edges, one store: ids index the marks. A node on the stack
/// that is met again closes a cycle.
class PostOrder {
 public:
  explicit PostOrder(const GraphStore& store) : store_(store), mark_(store.nodes.size(), kNew) {}
  bool Done(NodeId id) const { return id < mark_.size() && mark_[id] == kDone; }
  template <class F>
  void Visit(Node* head, F&& f) {
    if (!head || !Open(head)) return;
    while (!stack_.empty()) {
      Frame& top = stack_.back();
      if (top.next == top.edges) {
        Node* n = top.node;
        mark_[top.id] = kDone;
        stack_.pop_back();
        if (stack_.size() >= kAhead) PrefetchNode(stack_[stack_.size() - kAhead].node, false);
        f(n);
        continue;
      }
      const Node* n = top.node;
      const uint32_t k = top.next++, inputs = n->num_inputs();
      Node* in = k < inputs ? n->inputs[k].node.get() : n->control_deps[k - inputs].get();
      if (in) Open(in);
    }
  }

 private:
  enum : uint8_t { kNew, kOpen, kDone };
  struct Frame {
    Node* node;
    NodeId id;
    uint32_t next, edges;
  };
  bool Open(Node* n) {
    const NodeId id = n->id();
    if (id >= mark_.size()) mark_.resize(store_.nodes.size(), kNew);  // `f` has added nodes
    if (mark_[id] == kDone) return false;
    WEFT_CHECK(mark_[id] == kNew, kCycle, "the graph has a cycle through {}", n->Describe());
    mark_[id] = kOpen;
    stack_.push_back({n, id, 0, uint32_t(n->num_inputs() + n->control_deps.size())});
    // Graphs are mostly built producers first: a walk goes down the ids to the first
    // producers and up again.
    if (id >= kNear && id + kNear < store_.nodes.size()) {
      if (const Node* near = store_.nodes[id - kNear]) PrefetchNode(near, false);
      if (const Node* near = store_.nodes[id + kNear]) PrefetchNode(near, false);
    }
    return true;
  }
  /// How many nodes ahead are read: enough to hide the way to memory, measured on a
  /// graph of 10^6 nodes.
  static constexpr size_t kAhead = 8, kNear = 64;
  const GraphStore& store_;
  std::vector<uint8_t> mark_;
  std::vector<Frame> stack_;
};

}  // namespace

void DFSVisit(const std::vector<NodeEntry>& heads, const std::function<void(const NodePtr&)>& f) {
  // Heads may lie in several graphs (Import); each part is visited by itself, in
  // order of first appearance.
  std::vector<GraphStore*> stores;
  for (const NodeEntry& e : heads)
    if (e.node && std::find(stores.begin(), stores.end(), e.node->store()) == stores.end())
      stores.push_back(e.node->store());
  for (GraphStore* s : stores) {
    std::vector<NodeEntry> own;
    for (const NodeEntry& e : heads)
      if (e.node && e.node->store() == s) own.push_back(e);
    PostOrder visit(*s);
    for (const NodeEntry& e : own) visit.Visit(e.node.get(), [&](Node* n) { f(NodePtr(n)); });
  }
}

std::vector<NodePtr> Graph::TopoOrder() const {
  std::vector<NodePtr> order;
  order.reserve(num_nodes());
  PostOrder visit(*store_);
  auto add = [&](Node* n) { order.push_back(n); };
  for (const NodeEntry& e : store_->outputs) visit.Visit(e.node.get(), add);
  // An effect happens whether or not an output sees it. Nodes that an output has reached are
  // not looked at again.
  if (order.size() < num_nodes())
    for (NodeId id = 0; id < store_->nodes.size(); ++id) {
      Node* n = store_->nodes[id];
      if (n && !visit.Done(id) && HasEffect(n)) visit.Visit(n, add);
    }
  return order;
}

NodePtr Graph::node(NodeId id) const {
  return id < store_->nodes.size() ? store_->nodes[id] : nullptr;
}
NodeId Graph::id_bound() const { return NodeId(store_->nodes.size()); }
size_t Graph::num_nodes() const { return store_->num_nodes; }
uint64_t Graph::revision() const { return store_->revision; }
bool Graph::owns(NodePtr handle) const { return handle && handle->store() == store_.get(); }
NodePtr Graph::at(NodePtr handle) const {
  if (!handle || owns(handle)) return handle;
  NodePtr twin = node(handle->id());
  WEFT_CHECK(twin != nullptr, kApiMisuse, "this graph has no node with the id of {}",
             handle->Describe());
  return twin;
}
bool Graph::is_output(NodePtr n) const { return owns(n) && n->is_output_; }

std::vector<NodePtr> Graph::AllInputs() const {
  std::vector<NodePtr> all;
  std::unordered_set<Node*> seen;
  for (NodePtr p : store_->inputs)
    if (seen.insert(p.get()).second && !IsState(p)) all.push_back(p);
  for (NodePtr n : TopoOrder())
    if (n->is_variable() && !n->has_attr("value") && seen.insert(n.get()).second && !IsState(n))
      all.push_back(n);
  return all;
}

TensorPtr Graph::ConstantOf(const NodeEntry& e) {
  if (!e.node) return nullptr;
  static const Op* const constant = Op::Find("Constant");
  if (!e.node->is_variable() && e.node->op() != constant) return nullptr;
  const AttrValue* v = e.node->attrs.dict.find("value");
  // What an op writes is state, whatever it starts with.
  if (v && e.node->is_variable() && IsState(e.node)) return nullptr;
  return v && v->is<TensorPtr>() ? v->get<TensorPtr>() : nullptr;
}

std::vector<NodeId> Graph::Compact() {
  FlushStale();
  std::vector<NodePtr> order = TopoOrder();
  std::vector<uint8_t> placed(store_->nodes.size(), 0);
  for (NodePtr n : order) placed[n->id()] = 1;
  for (Node* n : store_->nodes)
    if (n && !placed[n->id()])
      order.push_back(n);  // what no output reaches keeps its relative order
  std::vector<NodeId> map(store_->nodes.size(), ~0u);
  std::vector<Node*> nodes;
  nodes.reserve(order.size());
  for (NodePtr n : order) {
    map[n->id()] = NodeId(nodes.size());
    nodes.push_back(n.get());
  }
  for (NodeId id = 0; id < nodes.size(); ++id) nodes[id]->id_ = id;
  store_->nodes = std::move(nodes);
  store_->RenumberOutputs();
  ++store_->revision;
  store_->serial = GraphStore::NextSerial();
  for (auto& [source, went] : store_->imported)
    for (NodeId& id : went)
      if (id != ~0u) id = map[id];
  std::vector<std::string> lost;  // derived, naming nodes by their old ids
  for (auto& [name, value] : attrs) {
    const AttrType* t = AttrTypeOf(name, value);
    if (!t) continue;
    if (!t->remap) {
      if (t->scope == AttrScope::kGraph && t->kind == AttrKind::kDerived) lost.push_back(name);
      continue;
    }
    auto fresh = std::make_shared<std::any>(*value);
    t->remap(*fresh, map);
    value = fresh;
  }
  for (const std::string& name : lost) attrs.erase(name);
  return map;
}

// ---- IndexedGraph ----

const IndexedGraph& Graph::indexed_graph() const {
  if (store_->view && store_->view->revision_ == store_->revision) return *store_->view;
  if (store_->view) {
    // A caller may hold a reference to the last view: it stays, without content, and throws.
    *store_->view = IndexedGraph();
    store_->old_views.push_back(std::move(store_->view));
  }
  auto g = std::make_shared<IndexedGraph>();
  g->store_ = store_;
  g->revision_ = store_->revision;
  g->index_of_id_.assign(store_->nodes.size(), ~0u);
  const auto& mutates = Op::GetAttr<FMutateInputs>("FMutateInputs");
  std::vector<NodePtr> order = TopoOrder();
  g->nodes_.reserve(order.size());
  g->entry_begin_.reserve(order.size() + 1);
  uint32_t entries = 0;
  std::vector<uint32_t> mutated;
  for (NodePtr n : order) {
    const uint32_t id = uint32_t(g->nodes_.size());
    g->index_of_id_[n->id()] = id;
    IndexedGraph::IndexedNode node;
    node.source = n.get();
    node.inputs.reserve(n->num_inputs());
    for (const NodeEntry& e : n->inputs)
      node.inputs.push_back(
          e.node ? IndexedGraph::IndexedEntry{g->index_of_id_[e.node->id()], e.index, 0}
                 : IndexedGraph::IndexedEntry{~0u, 0, 0});
    for (Node* d : n->control_deps) node.control_deps.push_back(g->index_of_id_[d->id()]);
    if (n->is_variable())
      g->input_nodes_.push_back(id);
    else if (auto* f = mutates.find(n->op()))
      for (int i : (*f)(n)) mutated.push_back(g->index_of_id_[n->inputs.at(size_t(i)).node->id()]);
    g->nodes_.push_back(std::move(node));
    g->entry_begin_.push_back(entries);
    entries += n->num_outputs();
  }
  g->entry_begin_.push_back(entries);
  std::sort(mutated.begin(), mutated.end());
  mutated.erase(std::unique(mutated.begin(), mutated.end()), mutated.end());
  g->mutable_inputs_ = std::move(mutated);
  for (const NodeEntry& e : store_->outputs)
    WEFT_CHECK(e.node, kApiMisuse, "an output of the graph is null");
  for (const NodeEntry& e : store_->outputs)
    g->outputs_.push_back({g->index_of_id_[e.node->id()], e.index, 0});
  store_->view = g;
  return *g;
}

void IndexedGraph::Check() const {
  auto s = store_.lock();
  WEFT_CHECK(s && s->revision == revision_, kApiMisuse,
             "this IndexedGraph is stale: the graph was edited after it was made");
}
const std::vector<IndexedGraph::IndexedNode>& IndexedGraph::nodes() const {
  Check();
  return nodes_;
}
size_t IndexedGraph::num_node_entries() const {
  Check();
  return entry_begin_.back();
}
bool IndexedGraph::exist(NodePtr n) const {
  Check();
  return n && n->store() == store_.lock().get() && n->id() < index_of_id_.size() &&
         index_of_id_[n->id()] != ~0u;
}
uint32_t IndexedGraph::node_id(NodePtr n) const {
  WEFT_CHECK(exist(n), kApiMisuse, "no such node in the indexed graph: {}",
             n ? n->Describe() : "null");
  return index_of_id_[n->id()];
}
uint32_t IndexedGraph::entry_id(uint32_t node_id, uint32_t index) const {
  Check();
  return entry_begin_.at(node_id) + index;
}
const std::vector<uint32_t>& IndexedGraph::input_nodes() const {
  Check();
  return input_nodes_;
}
const std::vector<uint32_t>& IndexedGraph::mutable_input_nodes() const {
  Check();
  return mutable_inputs_;
}
const std::vector<IndexedGraph::IndexedEntry>& IndexedGraph::outputs() const {
  Check();
  return outputs_;
}

// ---- ambient graph ----

namespace {
std::shared_ptr<GraphStore>& Ambient() {
  thread_local std::shared_ptr<GraphStore> store = std::make_shared<GraphStore>();
  return store;
}
}  // namespace

const std::shared_ptr<GraphStore>& AmbientStore() { return Ambient(); }
AmbientScope::AmbientScope(Graph& graph) : previous_(Ambient()) {
  Ambient() = graph.shared_store();
}
AmbientScope::~AmbientScope() { Ambient() = previous_; }
void ResetAmbientGraph() { Ambient() = std::make_shared<GraphStore>(); }
NodePtr Node::Create() { return Ambient()->NewNode(); }

}  // namespace weft
