/// graph.cc: building and editing graphs, and what a Node says about itself. Attributes are in graph_attr.cc, views and
/// traversal in graph_view.cc.
#include "weft/core/graph.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "attr_value.h"
#include "entry_attrs.h"
#include "graph_store.h"
#include "make_node.h"
#include "weft/core/effects.h"
#include "weft/core/graph_attr.h"
#include "weft/core/op.h"
#include "weft/core/op_attr_types.h"
#include "weft/core/op_param.h"
#include "weft/support/check.h"

namespace weft {

// ---- input and control lists ----

// A list finds its node by its place in it: two pointers a node would cost every walk over a large graph. Where members
// of a class with private parts lie is known to every compiler that is supported.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
Node* InputList::owner() const {
  const char* node = reinterpret_cast<const char*>(this) - offsetof(Node, inputs);
  return const_cast<Node*>(reinterpret_cast<const Node*>(node));
}
Node* ControlList::owner() const {
  const char* node = reinterpret_cast<const char*>(this) - offsetof(Node, control_deps);
  return const_cast<Node*>(reinterpret_cast<const Node*>(node));
}
#pragma GCC diagnostic pop

const NodeEntry& InputList::at(size_t i) const {
  WEFT_CHECK(i < size(), kApiMisuse, "{} has {} inputs, input {} asked for", owner()->Describe(),
             size(), i);
  return entries_[uint32_t(i)];
}
void InputList::push_back(const NodeEntry& e) {
  owner()->store()->PushInput(owner(), e);
  owner()->store()->MarkStale(owner());
}
InputList& InputList::operator=(const std::vector<NodeEntry>& entries) {
  for (const NodeEntry& e : entries) owner()->store()->CheckOwns(e, "an input");
  owner()->store()->ClearInputs(owner());
  for (const NodeEntry& e : entries) owner()->store()->PushInput(owner(), e);
  owner()->store()->MarkStale(owner());
  return *this;
}
void ControlList::push_back(NodePtr n) { owner()->store()->PushControl(owner(), n.get()); }
void ControlList::remove(NodePtr n) { owner()->store()->RemoveControl(owner(), n.get()); }
void ControlList::clear() { owner()->store()->ClearControl(owner()); }

// ---- outputs ----

const std::vector<NodeEntry>& OutputList::entries() const { return graph_->store_->outputs; }
OutputList& OutputList::operator=(const std::vector<NodeEntry>& e) {
  GraphStore& s = *graph_->store_;
  const bool foreign = std::any_of(
      e.begin(), e.end(), [&](const NodeEntry& x) { return x.node && x.node->store() != &s; });
  for (const NodeEntry& x : e)
    if (x.node && x.node->store() == &s) s.CheckOwns(x, "an output");
  std::vector<NodeEntry> own = foreign ? graph_->ImportInto(e, true) : e;
  if (foreign || own.size() != s.outputs.size()) s.output_names.clear();
  s.SetOutputs(std::move(own));
  return *this;
}
OutputList& OutputList::operator=(const OutputList& o) {
  if (this == &o) return *this;
  GraphStore& s = *graph_->store_;
  const GraphStore& from = *o.graph_->store_;
  const size_t count = s.outputs.size();
  std::vector<std::string> names = s.output_names;
  const bool named =
      std::any_of(names.begin(), names.end(), [](const std::string& n) { return !n.empty(); });
  *this = std::vector<NodeEntry>(o.entries());
  s.output_names = named && count == s.outputs.size() ? std::move(names) : from.output_names;
  if (s.name.empty()) s.name = from.name;
  return *this;
}
void OutputList::push_back(const NodeEntry& e) {
  GraphStore& s = *graph_->store_;
  const NodeEntry own = e.node && e.node->store() != &s ? graph_->ImportInto({e}, true)[0] : e;
  s.CheckOwns(own, "an output");
  s.PushOutput(own);
}
void OutputList::resize(size_t n) {
  GraphStore& s = *graph_->store_;
  s.ResizeOutputs(n);
  if (s.output_names.size() > n) s.output_names.resize(n);
}
void OutputList::set(size_t i, const NodeEntry& e) {
  GraphStore& s = *graph_->store_;
  WEFT_CHECK(i < s.outputs.size(), kApiMisuse, "graph has {} outputs, output {} is set",
             s.outputs.size(), i);
  s.CheckOwns(e, "an output");
  // The output keeps the name under which callers know it.
  if (s.output_names.size() <= i) s.output_names.resize(i + 1);
  if (s.output_names[i].empty() && s.outputs[i].node) s.output_names[i] = graph_->OutputName(i);
  s.SetOutput(i, e);
}

// ---- life ----

Graph::Graph() : outputs(this), store_(std::make_shared<GraphStore>()) {}
Graph::~Graph() = default;
Graph::Graph(const Graph& o) : outputs(this), store_(o.store_->Clone()) { CopyAttrs(o); }
namespace {

/// What a graph that was moved from holds: it may be filled again. Where memory has run out it has nothing, and may be
/// assigned to or destroyed, which is all that unwinding does.
std::shared_ptr<GraphStore> EmptyStore() noexcept try {
  return std::make_shared<GraphStore>();
} catch (const std::bad_alloc&) {
  return nullptr;
}

}  // namespace

Graph::Graph(Graph&& o) noexcept
    : outputs(this), attrs(std::move(o.attrs)), store_(std::exchange(o.store_, EmptyStore())) {
  o.attrs.clear();
}
Graph& Graph::operator=(const Graph& o) {
  if (this != &o) {
    store_ = o.store_->Clone();
    CopyAttrs(o);
  }
  return *this;
}
Graph& Graph::operator=(Graph&& o) noexcept {
  if (this != &o) {
    store_ = std::exchange(o.store_, EmptyStore());
    attrs = std::move(o.attrs);
    o.attrs.clear();
  }
  return *this;
}

void Graph::CopyAttrs(const Graph& from) {
  attrs = from.attrs;
  // Lists of handles (`grad_ys` of 2016) mean the twins here. Handles of third graphs and of erased nodes stay as they are.
  auto twin = [&](NodePtr n) {
    return n && from.store_->Lives(n.get()) ? NodePtr(store_->nodes[n->id()]) : n;
  };
  for (auto& [name, value] : attrs) {
    if (!value) continue;
    if (const auto* entries = std::any_cast<std::vector<NodeEntry>>(value.get())) {
      std::vector<NodeEntry> own;
      for (const NodeEntry& e : *entries) own.push_back({twin(e.node), e.index});
      value = std::make_shared<std::any>(std::move(own));
    } else if (const auto* nodes = std::any_cast<std::vector<NodePtr>>(value.get())) {
      std::vector<NodePtr> own;
      for (NodePtr n : *nodes) own.push_back(twin(n));
      value = std::make_shared<std::any>(std::move(own));
    }
  }
}

// ---- building ----

void ParseAttributes(Node& n) {
  const Op& op = *n.attrs.op;
  if (op.attr_parser) op.attr_parser(&n.attrs);
  if (op.param_schema) {
    try {
      n.attrs.param = op.param_schema->Parse(n.attrs.dict);
    } catch (Error& e) {
      e.AddPlace(n.Describe());
      throw;
    }
  }
}

namespace {

/// Parses the attributes and checks the number of inputs of a finished node.
void CheckNode(Node& n) {
  const Op& op = *n.attrs.op;
  ParseAttributes(n);
  const int got = int(n.inputs.size());
  int min = op.min_inputs, max = op.max_inputs;
  if (op.get_num_inputs) min = max = int(op.get_num_inputs(n.attrs));
  WEFT_CHECK(got >= min && (max < 0 || got <= max), kArity, "{} takes {} inputs, {} given",
             n.Describe(),
             min == max ? fmt::format("{}", min)
             : max < 0  ? fmt::format("at least {}", min)
                        : fmt::format("{} to {}", min, max),
             got);
  for (size_t i = 0; i < n.inputs.size() && i < op.inputs.size(); ++i) {
    const ArgDoc& doc = op.inputs[i];
    WEFT_CHECK(n.inputs[i].node || doc.optional || doc.variadic, kArity,
               "{}: input {} ('{}') may not be absent", n.Describe(), i, doc.name);
  }
}

/// A finished, checked node in `store`; nothing stays behind when the check throws.
Node* AddChecked(GraphStore& store, const Op* op, const std::vector<NodeEntry>& inputs,
                 AttrDict dict, std::string name) {
  for (const NodeEntry& e : inputs) store.CheckOwns(e, "an input");
  Node* n = store.NewNode();
  n->attrs.op = op;
  n->attrs.name = std::move(name);
  n->attrs.dict = std::move(dict);
  for (const NodeEntry& e : inputs) store.PushInput(n, e);
  try {
    CheckNode(*n);
  } catch (...) {
    store.Destroy(n);
    throw;
  }
  return n;
}

}  // namespace

NodePtr Graph::AddNode(const Op* op, const std::vector<NodeEntry>& inputs, AttrDict dict,
                       std::string name) {
  WEFT_CHECK(op != nullptr, kApiMisuse,
             "AddNode needs an operator; use AddInput or AddParam for variables");
  return AddChecked(*store_, op, inputs, std::move(dict), std::move(name));
}
NodeEntry MakeNode(std::string_view op, std::string name, const std::vector<NodeEntry>& inputs,
                   AttrDict attrs) {
  GraphStore* store = nullptr;
  for (const NodeEntry& e : inputs)
    if (e && !store) store = e.node->store();
  if (!store) store = AmbientStore().get();
  return NodeEntry(AddChecked(*store, Op::Get(op), inputs, std::move(attrs), std::move(name)));
}
NodeEntry MakeNode(const Op* op, const std::vector<NodeEntry>& inputs) {
  GraphStore* store = nullptr;
  for (const NodeEntry& e : inputs)
    if (e && !store) store = e.node->store();
  if (!store) store = AmbientStore().get();
  return NodeEntry(AddChecked(*store, op, inputs, {}, {}));
}
NodePtr Graph::AddNode(std::string_view op, const std::vector<NodeEntry>& inputs, AttrDict dict,
                       std::string name) {
  return AddNode(Op::Get(op), inputs, std::move(dict), std::move(name));
}
NodePtr Graph::AddCopy(NodePtr source, const std::vector<NodeEntry>& inputs) {
  Node* n = store_->NewNode();
  n->attrs = source->attrs;
  n->origin_ = source->origin_;
  for (const NodeEntry& e : inputs) store_->PushInput(n, e);
  return n;
}
NodePtr Graph::AddInput(std::string name, Type type, Shape shape) {
  Node* n = store_->NewNode();
  n->attrs.name = std::move(name);
  if (type.is_tensor()) {
    if (type.known()) n->attrs.dict["dtype"] = type.dtype;
  } else {
    n->attrs.dict["type"] = type.ToString();
  }
  if (shape.has_rank()) n->attrs.dict["shape"] = std::move(shape);
  store_->inputs.push_back(n);
  return n;
}
NodePtr Graph::AddParam(std::string name, TensorPtr value) {
  WEFT_CHECK(value != nullptr, kApiMisuse, "parameter '{}' has no value", name);
  Node* n = store_->NewNode();
  n->attrs.name = std::move(name);
  n->attrs.dict["value"] = std::move(value);
  return n;
}
NodeEntry Graph::AddConstant(TensorPtr value, std::string name) {
  return AddNode("Constant", {}, {{"value", std::move(value)}}, std::move(name));
}
const std::vector<NodePtr>& Graph::inputs() const { return store_->inputs; }
void Graph::SetInputs(const std::vector<NodePtr>& variables) {
  for (NodePtr p : variables) {
    store_->CheckOwns(p, "an input of the graph");
    WEFT_CHECK(p->is_variable(), kApiMisuse, "{} is no variable", p->Describe());
  }
  store_->inputs = variables;
  store_->Changed();
}
std::string Graph::OutputName(size_t i) const {
  if (i < store_->output_names.size() && !store_->output_names[i].empty())
    return store_->output_names[i];
  const NodeEntry& e = store_->outputs.at(i);
  if (!e.node) return fmt::format("output{}", i);
  const std::string& base = e.node->attrs.name;
  std::string name = base.empty() ? fmt::format("output{}", i) : base;
  return e.index == 0 ? name : fmt::format("{}:{}", name, e.index);
}
void Graph::SetOutputName(size_t i, std::string name) {
  WEFT_CHECK(i < outputs.size(), kApiMisuse, "graph has {} outputs, output {} asked for",
             outputs.size(), i);
  if (store_->output_names.size() <= i) store_->output_names.resize(i + 1);
  store_->output_names[i] = std::move(name);
}
std::string Graph::name() const { return store_->name; }
void Graph::set_name(std::string name) { store_->name = std::move(name); }

// ---- editing ----

void Graph::Touch(NodePtr node) { store_->MarkStale(node.get()); }

void Graph::SetInput(NodePtr user, size_t slot, NodeEntry e) {
  store_->CheckOwns(user, "the user");
  store_->SetInput(user.get(), uint32_t(slot), e);
  store_->MarkStale(user.get());
}

void Graph::SetAttr(NodePtr node, std::string_view name, AttrValue value) {
  store_->CheckOwns(node, "the node");
  NodeAttrs before = node->attrs;
  node->attrs.dict[name] = std::move(value);
  if (node->attrs.op) {
    try {
      ParseAttributes(*node);
    } catch (...) {
      node->attrs = std::move(before);
      throw;
    }
  }
  store_->ForgetMutations(node.get());
  store_->MarkStale(node.get());
}

void Graph::ReplaceUses(NodeEntry from, NodeEntry to) {
  store_->CheckOwns(from, "the replaced entry");
  store_->CheckOwns(to, "the replacement");
  WEFT_CHECK(from.node && to.node, kApiMisuse, "ReplaceUses needs two entries");
  if (from == to) return;
  // Where all derived rows agree, what the users' own rows were computed from has not changed.
  bool same_rows = true;
  for (const auto& [name, value] : attrs) {
    const AttrType* t = AttrTypeOf(name, value);
    if (t && t->kind == AttrKind::kDerived && t->rows_equal)
      same_rows = same_rows && t->rows_equal(*value, from, to);
  }
  std::vector<Use> uses;
  for (const Use& u : from.node->uses())
    if (!u.control && u.user != to.node.get() && u.user->inputs[u.slot].index == from.index)
      uses.push_back(u);
  // Reversed: each removal fills its place in the use list from the end.
  for (auto u = uses.rbegin(); u != uses.rend(); ++u) {
    store_->SetInput(u->user, u->slot, to);
    if (!same_rows) store_->MarkStale(u->user);
  }
  for (size_t i : store_->OutputsThatAre(from)) outputs.set(i, to);
  FollowReplacement(attrs, from, to);
  MergeOrigin(to.node, from.node);
}

void Graph::ReplaceNode(NodePtr from, const std::vector<NodeEntry>& to) {
  store_->CheckOwns(from, "the replaced node");
  NodePtr heir;
  for (const NodeEntry& e : to)
    if (!heir && e.node && e.node != from) heir = e.node;
  if (!heir) return;
  store_->CheckOwns(heir, "the replacement");
  // An heir that nobody uses yet comes before nothing, so it may come after what `from` came after. One that is used may
  // come before that already (Identity replaced by its own input): its new users are the ones to wait then.
  const bool fresh_heir = heir->uses().empty() && !heir->is_variable() && !ConstantOf(heir);
  std::vector<Node*> users;
  if (!from->control_deps.empty() && !fresh_heir) {
    for (const Use& u : from->uses()) {
      if (u.control) continue;
      const uint32_t index = u.user->inputs[u.slot].index;
      if (index < to.size() && to[index].node && to[index].node != from &&
          to[index].node.get() != u.user)
        users.push_back(u.user);
    }
    std::sort(users.begin(), users.end(),
              [](const Node* a, const Node* b) { return a->id() < b->id(); });
    users.erase(std::unique(users.begin(), users.end()), users.end());
  }
  for (uint32_t i = 0; i < to.size(); ++i)
    if (to[i].node) ReplaceUses({from, i}, to[i]);

  std::vector<Node*> after;
  for (const Use& u : from->uses())
    if (u.control) after.push_back(u.user);
  const std::vector<Node*> before(from->control_deps.begin(), from->control_deps.end());
  for (Node* user : after) {
    std::vector<Node*> kept(user->control_deps.begin(), user->control_deps.end());
    store_->ClearControl(user);
    for (Node* d : kept) {
      if (d != from.get()) {
        store_->PushControl(user, d);
        continue;
      }
      if (heir.get() != user) store_->PushControl(user, heir.get());
      if (fresh_heir) continue;
      for (Node* b : before)
        if (b != user && b != heir.get()) store_->PushControl(user, b);
    }
  }
  if (fresh_heir) users = {heir.get()};
  for (Node* user : users)
    for (Node* d : before)
      if (d != user) store_->PushControl(user, d);
}

void Graph::Erase(NodePtr node) {
  store_->CheckOwns(node, "the erased node");
  WEFT_CHECK(node->uses().empty() && !is_output(node), kApiMisuse,
             "{} is still used and cannot be erased", node->Describe());
  if (auto& in = store_->inputs; node->is_variable())
    in.erase(std::remove(in.begin(), in.end(), node), in.end());
  store_->Destroy(node.get());
}

int Graph::EraseDead() {
  std::vector<uint8_t> live(store_->nodes.size(), 0);
  std::vector<Node*> work;
  auto mark = [&](Node* n) {
    if (n && !live[n->id()]) live[n->id()] = 1, work.push_back(n);
  };
  for (const NodeEntry& e : store_->outputs) mark(e.node.get());
  for (NodePtr p : store_->inputs) mark(p.get());
  ForEachAskedNode(attrs, [&](NodeId id) { mark(node(id).get()); });
  for (Node* n : store_->nodes)
    if (n && HasEffect(n)) mark(n);
  while (!work.empty()) {
    Node* n = work.back();
    work.pop_back();
    for (const NodeEntry& e : n->inputs) mark(e.node.get());
    for (Node* d : n->control_deps)
      if (d->is_variable() || HasEffect(d)) mark(d);
  }
  // Nobody sees whether a node without effects runs: what only has to come before others goes, and they come after what
  // it came after.
  for (Node* n : store_->nodes)
    if (n && live[n->id()]) store_->SkipControls(n, live);
  // Edges among the dead need no care: only the use lists of the living are mended.
  int erased = 0;
  for (Node* n : store_->nodes) {
    if (!n || live[n->id()]) continue;
    store_->ForgetUses(n, [&](const Node* producer) { return live[producer->id()] != 0; });
  }
  for (Node*& n : store_->nodes)
    if (n && !live[n->id()]) store_->Drop(n), ++erased;
  return erased;
}

void Graph::MoveNodes(Graph& from, const NodePtr* nodes, size_t count,
                      const std::function<NodeEntry(const NodeEntry&)>& outside) {
  WEFT_CHECK(store_ != from.store_, kApiMisuse, "nodes are moved between two graphs");
  store_->Adopt(*from.store_, nodes, count, outside);
}

void Graph::SetOrigin(NodePtr node, Origin origin) { node->origin_ = std::move(origin); }

void Graph::MergeOrigin(NodePtr to, NodePtr from) {
  // A rewrite chain stands for at most this many names; more would make messages, not help.
  constexpr size_t kMaxOrigins = 16;
  if (to->is_variable() || to == from) return;
  std::vector<std::string> names;
  auto add = [&](NodePtr n) {
    if (n->origin_) {
      for (const std::string& s : *n->origin_)
        if (std::find(names.begin(), names.end(), s) == names.end()) names.push_back(s);
    } else if (!n->attrs.name.empty() &&
               std::find(names.begin(), names.end(), n->attrs.name) == names.end()) {
      names.push_back(n->attrs.name);
    }
  };
  add(to);
  add(from);
  if (names.size() > kMaxOrigins) names.resize(kMaxOrigins);
  if (!names.empty())
    to->origin_ = std::make_shared<const std::vector<std::string>>(std::move(names));
}

std::vector<NodeEntry> Graph::Import(const std::vector<NodeEntry>& entries) {
  return ImportInto(entries, false);
}

std::vector<NodeEntry> Graph::ImportInto(const std::vector<NodeEntry>& entries,
                                         bool share_earlier) {
  for (const NodeEntry& e : entries)
    if (e.node) e.node->store()->CheckOwns(e, "an imported entry");
  std::unordered_map<Node*, Node*> twin;
  // What an earlier import has made of `n`, if neither has changed since: their operators, names and edges tell.
  auto earlier = [&](Node* n) -> Node* {
    const std::vector<NodeId>& went = store_->imported[n->store()];
    Node* c = n->id() < went.size() && went[n->id()] < store_->nodes.size()
                  ? store_->nodes[went[n->id()]]
                  : nullptr;
    if (!c || c->op() != n->op() || c->attrs.name != n->attrs.name) return nullptr;
    if (c->num_inputs() != n->num_inputs() || c->control_deps.size() != n->control_deps.size())
      return nullptr;
    for (uint32_t i = 0; i < n->num_inputs(); ++i) {
      const NodeEntry &e = n->inputs[i], &own = c->inputs[i];
      if (own.index != e.index || own.node.get() != (e.node ? twin.at(e.node.get()) : nullptr))
        return nullptr;
    }
    for (uint32_t i = 0; i < n->control_deps.size(); ++i)
      if (c->control_deps[i].get() != twin.at(n->control_deps[i].get())) return nullptr;
    return c->attrs.dict == n->attrs.dict ? c : nullptr;
  };
  DFSVisit(entries, [&](const NodePtr& n) {
    if (n->store() == store_.get()) {
      twin[n.get()] = n.get();
      return;
    }
    uint64_t& serial = store_->imported_serial[n->store()];
    if (serial != n->store()->serial) store_->imported[n->store()].clear();
    serial = n->store()->serial;
    if (share_earlier)
      if (Node* c = earlier(n.get())) {
        twin[n.get()] = c;
        return;
      }
    Node* c = store_->NewNode();
    c->attrs = n->attrs;
    c->origin_ = n->origin_;
    for (const NodeEntry& e : n->inputs)
      store_->PushInput(c, {e.node ? twin.at(e.node.get()) : nullptr, e.index});
    for (Node* d : n->control_deps) store_->PushControl(c, twin.at(d));
    twin[n.get()] = c;
    std::vector<NodeId>& went = store_->imported[n->store()];
    if (went.size() <= n->id()) went.resize(n->store()->nodes.size(), ~0u);
    went[n->id()] = c->id();
  });
  // Declared inputs stay declared, in their order.
  std::vector<GraphStore*> sources;
  for (const NodeEntry& e : entries)
    if (e.node && e.node->store() != store_.get() &&
        std::find(sources.begin(), sources.end(), e.node->store()) == sources.end())
      sources.push_back(e.node->store());
  std::unordered_set<Node*> declared;
  for (NodePtr p : store_->inputs) declared.insert(p.get());
  for (GraphStore* s : sources)
    for (NodePtr p : s->inputs)
      if (auto it = twin.find(p.get()); it != twin.end() && declared.insert(it->second).second)
        store_->inputs.push_back(it->second);
  std::vector<NodeEntry> out;
  for (const NodeEntry& e : entries)
    out.push_back({e.node ? twin.at(e.node.get()) : nullptr, e.index});
  return out;
}

// ---- nodes ----

uint32_t Node::num_outputs() const { return attrs.op ? attrs.op->OutputCount(attrs) : 1; }

AttrValue Node::Attr(std::string_view name) const {
  if (const AttrValue* v = attrs.dict.find(name)) return *v;
  if (attrs.op && attrs.op->param_schema) {
    if (const ParamField* f = attrs.op->param_schema->find(name))
      if (AttrValue v = f->read(param()); !v.empty()) return v;
  }
  WEFT_THROW(kBadAttribute, "{} has no attribute '{}'", Describe(), name);
}

const void* Node::param() const {
  // A node put together by hand (2016 interface) has not been through a parser.
  if (!attrs.param && attrs.op && attrs.op->param_schema) ParseAttributes(const_cast<Node&>(*this));
  WEFT_ICHECK(attrs.param != nullptr, "{} has no attribute struct", Describe());
  return attrs.param.get();
}

std::string Node::Describe() const {
  std::string s = fmt::format("%{}", id_);
  if (!attrs.name.empty()) s += fmt::format(" '{}'", attrs.name);
  s += fmt::format(" ({})", attrs.op ? attrs.op->name : "variable");
  if (origin_ && !(origin_->size() == 1 && (*origin_)[0] == attrs.name)) {
    s += " from";
    for (const std::string& o : *origin_) s += fmt::format(" '{}'", o);
  }
  return s;
}

}  // namespace weft
