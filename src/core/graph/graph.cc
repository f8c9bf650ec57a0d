/// graph.cc: the lists of a graph, its life, building it, and what a Node says about itself.
/// Editing is in edit.cc, attributes are in graph_attr.cc, views and traversal in view.cc.
#include "weft/core/graph/graph.h"

#include <cstddef>
#include <new>
#include <utility>

#include "entry_attrs.h"
#include "make_node.h"
#include "store.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/operands.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/op/op_param.h"
#include "weft/support/check.h"

namespace weft {

// ---- input and control lists ----

// A list finds its node by its place in it: two pointers a node would cost every walk over
// a large graph. Where members of a class with private parts lie is known to every
// compiler that is supported.
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

/// What a graph that was moved from holds: it may be filled again. Where memory has run out it has
/// nothing, and may be assigned to or destroyed, which is all that unwinding does.
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
  // Lists of handles (`grad_ys` of 2016) mean the twins here. Handles of third graphs and of erased
  // nodes stay as they are.
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

/// A finished, checked node in `store`; nothing stays behind when the check throws.
Node* AddChecked(GraphStore& store, const Op* op, const std::vector<NodeEntry>& inputs,
                 AttrDict dict, std::string name) {
  for (const NodeEntry& e : inputs) store.CheckOwns(e, "an input");
  const bool whole = !inputs.empty() && inputs.back() && int64_t(inputs.size()) >= op->min_inputs;
  std::vector<NodeEntry> trimmed;
  if (!whole) TrimOperands(*op, &(trimmed = inputs));
  Node* n = store.NewNode();
  n->attrs.op = op;
  n->attrs.name = std::move(name);
  n->attrs.dict = std::move(dict);
  for (const NodeEntry& e : whole ? inputs : trimmed) store.PushInput(n, e);
  try {
    ParseAttributes(*n);
    CheckOperands(*n);
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
  return MakeNode(Op::Get(op), inputs, std::move(attrs), std::move(name));
}
NodeEntry MakeNode(const Op* op, const std::vector<NodeEntry>& inputs, AttrDict attrs,
                   std::string name) {
  GraphStore* store = nullptr;
  for (const NodeEntry& e : inputs)
    if (e && !store) store = e.node->store();
  if (!store) store = AmbientStore().get();
  return NodeEntry(AddChecked(*store, op, inputs, std::move(attrs), std::move(name)));
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
    WEFT_CHECK(p->is_variable(), kApiMisuse, "{} is not a variable", p->Describe());
  }
  store_->inputs = variables;
  store_->Changed();
}
std::string Graph::OutputName(size_t i) const {
  if (i < store_->output_names.size() && !store_->output_names[i].empty())
    return store_->output_names[i];
  const NodeEntry& e = store_->outputs.at(i);
  if (!e.node) return fmt::format("output{}", i);
  if (const std::string* own = NameRow(*this, e)) return *own;
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
