/// import_gradient.cc: Gradient of ai.onnx.preview.training: a node that stands for the gradient of
/// a value of its graph becomes the nodes of that gradient.
///
///   c = Add(a, b)                                  c = Add(a, b)
///   da = Gradient<xs = ["a"], y = "c">(a)   ->     da = (nodes that FGradient of Add builds)
///
/// `xs` and `zs` name the values that y is taken for a function of, as independent ones, and the
/// operands are where: where they are other values, or where one named value may depend on another,
/// what lies between them and y is built once more over the operands.
///   throws  kInvalidModel for a name without a value of this graph, kArity; kUnsupported for what
///           cannot be differentiated
/// Source: ai.onnx.preview.training Gradient-1.
#include <unordered_map>

#include "importer.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/repeatable.h"
#include "weft/support/check.h"

namespace weft::onnx_import {
namespace {

using Substitutes = std::unordered_map<EntryKey, NodeEntry>;

/// `y` over other values: copies of the nodes that depend on what `by` replaces.
NodeEntry BuildOver(Graph* g, const NodeEntry& y, Substitutes by) {
  std::vector<NodePtr> order;
  DFSVisit({y}, [&](const NodePtr& n) { order.push_back(n); });
  for (const NodePtr& n : order) {
    std::vector<NodeEntry> inputs = n->inputs;
    bool changed = false;
    for (NodeEntry& e : inputs) {
      const auto it = e ? by.find(e.key()) : by.end();
      if (it == by.end()) continue;
      e = it->second;
      changed = true;
    }
    if (!changed) continue;
    WEFT_CHECK(IsRepeatable(n), kUnsupported, "{} gives another result when it runs again",
               n->Describe());
    const NodePtr copy = g->AddCopy(n, inputs);
    // What is replaced itself stays so.
    for (uint32_t k = 0; k < n->num_outputs(); ++k)
      by.try_emplace(NodeEntry(n, k).key(), NodeEntry(copy, k));
  }
  const auto it = by.find(y.key());
  return it == by.end() ? y : it->second;
}

}  // namespace

bool IsGradient(const Record& r) {
  return r.domain == "ai.onnx.preview.training" && r.op == "Gradient";
}

void Importer::BuildGradient(Scope* s, const Record& r, const Place& place) {
  const auto names = [&](const char* attribute) {
    const AttrValue* v = r.attrs.find(attribute);
    return v ? v->get<Strings>() : Strings();
  };
  Strings named = names("xs");
  const size_t count = named.size();
  for (const std::string& z : names("zs")) named.push_back(z);
  WEFT_CHECK(r.inputs.size() == named.size() && r.outputs.size() <= count, kArity,
             "{} values in xs and zs with {} operands, {} in xs with {} results", named.size(),
             r.inputs.size(), count, r.outputs.size());
  bool poisoned = false;
  const auto entry = [&](const std::string& name) {
    WEFT_CHECK(Find(s, name), kInvalidModel, "the graph has no value {} in front of it",
               Printable(name));
    const Value& v = Resolve(s, name);
    poisoned = poisoned || v.state == Value::kPoisoned;
    WEFT_CHECK(v.state == Value::kEntry || v.state == Value::kPoisoned, kInvalidModel,
               "the value {} was left out", Printable(name));
    return v.entry;
  };
  NodeEntry y = entry(r.attrs.at("y").get<std::string>());
  std::vector<NodeEntry> xs, at;
  for (const std::string& name : named) xs.push_back(entry(name));
  for (const std::string& name : r.inputs) at.push_back(entry(name));
  if (poisoned) return Poison(s, r, false);

  Graph& graph = s->build->graph;
  const NodeId first = graph.id_bound();
  bool direct = true;
  for (size_t i = 0; i < xs.size(); ++i)
    direct = direct && xs[i] == at[i] && xs[i].node->is_variable();
  std::vector<NodeEntry> gradients;
  try {
    if (!direct) {
      Substitutes by;
      for (size_t i = 0; i < xs.size(); ++i)
        by[xs[i].key()] = NodeEntry(graph.AddNode("Identity", {at[i]}));
      y = BuildOver(&graph, y, by);
      for (NodeEntry& x : xs) x = by.at(x.key());
    }
    xs.resize(count);
    gradients = Gradients(graph, {y}, xs);
    graph.DropAttr("gradient_of");  // of this node, not of what the user asks for later
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kUnsupported) throw;
    return Unsupported(s, r, ErrorCode::kUnsupported, e.message(), place);
  }
  for (NodeId id = first; id < graph.id_bound(); ++id) {
    const NodePtr n = graph.node(id);
    if (!n) continue;
    CountNode();
    s->build->types.Infer(n);
    if (s->origin) graph.SetOrigin(n, s->origin);
  }
  for (size_t i = 0; i < r.outputs.size(); ++i) {
    const Value v = Value::Of(gradients[i]);
    Define(s, r.outputs[i], v);
    NameValue(s, r.outputs[i], v);
  }
}

}  // namespace weft::onnx_import
