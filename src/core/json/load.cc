/// load.cc: reads a graph from JSON (the form is described in json.h).
///
/// Nodes are made first, with the ids that they say; then they are filled in the order of the file,
/// where each may read only what stands before it, so that nothing can be cyclic. Recursive only
/// over nested graphs, whose depth is bounded.
#include "load.h"

#include <algorithm>

#include "core/graph/store.h"
#include "core/text/placeholder.h"
#include "core/text/value.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/operands.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/out_of_memory.h"
#include "weft/support/strings.h"

namespace weft {

using Kind = JsonDoc::Kind;

const Op* JsonOps::Get(Ref name, int64_t num_outputs) {
  const std::string text = doc_.String(name, "the name of an operator");
  const auto [it, fresh] = known_.try_emplace(text, nullptr);
  if (fresh) it->second = Op::Find(text);
  if (it->second) return it->second;
  if (options_.allow_unknown) return PlaceholderOp(text, int(num_outputs));
  if (fresh) unknown_.emplace_back(text, name);
  return nullptr;
}

void JsonOps::ThrowUnknown() const {
  if (unknown_.empty()) return;
  std::string list;
  for (const auto& [name, at] : unknown_) list += (list.empty() ? "" : ", ") + Quote(name);
  std::vector<std::string> known;
  for (const Op* op : Op::List()) known.push_back(op->name);
  std::string hint = DidYouMean(unknown_[0].first, known);
  doc_.Fail(
      ErrorCode::kUnknownOp,
      unknown_.size() == 1 ? "there is no operator " + list : "there are no operators " + list,
      unknown_[0].second,
      hint.empty() ? "a plugin that defines it may not be loaded" : std::move(hint));
}

void FinishJsonNode(const JsonDoc& doc, Node* n, Ref at) {
  AtPlace(doc, at, [&] {
    std::vector<NodeEntry> inputs(n->inputs.begin(), n->inputs.end());
    TrimOperands(*n->attrs.op, &inputs);
    if (inputs.size() != n->num_inputs()) n->inputs = inputs;
    ParseAttributes(*n);
    CheckOperands(*n);
  });
}

namespace {

constexpr int64_t kMajor = 1, kMinor = 0;

// ---- graphs ----

class GraphLoader {
 public:
  GraphLoader(JsonLoadState* state, int64_t depth) : s_(*state), doc_(state->doc), depth_(depth) {}

  Graph Load(Ref at) {
    Limits::Check("depth", depth_, s_.options.limits.depth);
    const JsonMembers m(
        s_, at, {"name", "nodes", "inputs", "outputs", "output_names", "attributes", "partial"},
        "a graph");
    if (m[0]) g_.set_name(doc_.String(m[0], "the name of the graph"));
    const Ref nodes = m.Need(1, "'nodes' of a graph");
    MakeNodes(nodes);
    EachJson(doc_, nodes, "nodes", [&](Ref r) { FillNode(r); });
    s_.ops.ThrowUnknown();
    if (m[2]) ReadInputs(m[2]);
    ReadOutputs(m.Need(3, "'outputs' of a graph"), m[4]);
    (void)g_.HasAttr("");  // new nodes count as edited; settled before the values come in
    if (m[5]) ReadAttributes(m[5]);
    if (m[6]) ReadPartial(m[6]);
    return std::move(g_);
  }

 private:
  JsonMembers NodeMembers(Ref r) {
    return JsonMembers(
        s_, r, {"id", "op", "name", "inputs", "attrs", "outputs", "control", "origin"}, "a node");
  }

  /// Nodes without content, under the ids that the file gives.
  void MakeNodes(Ref nodes) {
    doc_.Expect(nodes, Kind::kArray, "nodes");
    const auto count = int64_t(doc_.size(nodes));
    s_.nodes += count;
    Limits::Check("nodes", s_.nodes, s_.options.limits.nodes);
    const int64_t bound = 8 * count + 65536;
    std::vector<std::pair<NodeId, Ref>> ids;
    ids.reserve(size_t(count));
    EachJson(doc_, nodes, "nodes", [&](Ref r) {
      doc_.Expect(r, Kind::kObject, "a node");
      const auto id = doc_.Find(r, "id");
      if (!id) doc_.Fail(ErrorCode::kSyntax, "the id of a node is missing", r);
      const int64_t v = doc_.Int(*id, "the id of a node");
      if (v < 0 || v >= bound)
        s_.Fail(fmt::format("id {} is not in [0, {}), which a graph of {} nodes may use", v, bound,
                            count),
                *id);
      ids.emplace_back(NodeId(v), *id);
    });
    if (!std::is_sorted(ids.begin(), ids.end())) std::sort(ids.begin(), ids.end());
    GraphStore& store = *g_.store();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i && ids[i].first == ids[i - 1].first)
        s_.Fail(fmt::format("two nodes have the id {}", ids[i].first), ids[i].second);
      store.nodes.resize(ids[i].first, nullptr);
      store.NewNode();
    }
    filled_.assign(store.nodes.size(), 0);
  }

  Node* NodeOf(Ref r, bool before) {
    const int64_t id = doc_.Int(r, "the id of a node");
    GraphStore& store = *g_.store();
    if (id < 0 || id >= int64_t(store.nodes.size()) || !store.nodes[size_t(id)])
      s_.Fail(fmt::format("there is no node {}", id), r);
    if (before && !filled_[size_t(id)])
      s_.Fail(fmt::format("node {} does not come before this place", id), r);
    return store.nodes[size_t(id)];
  }

  NodeEntry Entry(Ref r) {
    doc_.Expect(r, Kind::kArray, "an entry [node, output]");
    if (doc_.size(r) != 2) s_.Fail("an entry is [node, output]", r, ErrorCode::kSyntax);
    const Ref node = doc_.First(r), index = doc_.Next(node);
    Node* n = NodeOf(node, true);
    const int64_t k = doc_.Int(index, "the number of an output");
    // A node whose operator is unknown has been reported; what reads it need not be.
    const int64_t count = n->op() || !unknown_.count(n) ? int64_t(n->num_outputs()) : INT32_MAX;
    if (k < 0 || k >= count) s_.Fail(fmt::format("node {} has no output {}", n->id(), k), index);
    return NodeEntry(n, uint32_t(k));
  }

  void FillNode(Ref at) {
    const JsonMembers m = NodeMembers(at);
    GraphStore& store = *g_.store();
    Node* n = store.nodes[size_t(doc_.Int(m[0], "the id of a node"))];
    int64_t outputs = 1;
    if (m[5]) {
      outputs = doc_.Int(m[5], "a number of outputs");
      if (outputs < 0 || outputs > 1'000'000) s_.Fail("a number of outputs is expected", m[5]);
    }
    const bool is_op = m[1] && !doc_.is(m[1], Kind::kNull);
    if (is_op) n->attrs.op = s_.ops.Get(m[1], outputs);
    if (m[2]) n->attrs.name = doc_.String(m[2], "the name of a node");
    if (m[4]) n->attrs.dict = Dict(m[4]);
    if (m[3]) {
      if (!is_op) s_.Fail("a variable has no inputs", m[3]);
      EachJson(doc_, m[3], "the inputs of a node", [&](Ref r) {
        store.PushInput(n, doc_.is(r, Kind::kNull) ? NodeEntry() : Entry(r));
      });
    }
    if (m[6]) {
      EachJson(doc_, m[6], "control edges", [&](Ref r) { store.PushControl(n, NodeOf(r, true)); });
    }
    if (m[7]) {
      g_.SetOrigin(n, std::make_shared<const std::vector<std::string>>(
                          ReadJsonStrings(doc_, m[7], "the origin of a node")));
    }
    if (n->op()) {
      FinishJsonNode(doc_, n, at);
      if (m[5] && outputs != int64_t(n->num_outputs())) {
        s_.Fail(fmt::format("{} has {} outputs, not {}", n->Describe(), n->num_outputs(), outputs),
                m[5], ErrorCode::kArity);
      }
    } else if (is_op) {
      unknown_.emplace(n, true);
    } else if (outputs != 1) {
      s_.Fail("a variable has one output", m[5]);
    }
    filled_[n->id()] = 1;
  }

  // Attributes of nodes.

  AttrDict Dict(Ref at) {
    AttrDict dict;
    doc_.Expect(at, Kind::kObject, "the attributes of a node");
    for (Ref k = doc_.First(at); k != doc_.End(at); k = doc_.Next(k + 1))
      dict[doc_.String(k, "a key")] = Value(k + 1);
    return dict;
  }

  AttrValue Value(Ref r) {
    switch (doc_.kind(r)) {
      case Kind::kNull:
        return AttrValue();
      case Kind::kFalse:
        return AttrValue(false);
      case Kind::kTrue:
        return AttrValue(true);
      case Kind::kNumber:
        return doc_.IsInt(r) ? AttrValue(doc_.Int(r, "a number"))
                             : AttrValue(doc_.Double(r, "a number"));
      case Kind::kString:
        return doc_.String(r, "a string");
      case Kind::kArray:
        return List(r);
      default:
        return TaggedValue(r);
    }
  }

  AttrValue List(Ref at) {
    const Ref first = doc_.First(at);
    if (first != doc_.End(at) && doc_.is(first, Kind::kString))
      return ReadJsonStrings(doc_, at, "a list");
    bool ints = true;
    EachJson(doc_, at, "a list", [&](Ref r) { ints = ints && doc_.IsInt(r); });
    if (!ints) return FloatList(at);
    Ints list;
    EachJson(doc_, at, "a list", [&](Ref r) { list.push_back(doc_.Int(r, "an integer")); });
    return list;
  }

  double Real(Ref r) {
    if (!doc_.is(r, Kind::kString)) return doc_.Double(r, "a number");
    const std::string text = doc_.String(r, "a number");
    const auto v = TryParseDouble(text);
    if (!v) s_.Fail(fmt::format("{} is not a number", Quote(text)), r, ErrorCode::kSyntax);
    return *v;
  }
  Floats FloatList(Ref at) {
    Floats list;
    EachJson(doc_, at, "a list of numbers", [&](Ref r) { list.push_back(Real(r)); });
    return list;
  }

  AttrValue TaggedValue(Ref at) {
    const JsonMembers m(s_, at, {"float", "floats", "strings", "dtype", "shape", "tensor", "graph"},
                        "an attribute value");
    if (m[0]) return Real(m[0]);
    if (m[1]) return FloatList(m[1]);
    if (m[2]) return ReadJsonStrings(doc_, m[2], "a list of strings");
    if (m[3]) return ReadJsonDType(doc_, m[3]);
    if (m[4]) return ShapeOf(m[4]);
    if (m[5]) return JsonTensor(s_, m[5]);
    if (m[6]) {
      if (doc_.is(m[6], Kind::kNull)) return GraphPtr();
      return std::make_shared<const Graph>(GraphLoader(&s_, depth_ + 1).Load(m[6]));
    }
    s_.Fail("an attribute value says what it is by one key", at, ErrorCode::kSyntax);
  }

  Shape ShapeOf(Ref r) {
    const std::string text = doc_.String(r, "a shape");
    const auto it = s_.shapes.find(text);
    if (it != s_.shapes.end()) return it->second;
    const Shape shape = AtPlace(doc_, r, [&] { return Shape::Parse(text); });
    return s_.shapes.emplace(text, shape).first->second;
  }

  // The ends of the graph.

  void ReadInputs(Ref at) {
    std::vector<NodePtr> inputs;
    std::vector<uint8_t> seen(g_.id_bound(), 0);
    EachJson(doc_, at, "the inputs of the graph", [&](Ref r) {
      Node* n = NodeOf(r, true);
      if (!n->is_variable() || unknown_.count(n) || seen[n->id()])
        s_.Fail(fmt::format("node {} is not a variable, or is named twice", n->id()), r);
      seen[n->id()] = 1;
      inputs.push_back(n);
    });
    g_.SetInputs(inputs);
  }

  void ReadOutputs(Ref at, Ref names) {
    std::vector<NodeEntry> outputs;
    EachJson(doc_, at, "the outputs of the graph", [&](Ref r) { outputs.push_back(Entry(r)); });
    g_.outputs = outputs;
    if (!names) return;
    const Strings list = ReadJsonStrings(doc_, names, "the names of the outputs");
    if (list.size() != outputs.size())
      s_.Fail(fmt::format("{} names for {} outputs", list.size(), outputs.size()), names);
    for (size_t i = 0; i < list.size(); ++i) g_.SetOutputName(i, list[i]);
  }

  void ReadAttributes(Ref at) {
    doc_.Expect(at, Kind::kObject, "the attributes of a graph");
    for (Ref k = doc_.First(at); k != doc_.End(at); k = doc_.Next(k + 1)) {
      const std::string name = doc_.String(k, "a key");
      const AttrType* type = FindAttrType(name);
      if (!type || !type->parse) {
        if (s_.newer) continue;
        std::vector<std::string> known;
        for (const AttrType* t : ListAttrTypes()) known.push_back(t->name);
        doc_.Fail(ErrorCode::kSyntax, fmt::format("there is no graph attribute {}", Quote(name)), k,
                  DidYouMean(name, known));
      }
      std::any value = type->make();
      if (type->scope == AttrScope::kGraph) {
        if (!doc_.is(k + 1, Kind::kNull)) Parse(*type, &value, 0, 0, k + 1);
      } else {
        ReadRows(*type, &value, k + 1);
      }
      g_.attrs[name] = std::make_shared<std::any>(std::move(value));
    }
  }

  void ReadRows(const AttrType& type, std::any* value, Ref at) {
    const bool entries = type.scope == AttrScope::kEntry;
    auto* shapes = std::any_cast<ShapeMap>(value);
    auto* types = std::any_cast<TypeMap>(value);
    EachJson(doc_, at, "the rows of an attribute", [&](Ref r) {
      doc_.Expect(r, Kind::kArray, "a row");
      if (doc_.size(r) != (entries ? 3u : 2u))
        s_.Fail(entries ? "a row is [node, output, text]" : "a row is [node, text]", r,
                ErrorCode::kSyntax);
      const Ref node = doc_.First(r);
      Node* n = NodeOf(node, true);
      Ref text = doc_.Next(node);
      int64_t k = 0;
      if (entries) {
        k = doc_.Int(text, "the number of an output");
        if (k < 0 || k >= int64_t(std::max(1u, n->num_outputs())))
          s_.Fail(fmt::format("node {} has no output {}", n->id(), k), text);
        text = doc_.Next(text);
      }
      // What every graph has many of.
      if (shapes) return shapes->set(n->id(), uint32_t(k), ShapeOf(text));
      if (types) return types->set(n->id(), uint32_t(k), TypeAt(text));
      Parse(type, value, n->id(), uint32_t(k), text);
    });
  }

  Type TypeAt(Ref r) {
    const std::string text = doc_.String(r, "a type");
    const Type type = ParseType(text);
    if (type.ToString() == text) return type;
    s_.Fail(fmt::format("{} is not a type", Quote(text)), r, ErrorCode::kSyntax);
  }

  void Parse(const AttrType& type, std::any* value, NodeId id, uint32_t index, Ref r) {
    const std::string text = doc_.String(r, "the text of an attribute");
    AtPlace(doc_, r, [&] { type.parse(*value, id, index, text); });
  }

  void ReadPartial(Ref at) {
    EachJson(doc_, at, "names of attributes", [&](Ref r) {
      const std::string name = doc_.String(r, "the name of an attribute");
      if (g_.attrs.count(name)) g_.store()->partial.insert(name);
    });
  }

  JsonLoadState& s_;
  const JsonDoc& doc_;
  const int64_t depth_;
  Graph g_;
  std::vector<uint8_t> filled_;  ///< by id
  std::unordered_map<const Node*, bool> unknown_;
};

Graph LoadWeftJson(const JsonDoc& doc, const JsonOptions& options) {
  JsonLoadState s{doc, options, JsonOps(doc, options), false, {}, {}, {}, 0};
  const auto version = doc.Find(0, "version");
  if (!version) s.Fail("the version is missing", 0, ErrorCode::kSyntax);
  doc.Expect(*version, Kind::kArray, "the version [major, minor]");
  if (doc.size(*version) != 2)
    s.Fail("the version is [major, minor]", *version, ErrorCode::kSyntax);
  const Ref major = doc.First(*version), minor = doc.Next(major);
  if (doc.Int(major, "a version") != kMajor) {
    doc.Fail(ErrorCode::kUnsupported,
             fmt::format("version {} of the JSON form is not known, only {}",
                         doc.Int(major, "a version"), kMajor),
             major, "a newer Weft wrote it");
  }
  s.newer = doc.Int(minor, "a version") > kMinor;
  const JsonMembers m(s, 0, {"format", "version", "graph", "tensors"}, "the document");
  if (!doc.Equals(m[0], "weft")) s.Fail("the format is not \"weft\"", m[0], ErrorCode::kSyntax);
  if (m[3]) EachJson(doc, m[3], "tensors", [&](Ref r) { s.tensor_at.push_back(r); });
  s.tensor_made.resize(s.tensor_at.size());
  Graph g = GraphLoader(&s, 1).Load(m.Need(2, "'graph'"));
  // Also those that nothing names: a file is right as a whole or it is not.
  for (size_t k = 0; k < s.tensor_at.size(); ++k) {
    if (!s.tensor_made[k]) ReadJsonTensor(s, s.tensor_at[k]);
  }
  return g;
}

}  // namespace

Graph LoadJson(std::string_view text, const JsonOptions& options) {
  Limits::Check("file_bytes", int64_t(text.size()), options.limits.file_bytes);
  // A graph inside of a graph is six values deeper.
  const int64_t depth = std::min<int64_t>(options.limits.depth, 1000) * 6 + 16;
  return WithMemoryTo("read the graph", options.source_name, [&]() -> Graph {
    const JsonDoc doc(text, options.source_name, depth);
    doc.Expect(0, Kind::kObject, "an object");
    if (doc.Find(0, "format")) return LoadWeftJson(doc, options);
    if (doc.Find(0, "nodes")) return LoadNnvmJson(doc, options);
    doc.Fail(ErrorCode::kSyntax, "the object has neither \"format\" nor \"nodes\"", 0,
             "expected a graph as Weft or NNVM writes it");
  });
}

}  // namespace weft
