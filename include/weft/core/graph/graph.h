/// graph.h: nodes, entries and graphs.
///
/// A `Graph` owns a store of nodes at stable addresses, each with a stable id that is never reused.
/// `NodePtr` is a thin pointer into it, valid for the graph's life; `NodeEntry` is output `index`
/// of `node`. Moving a graph keeps every handle valid; copying keeps ids, old handles go on meaning
/// the source, and `copy.at(handle)` gives the twin. Building a node from entries puts it in their
/// graph. Assigning foreign entries to `outputs` imports what they reach; any other mixing of
/// graphs throws kApiMisuse. Nothing here recurses over nodes.
///
/// Edits go through `Graph` methods and the input lists of nodes, which keep use lists, bump the
/// revision and clear the *derived* attribute rows (shape, dtype ...) of touched nodes and of
/// what depends on them.
#pragma once

#include <any>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/core/graph/attr.h"
#include "weft/support/small_vector.h"

namespace weft {

class Node;
class Graph;
class GraphStore;
class IndexedGraph;
class OpParamBase;
using NodeId = uint32_t;

/// Thin handle to a node; behaves as a pointer.
class NodePtr {
 public:
  NodePtr() = default;
  NodePtr(std::nullptr_t) {}            // NOLINT
  NodePtr(Node* node) : node_(node) {}  // NOLINT
  NodePtr(const Node* node)
      : node_(const_cast<Node*>(node)) {}  // NOLINT: handles carry no constness
  Node* get() const { return node_; }
  Node* operator->() const { return node_; }
  Node& operator*() const { return *node_; }
  explicit operator bool() const { return node_ != nullptr; }
  friend bool operator==(NodePtr a, NodePtr b) { return a.node_ == b.node_; }
  friend bool operator!=(NodePtr a, NodePtr b) { return a.node_ != b.node_; }

 private:
  Node* node_ = nullptr;
};

/// An entry by its node's id: for tables, and where the node need not be looked at. Ordered as
/// nodes and their outputs are.
struct EntryKey {
  NodeId id = kAbsent;
  uint32_t index = 0;
  static constexpr NodeId kAbsent = ~0u;
  bool present() const { return id != kAbsent; }
  /// Of an absent one: greater than any other.
  uint64_t packed() const { return uint64_t{id} << 32 | index; }
  friend bool operator==(EntryKey a, EntryKey b) { return a.packed() == b.packed(); }
  friend bool operator!=(EntryKey a, EntryKey b) { return a.packed() != b.packed(); }
  friend bool operator<(EntryKey a, EntryKey b) { return a.packed() < b.packed(); }
};

/// Output `index` of `node`; a null node is an absent optional input. `version` may be given and
/// read (2016), is always 0 and takes no room.
struct NodeEntry {
  NodePtr node;
  uint32_t index = 0;
  static constexpr uint32_t version = 0;

  NodeEntry() = default;
  NodeEntry(NodePtr n, uint32_t i = 0, uint32_t /*version*/ = 0) : node(n), index(i) {}  // NOLINT
  explicit operator bool() const { return bool(node); }
  EntryKey key() const;
  friend bool operator==(const NodeEntry& a, const NodeEntry& b) {
    return a.node == b.node && a.index == b.index;
  }
  friend bool operator!=(const NodeEntry& a, const NodeEntry& b) { return !(a == b); }
};

/// One use of a node's outputs: slot of a user's inputs, or a control edge.
struct Use {
  Node* user;
  uint32_t slot;  ///< input number; for a control edge, its position in control_deps
  bool control;
};

/// Inputs of a node. Reads as a vector; every change goes through the graph.
class WEFT_API InputList {
 public:
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  const NodeEntry& operator[](size_t i) const { return entries_[uint32_t(i)]; }
  const NodeEntry& at(size_t i) const;
  const NodeEntry& front() const { return entries_[0]; }
  const NodeEntry& back() const { return entries_.back(); }
  const NodeEntry* begin() const { return entries_.begin(); }
  const NodeEntry* end() const { return entries_.end(); }
  operator std::vector<NodeEntry>() const { return {begin(), end()}; }  // NOLINT

  void push_back(const NodeEntry& e);
  template <class... A>
  void emplace_back(A&&... a) {
    push_back(NodeEntry(std::forward<A>(a)...));
  }
  void clear() { *this = std::vector<NodeEntry>(); }
  InputList& operator=(const std::vector<NodeEntry>& entries);
  InputList& operator=(const InputList&) = delete;
  InputList(const InputList&) = delete;

 private:
  friend class Node;
  friend class GraphStore;
  InputList() = default;
  Node* owner() const;  // the node that it is part of
  SmallVector<NodeEntry, 2> entries_;
  SmallVector<uint32_t, 2> use_pos_;  // where each entry stands in its producer's use list
};

/// Control edges: nodes that must run before this one.
class WEFT_API ControlList {
 public:
  size_t size() const { return nodes_.size(); }
  bool empty() const { return nodes_.empty(); }
  NodePtr operator[](size_t i) const { return nodes_[uint32_t(i)]; }
  Node* const* begin() const { return nodes_.begin(); }
  Node* const* end() const { return nodes_.end(); }
  void push_back(NodePtr n);  ///< a duplicate is ignored
  void remove(
      NodePtr n);  ///< the others keep their order; nothing happens where there is no such edge
  void clear();
  ControlList(const ControlList&) = delete;
  ControlList& operator=(const ControlList&) = delete;

 private:
  friend class Node;
  friend class GraphStore;
  ControlList() = default;
  Node* owner() const;  // the node that it is part of
  SmallVector<Node*, 1> nodes_;
  SmallVector<uint32_t, 1> use_pos_;
};

/// The user's nodes that a node stands for; null: only itself.
using Origin = std::shared_ptr<const std::vector<std::string>>;

class WEFT_API Node {
 private:
  // Ids, edges, uses and the operator stand together, before what few readers look at: a walk over
  // a graph that has left the caches is bound by the lines that it reads. A node fills four lines
  // of 64 bytes; the first three are walked.
  GraphStore* store_;
  NodeId id_;
  uint16_t place_in_chunk_ = 0;
  bool is_output_ = false;                          // some output of the graph names this node
  mutable std::atomic<uint8_t> mutation_known_{0};  // see Graph::ConstantOf

 public:
  InputList inputs;
  ControlList control_deps;

 private:
  SmallVector<Use, 2> uses_;

 public:
  /// Op, name and attributes. May be written on a node that no pass has seen
  /// yet; later use Graph::SetAttr.
  NodeAttrs attrs;

  NodeId id() const { return id_; }
  const Op* op() const { return attrs.op; }
  bool is_variable() const { return attrs.op == nullptr; }
  /// By the op's declaration; 1 for a variable.
  uint32_t num_outputs() const;
  uint32_t num_inputs() const { return uint32_t(inputs.size()); }
  /// Uses by other nodes, in no promised order; graph outputs are not in it (see Graph::is_output).
  const SmallVector<Use, 2>& uses() const { return uses_; }
  /// Attribute as set, else the declared default of the op; throws
  /// kBadAttribute when neither exists.
  template <class T>
  T attr(std::string_view name) const {
    return Attr(name).get<T>();
  }
  AttrValue Attr(std::string_view name) const;
  bool has_attr(std::string_view name) const { return attrs.dict.find(name) != nullptr; }
  /// The op's attribute struct (a WEFT_OP_PARAM), parsed once; see op_param.h.
  const void* param() const;

  const Origin& origin() const { return origin_; }
  /// "%12 'conv1' (Conv)": for messages.
  std::string Describe() const;
  GraphStore* store() const { return store_; }

  /// A fresh node in the ambient graph of this thread (2016 interface).
  static NodePtr Create();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

 private:
  friend class GraphStore;
  friend class Graph;
  friend class InputList;
  friend class ControlList;
  Node(GraphStore* store, NodeId id) : store_(store), id_(id) {}
  ~Node() = default;
  Origin origin_;
};

/// Outputs of a graph. Assigning entries of another graph imports (copies) everything they reach;
/// what an earlier assignment or push_back has copied from there is shared, as long as both are
/// unchanged. As many entries of the own graph keep the given names of outputs; the outputs of
/// another graph bring their names and the graph's along where there are none yet.
class WEFT_API OutputList {
 public:
  size_t size() const { return entries().size(); }
  bool empty() const { return entries().empty(); }
  const NodeEntry& operator[](size_t i) const { return entries()[i]; }
  const NodeEntry& at(size_t i) const { return entries().at(i); }
  const NodeEntry& back() const { return entries().back(); }
  auto begin() const { return entries().begin(); }
  auto end() const { return entries().end(); }
  operator const std::vector<NodeEntry>&() const { return entries(); }  // NOLINT
  OutputList& operator=(const std::vector<NodeEntry>& e);
  OutputList& operator=(const OutputList& o);
  void push_back(const NodeEntry& e);
  template <class... A>
  void emplace_back(A&&... a) {
    push_back(NodeEntry(std::forward<A>(a)...));
  }
  void set(size_t i, const NodeEntry& e);
  void clear() { *this = std::vector<NodeEntry>(); }
  /// Drops outputs from the end or adds null ones, which have to be set before
  /// the graph passes VerifyGraph.
  void resize(size_t n);
  OutputList(const OutputList&) = delete;

 private:
  friend class Graph;
  explicit OutputList(Graph* g) : graph_(g) {}
  const std::vector<NodeEntry>& entries() const;
  Graph* graph_;
};

/// Attribute values of a graph by name, as in NNVM: `g.attrs["x"] = std::make_shared<std::any>(v)`.
/// Types registered in graph_attr.h live here too. Reading a registered attribute through `GetAttr`
/// first clears what edits made stale.
using GraphAttrMap = std::map<std::string, std::shared_ptr<std::any>>;

class WEFT_API Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph& o);
  Graph(Graph&& o) noexcept;
  Graph& operator=(const Graph& o);
  Graph& operator=(Graph&& o) noexcept;

  OutputList outputs;
  GraphAttrMap attrs;

  // Building. An empty name is allowed; text forms print the id then.
  /// Parses the attributes (kBadAttribute), checks the number of inputs (kArity). Entries must be
  /// of this graph or null.
  NodePtr AddNode(const Op* op, const std::vector<NodeEntry>& inputs, AttrDict attrs = {},
                  std::string name = {});
  NodePtr AddNode(std::string_view op, const std::vector<NodeEntry>& inputs, AttrDict attrs = {},
                  std::string name = {});
  /// A node of this graph with the operator, attributes, name and origin of `source`, a checked
  /// node of any graph.
  NodePtr AddCopy(NodePtr source, const std::vector<NodeEntry>& inputs);
  /// A declared input; `type` and `shape` are what the user promises about it.
  NodePtr AddInput(std::string name, Type type = {}, Shape shape = {});
  /// A variable with a value: a parameter (weight). Not among inputs().
  NodePtr AddParam(std::string name, TensorPtr value);
  /// An op `Constant`.
  NodeEntry AddConstant(TensorPtr value, std::string name = {});
  /// Declared inputs in order.
  const std::vector<NodePtr>& inputs() const;
  /// Declared inputs, then undeclared variables without a value reachable from the
  /// outputs, in DFS order.
  std::vector<NodePtr> AllInputs() const;
  void SetInputs(const std::vector<NodePtr>& variables);
  /// Name of output i; by default the name of the entry's node.
  std::string OutputName(size_t i) const;
  void SetOutputName(size_t i, std::string name);

  // Editing.
  void SetInput(NodePtr user, size_t slot, NodeEntry e);
  void SetAttr(NodePtr node, std::string_view name, AttrValue value);
  /// Every use of `from` (graph outputs included) becomes `to`. Uses by `to`'s own node stay.
  /// Where every derived row of both is equal nothing downstream becomes stale. `to.node` inherits
  /// the origin of `from.node`.
  void ReplaceUses(NodeEntry from, NodeEntry to);
  /// All outputs of `from` by `to[i]` (a null entry keeps the use), moving control edges too: what
  /// ran before `from` runs before its replacement where that is a node nothing used yet, else
  /// before those that used `from`.
  void ReplaceNode(NodePtr from, const std::vector<NodeEntry>& to);
  /// Removes a node without uses; throws kApiMisuse otherwise.
  void Erase(NodePtr node);
  /// Erases what neither an output nor a stateful op needs; declared inputs stay. Returns how many.
  int EraseDead();
  void SetOrigin(NodePtr node, Origin origin);
  /// Adds what `from` stands for to what `to` stands for.
  void MergeOrigin(NodePtr to, NodePtr from);
  /// Copies what `entries` of another graph reach into this one; nodes already copied in
  /// this call are shared.
  std::vector<NodeEntry> Import(const std::vector<NodeEntry>& entries);
  /// Moves operators of `from`, producers first, into this graph: no copies, handles stay valid and
  /// mean the nodes here. They get the next ids, keep attributes, origins and the edges among
  /// themselves, and lose control edges to others. `outside(e)`, asked once for every other input,
  /// says what stands for `e` here; it may add nodes. Outputs of `from` and nodes that stay must
  /// not use them (kApiMisuse). After an exception neither graph may be used any more.
  void MoveNodes(Graph& from, const NodePtr* nodes, size_t count,
                 const std::function<NodeEntry(const NodeEntry&)>& outside);
  /// Renumbers densely in topological order and returns old id -> new id (attributes are remapped).
  std::vector<NodeId> Compact();

  // Looking.
  /// Living nodes by id; null for erased ids. Valid ids are < id_bound().
  NodePtr node(NodeId id) const;
  NodeId id_bound() const;
  size_t num_nodes() const;
  /// Twin of a handle of the graph this one was copied from (or of itself): the node of that id.
  NodePtr at(NodePtr handle) const;
  NodeEntry at(const NodeEntry& e) const { return {at(e.node), e.index}; }
  bool owns(NodePtr handle) const;
  bool is_output(NodePtr node) const;
  uint64_t revision() const;
  /// What the outputs and then the stateful nodes (by id) reach, producers first; deterministic
  /// (DFS post-order, control edges included).
  std::vector<NodePtr> TopoOrder() const;
  /// Dense numbering of TopoOrder(); any use of a stale one throws kApiMisuse.
  const IndexedGraph& indexed_graph() const;
  /// Value of a parameter that no op mutates or of an op `Constant`; null for anything else.
  static TensorPtr ConstantOf(const NodeEntry& e);
  std::string name() const;
  void set_name(std::string name);

  // Attributes.
  bool HasAttr(const std::string& name) const;
  /// Present, and no edit has cleared rows of it since it was stored.
  bool IsComplete(const std::string& name) const;
  /// Throws kDependency naming the passes that provide it, kApiMisuse on a wrong type.
  template <class T>
  const T& GetAttr(const std::string& name) const {
    const T* p = std::any_cast<T>(&FindAttr(name, typeid(T)));
    return *p;
  }
  template <class T>
  void SetAttr(const std::string& name, T value) {
    StoreAttr(name, std::make_shared<std::any>(std::move(value)));
  }
  /// For in-place change: copies first where shared.
  template <class T>
  T& MutableAttr(const std::string& name) {
    return *std::any_cast<T>(&MutableAny(name, typeid(T)));
  }
  /// Takes the value out of the graph; copies only where another graph shares it.
  template <class T>
  T MoveCopyAttr(const std::string& name) {
    FindAttr(name, typeid(T));
    std::shared_ptr<std::any> slot = std::move(attrs[name]);
    attrs.erase(name);
    if (slot.use_count() > 1) return *std::any_cast<T>(slot.get());
    return std::move(*std::any_cast<T>(slot.get()));
  }
  /// The value, or a default-made one where there is none.
  template <class T>
  T AttrOr(const std::string& name) const {
    return HasAttr(name) ? GetAttr<T>(name) : T();
  }
  template <class T>
  T TakeAttrOr(const std::string& name) {
    return HasAttr(name) ? MoveCopyAttr<T>(name) : T();
  }
  void DropAttr(const std::string& name) { attrs.erase(name); }
  /// Tells that derived rows of this node, and what depends on it, no longer hold.
  void Touch(NodePtr node);

  GraphStore* store() const { return store_.get(); }
  /// The graph's store, shared; keeps handles valid beyond the Graph (Symbol uses it).
  const std::shared_ptr<GraphStore>& shared_store() const { return store_; }

 private:
  friend class OutputList;
  friend class AmbientScope;
  const std::any& FindAttr(const std::string& name, const std::type_info& type) const;
  std::any& MutableAny(const std::string& name, const std::type_info& type);
  void StoreAttr(const std::string& name, std::shared_ptr<std::any> value);
  void FlushStale() const;
  std::vector<NodeEntry> ImportInto(const std::vector<NodeEntry>& entries, bool share_earlier);
  void CopyAttrs(const Graph& from);
  std::shared_ptr<GraphStore> store_;
};

/// While it lives, nodes made without entries on this thread (Node::Create,
/// MakeNode) go to `graph`.
class WEFT_API AmbientScope {
 public:
  explicit AmbientScope(Graph& graph);
  ~AmbientScope();
  AmbientScope(const AmbientScope&) = delete;
  AmbientScope& operator=(const AmbientScope&) = delete;

 private:
  std::shared_ptr<GraphStore> previous_;
};
/// Store in which a node without entries is made on this thread.
WEFT_API const std::shared_ptr<GraphStore>& AmbientStore();

/// Runs the op's attribute parser and schema on `node.attrs` (Graph::AddNode does it
/// by itself). Throws kBadAttribute.
WEFT_API void ParseAttributes(Node& node);
/// Starts a fresh ambient graph on this thread; the old one lives as long as
/// something holds its store.
WEFT_API void ResetAmbientGraph();

/// A node of `op` in the graph of `inputs` (the ambient one where there is none), as in NNVM.
WEFT_API NodeEntry MakeNode(std::string_view op, std::string name,
                            const std::vector<NodeEntry>& inputs = {}, AttrDict attrs = {});

/// Calls f(const NodePtr&) for what `heads` reach, producers first. Iterative; `f` may add nodes.
WEFT_API void DFSVisit(const std::vector<NodeEntry>& heads,
                       const std::function<void(const NodePtr&)>& f);

/// Dense view of a graph at one revision.
class WEFT_API IndexedGraph {
 public:
  struct IndexedEntry {
    uint32_t node_id, index, version;
  };
  struct IndexedNode {
    const Node* source;
    std::vector<IndexedEntry> inputs;
    std::vector<uint32_t> control_deps;
  };
  size_t num_nodes() const { return nodes().size(); }
  size_t num_node_entries() const;
  uint32_t node_id(NodePtr n) const;
  uint32_t entry_id(uint32_t node_id, uint32_t index) const;
  uint32_t entry_id(const NodeEntry& e) const { return entry_id(node_id(e.node), e.index); }
  uint32_t entry_id(const IndexedEntry& e) const { return entry_id(e.node_id, e.index); }
  const IndexedNode& operator[](uint32_t node_id) const { return nodes()[node_id]; }
  const IndexedNode& operator[](NodePtr n) const { return nodes()[node_id(n)]; }
  const std::vector<uint32_t>& input_nodes() const;
  /// Variables that some op mutates.
  const std::vector<uint32_t>& mutable_input_nodes() const;
  const std::vector<IndexedEntry>& outputs() const;
  bool exist(NodePtr n) const;

 private:
  friend class Graph;
  const std::vector<IndexedNode>& nodes() const;  // checks the revision
  void Check() const;
  std::weak_ptr<GraphStore> store_;
  uint64_t revision_ = 0;
  std::vector<IndexedNode> nodes_;
  std::vector<uint32_t> entry_begin_, input_nodes_, mutable_inputs_, index_of_id_;
  std::vector<IndexedEntry> outputs_;
};

inline EntryKey NodeEntry::key() const { return node ? EntryKey{node->id(), index} : EntryKey{}; }

}  // namespace weft

template <>
struct std::hash<weft::NodePtr> {
  size_t operator()(weft::NodePtr n) const { return std::hash<weft::Node*>()(n.get()); }
};

template <>
struct std::hash<weft::EntryKey> {
  size_t operator()(weft::EntryKey e) const noexcept {
    return size_t(e.packed() * 0x9e3779b97f4a7c15u >>
                  16);  // ids and indices are small: spread them
  }
};
template <>
struct std::hash<weft::NodeEntry> {
  size_t operator()(const weft::NodeEntry& e) const noexcept {
    return std::hash<weft::EntryKey>()(e.key());
  }
};
