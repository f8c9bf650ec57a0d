/// nnvm.cc: reads what NNVM's SaveJSON wrote: nodes in topological order, "null" for variables,
/// attributes as strings.
///
///   {"nodes": [{"op": "null", "name": "x", "inputs": []},
///              {"op": "relu", "name": "r", "attrs": {"k": "1"}, "inputs": [[0, 0, 0]]}],
///    "arg_nodes": [0], "node_row_ptr": [0, 1, 2], "heads": [[1, 0, 0]],
///    "attrs": {"shape": ["list_shape", [[2, 3], [2, 3]]]}}
///
/// Node attributes are under "attrs", "attr" or "param", whatever the age; an entry may lack its
/// version. Of the graph attributes shape and dtype are read (one value an entry); the others have
/// types that only NNVM's own passes knew.
#include <algorithm>

#include "core/graph/store.h"
#include "load.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/support/check.h"

namespace weft {
namespace {

using Kind = JsonDoc::Kind;

class NnvmLoader {
 public:
  NnvmLoader(const JsonDoc& doc, const JsonOptions& options)
      : doc_(doc), options_(options), ops_(doc, options) {}

  Graph Load() {
    const Ref nodes = *doc_.Find(0, "nodes");
    doc_.Expect(nodes, Kind::kArray, "nodes");
    Limits::Check("nodes", doc_.size(nodes), options_.limits.nodes);
    for (Ref r = doc_.First(nodes); r != doc_.End(nodes); r = doc_.Next(r)) ReadNode(r);
    ops_.ThrowUnknown();
    ReadArguments();
    ReadHeads();
    (void)g_.HasAttr("");  // new nodes count as edited; settled before the values come in
    ReadAttributes();
    return std::move(g_);
  }

 private:
  /// Node k, which stands before this place.
  Node* NodeOf(Ref r) {
    const int64_t k = doc_.Int(r, "the number of a node");
    if (k < 0 || k >= int64_t(g_.id_bound()))
      doc_.Fail(ErrorCode::kInvalidModel, fmt::format("node {} does not come before this place", k),
                r);
    return g_.store()->nodes[size_t(k)];
  }

  NodeEntry Entry(Ref r) {
    doc_.Expect(r, Kind::kArray, "an entry [node, output, version]");
    if (doc_.size(r) != 2 && doc_.size(r) != 3)
      doc_.Fail(ErrorCode::kSyntax, "an entry is [node, output, version]", r);
    const Ref node = doc_.First(r), index = doc_.Next(node);
    Node* n = NodeOf(node);
    const int64_t k = doc_.Int(index, "the number of an output");
    if (doc_.size(r) == 3) doc_.Int(doc_.Next(index), "a version");
    const bool known = n->op() || variables_[n->id()];
    if (k < 0 || k >= (known ? int64_t(n->num_outputs()) : INT32_MAX))
      doc_.Fail(ErrorCode::kInvalidModel, fmt::format("node {} has no output {}", n->id(), k), r);
    return NodeEntry(n, uint32_t(k));
  }

  void ReadNode(Ref at) {
    doc_.Expect(at, Kind::kObject, "a node");
    const auto need = [&](const char* key) {
      const auto r = doc_.Find(at, key);
      if (!r) doc_.Fail(ErrorCode::kSyntax, fmt::format("'{}' of a node is missing", key), at);
      return *r;
    };
    const Ref op = need("op"), inputs = need("inputs");
    std::vector<NodeEntry> entries;
    doc_.Expect(inputs, Kind::kArray, "the inputs of a node");
    for (Ref r = doc_.First(inputs); r != doc_.End(inputs); r = doc_.Next(r))
      entries.push_back(Entry(r));
    std::vector<Node*> control;
    if (const auto list = doc_.Find(at, "control_deps")) {
      doc_.Expect(*list, Kind::kArray, "control edges");
      for (Ref r = doc_.First(*list); r != doc_.End(*list); r = doc_.Next(r))
        control.push_back(NodeOf(r));
    }
    AttrDict dict;
    for (const char* key : {"attrs", "attr", "param"}) {
      const auto attrs = doc_.Find(at, key);
      if (!attrs) continue;
      doc_.Expect(*attrs, Kind::kObject, "the attributes of a node");
      for (Ref k = doc_.First(*attrs); k != doc_.End(*attrs); k = doc_.Next(k + 1))
        dict[doc_.String(k, "a key")] = doc_.String(k + 1, "the text of an attribute");
    }
    const bool variable = doc_.Equals(op, "null");
    if (variable && !entries.empty())
      doc_.Fail(ErrorCode::kInvalidModel, "a variable has no inputs", inputs);
    GraphStore& store = *g_.store();
    Node* n = store.NewNode();
    variables_.push_back(variable);
    n->attrs.name = doc_.String(need("name"), "the name of a node");
    n->attrs.dict = std::move(dict);
    if (!variable) n->attrs.op = ops_.Get(op, 1);
    for (const NodeEntry& e : entries) store.PushInput(n, e);
    for (Node* d : control) store.PushControl(n, d);
    if (n->op()) FinishJsonNode(doc_, n, at);
  }

  void ReadArguments() {
    std::vector<NodePtr> inputs;
    const auto list = doc_.Find(0, "arg_nodes");
    if (!list) {
      for (Node* n : g_.store()->nodes) {
        if (n->is_variable()) inputs.push_back(n);
      }
      return g_.SetInputs(inputs);
    }
    doc_.Expect(*list, Kind::kArray, "'arg_nodes'");
    for (Ref r = doc_.First(*list); r != doc_.End(*list); r = doc_.Next(r)) {
      Node* n = NodeOf(r);
      if (!variables_[n->id()] ||
          std::find(inputs.begin(), inputs.end(), NodePtr(n)) != inputs.end())
        doc_.Fail(ErrorCode::kInvalidModel,
                  fmt::format("node {} is not a variable, or is named twice", n->id()), r);
      inputs.push_back(n);
    }
    g_.SetInputs(inputs);
  }

  void ReadHeads() {
    const auto list = doc_.Find(0, "heads");
    if (!list) doc_.Fail(ErrorCode::kSyntax, "'heads' is missing", 0);
    std::vector<NodeEntry> outputs;
    doc_.Expect(*list, Kind::kArray, "'heads'");
    for (Ref r = doc_.First(*list); r != doc_.End(*list); r = doc_.Next(r))
      outputs.push_back(Entry(r));
    g_.outputs = outputs;
  }

  /// Calls f(entry, value) for a list with one value an entry, in the order of the nodes.
  template <class F>
  void EachEntry(Ref list, F f) {
    doc_.Expect(list, Kind::kArray, "a list");
    Ref r = doc_.First(list);
    for (Node* n : g_.store()->nodes) {
      for (uint32_t k = 0; k < n->num_outputs(); ++k, r = doc_.Next(r)) {
        if (r == doc_.End(list))
          doc_.Fail(ErrorCode::kInvalidModel, "the list has fewer values than there are entries",
                    list);
        f(NodeEntry(n, k), r);
      }
    }
    if (r != doc_.End(list))
      doc_.Fail(ErrorCode::kInvalidModel, "the list has more values than there are entries", list);
  }

  void ReadAttributes() {
    const auto attrs = doc_.Find(0, "attrs");
    if (!attrs) return;
    doc_.Expect(*attrs, Kind::kObject, "the attributes of the graph");
    for (Ref k = doc_.First(*attrs); k != doc_.End(*attrs); k = doc_.Next(k + 1)) {
      const Ref pair = k + 1;
      doc_.Expect(pair, Kind::kArray, "[type, value]");
      if (doc_.size(pair) != 2)
        doc_.Fail(ErrorCode::kSyntax, "an attribute is [type, value]", pair);
      const Ref type = doc_.First(pair), value = doc_.Next(type);
      doc_.Expect(type, Kind::kString, "the type of an attribute");
      if (doc_.Equals(k, "shape") && doc_.Equals(type, "list_shape")) ReadShapes(value);
      if (doc_.Equals(k, "dtype") && doc_.Equals(type, "list_int")) ReadTypes(value);
    }
  }

  /// What is known of a variable is what the user said of it.
  static void Declare(NodePtr variable, std::string_view name, AttrValue value) {
    if (!variable->attrs.dict.find(name)) variable->attrs.dict[name] = std::move(value);
  }

  /// An empty shape, and a zero in one, said "unknown" then.
  void ReadShapes(Ref list) {
    ShapeMap shapes;
    bool complete = true;
    EachEntry(list, [&](NodeEntry e, Ref r) {
      doc_.Expect(r, Kind::kArray, "a shape");
      std::vector<SymInt> dims;
      for (Ref d = doc_.First(r); d != doc_.End(r); d = doc_.Next(d)) {
        const int64_t v = doc_.Int(d, "a dimension");
        if (v < 0) doc_.Fail(ErrorCode::kInvalidModel, "a dimension is negative", d);
        dims.push_back(v == 0 ? SymInt() : SymInt(v));
        complete = complete && v != 0;
      }
      complete = complete && !dims.empty();
      if (dims.empty()) return;
      Shape shape(std::move(dims));
      if (variables_[e.node->id()]) Declare(e.node, "shape", shape);
      shapes.set(e, std::move(shape));
    });
    g_.attrs["shape"] = std::make_shared<std::any>(std::move(shapes));
    if (!complete) g_.store()->partial.insert("shape");
  }

  void ReadTypes(Ref list) {
    static constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kF16, DType::kU8,
                                       DType::kI32, DType::kI8,  DType::kI64, DType::kI16,
                                       DType::kU16, DType::kU32, DType::kU64, DType::kBool};
    TypeMap types;
    bool complete = true;
    EachEntry(list, [&](NodeEntry e, Ref r) {
      const int64_t v = doc_.Int(r, "the number of a dtype");
      if (v < -1 || v >= int64_t(std::size(kTypes)))
        doc_.Fail(ErrorCode::kInvalidModel, fmt::format("there is no dtype {}", v), r);
      complete = complete && v >= 0;
      if (v < 0) return;
      if (variables_[e.node->id()]) Declare(e.node, "dtype", kTypes[v]);
      types.set(e, Type(kTypes[v]));
    });
    g_.attrs["dtype"] = std::make_shared<std::any>(std::move(types));
    if (!complete) g_.store()->partial.insert("dtype");
  }

  const JsonDoc& doc_;
  const JsonOptions& options_;
  JsonOps ops_;
  Graph g_;
  std::vector<uint8_t> variables_;  ///< by id
};

}  // namespace

Graph LoadNnvmJson(const JsonDoc& doc, const JsonOptions& options) {
  return NnvmLoader(doc, options).Load();
}

}  // namespace weft
