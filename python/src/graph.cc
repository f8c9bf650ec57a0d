/// graph.cc: the class Graph: building, editing and looking; its text and JSON forms.
#include "graph.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include <unordered_map>

#include "arrays.h"
#include "call.h"
#include "errors.h"
#include "options.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/metadata.h"
#include "weft/core/json/json.h"
#include "weft/core/op/numbers.h"
#include "weft/core/op/op_param.h"
#include "weft/core/pass/pass.h"
#include "weft/core/pass/provide.h"
#include "weft/core/text/text.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::python {
namespace {

PyNode FindNode(const SharedGraph& g, nb::handle key) {
  CheckLives(*g);
  if (PyLong_Check(key.ptr())) {
    const auto id = nb::cast<int64_t>(key);
    const NodePtr node = id >= 0 && id < g->id_bound() ? g->node(NodeId(id)) : NodePtr();
    WEFT_CHECK(bool(node), kBadBinding, "the graph has no node %{}", id);
    return NodeOf(g, node);
  }
  const auto name = nb::cast<std::string>(key);
  std::vector<std::string> names;
  for (NodeId id = 0; id < g->id_bound(); ++id) {
    const NodePtr node = g->node(id);
    if (!node) continue;
    if (node->attrs.name == name) return NodeOf(g, node);
    names.push_back(node->attrs.name);
  }
  ThrowError(ErrorCode::kBadBinding, "the graph has no node '" + name + "'", "",
             DidYouMean(name, names));
}

std::vector<PyNode> NodesOf(const SharedGraph& g, const std::vector<NodePtr>& nodes) {
  std::vector<PyNode> list;
  list.reserve(nodes.size());
  for (const NodePtr n : nodes) list.push_back(NodeOf(g, n));
  return list;
}

std::vector<PyEntry> FirstEntries(const SharedGraph& g, const std::vector<NodePtr>& nodes) {
  std::vector<PyEntry> list;
  list.reserve(nodes.size());
  for (const NodePtr n : nodes) list.push_back(EntryOf(g, {n, 0}));
  return list;
}

void SetOutputs(const SharedGraph& g, nb::handle given) {
  std::vector<NodeEntry> entries;
  std::vector<std::string> names;
  if (PyDict_Check(given.ptr())) {
    for (const auto& [name, entry] : nb::borrow<nb::dict>(given)) {
      names.push_back(nb::cast<std::string>(name));
      entries.push_back(EntriesIn(g, {nb::cast<PyEntry>(entry)})[0]);
    }
  } else {
    PyEntry one;
    if (nb::try_cast(given, one))
      entries = EntriesIn(g, {one});
    else
      entries = EntriesIn(g, nb::cast<std::vector<PyEntry>>(given));
  }
  g->outputs = entries;
  for (size_t i = 0; i < names.size(); ++i) g->SetOutputName(i, names[i]);
}

std::vector<std::string> OutputNames(const Graph& g) {
  std::vector<std::string> names;
  for (size_t i = 0; i < g.outputs.size(); ++i) names.push_back(g.OutputName(i));
  return names;
}

std::string TextOf(const Graph& g, bool full, bool origins, bool hidden) {
  PrintOptions options;
  options.inline_all = full;
  options.origins = origins;
  options.hidden_attributes = hidden;
  return PrintGraph(g, options);
}

/// Types and shapes, kept in the graph. Handles are ids, and passes that only look keep those.
void Infer(const SharedGraph& g) { *g = ProvideTypes(Graph(*g)); }

/// Copies the operators that the outputs of `body` need behind `operands`, which stand for its
/// inputs; what its outputs are here.
std::vector<NodeEntry> Inline(Graph& g, const Graph& body, const std::vector<NodeEntry>& operands,
                              const std::string& origin) {
  const std::vector<NodePtr>& inputs = body.inputs();
  WEFT_CHECK(&g != &body, kApiMisuse, "a graph in itself");
  WEFT_CHECK(inputs.size() == operands.size(), kArity, "{} operands for {} inputs", operands.size(),
             inputs.size());
  const Origin stands_for =
      origin.empty() ? Origin() : std::make_shared<const std::vector<std::string>>(1, origin);
  std::unordered_map<EntryKey, NodeEntry> here;
  for (size_t i = 0; i < inputs.size(); ++i) here[NodeEntry(inputs[i]).key()] = operands[i];
  const auto find = [&](const NodeEntry& e) { return e ? here.at(e.key()) : NodeEntry(); };
  for (const NodePtr& n : body.TopoOrder()) {
    if (here.count(NodeEntry(n).key())) continue;
    WEFT_CHECK(!HasEffect(n) && n->control_deps.empty(), kUnsupported,
               "{}: a node with an effect stays in its graph", n->Describe());
    if (const TensorPtr constant = Graph::ConstantOf(NodeEntry(n))) {
      here[NodeEntry(n).key()] = g.AddConstant(constant);
      continue;
    }
    WEFT_CHECK(!n->is_variable(), kUnsupported, "{}: state stays in its graph", n->Describe());
    std::vector<NodeEntry> entries;
    for (const NodeEntry& e : n->inputs) entries.push_back(find(e));
    const NodePtr copy = g.AddCopy(n, entries);
    if (stands_for) g.SetOrigin(copy, stands_for);
    for (uint32_t i = 0; i < n->num_outputs(); ++i)
      here[NodeEntry(n, i).key()] = NodeEntry(copy, i);
  }
  std::vector<NodeEntry> outputs;
  for (const NodeEntry& e : body.outputs) outputs.push_back(find(e));
  return outputs;
}

}  // namespace

Graph Extract(const Graph& g, const std::vector<NodeEntry>& entries) {
  Graph part(g);
  std::vector<NodeEntry> outputs;
  std::vector<NodePtr> stack;
  std::vector<uint8_t> reached(g.id_bound(), 0);
  const auto reach = [&](const NodePtr n) {
    if (!n || reached[n->id()]) return;
    reached[n->id()] = 1;
    stack.push_back(n);
  };
  for (const NodeEntry& e : entries) {
    outputs.push_back(part.at(e));
    reach(outputs.back().node);
  }
  const auto producers = [](const NodePtr n) {
    std::vector<NodePtr> all(n->control_deps.begin(), n->control_deps.end());
    for (const NodeEntry& e : n->inputs)
      if (e) all.push_back(e.node);
    return all;
  };
  while (!stack.empty()) {
    const NodePtr n = stack.back();
    stack.pop_back();
    for (const NodePtr p : producers(n)) reach(p);
  }
  part.outputs = outputs;
  std::vector<NodePtr> inputs;
  for (const NodePtr n : part.inputs())
    if (reached[n->id()]) inputs.push_back(n);
  part.SetInputs(inputs);
  std::vector<NodeId> unused;
  const auto look = [&](NodeId id) {
    const NodePtr n = reached[id] ? NodePtr() : part.node(id);
    if (n && n->uses().empty()) unused.push_back(id);
  };
  for (NodeId id = 0; id < part.id_bound(); ++id) look(id);
  while (!unused.empty()) {
    const NodePtr n = part.node(unused.back());
    unused.pop_back();
    if (!n) continue;  // its producers were looked at twice
    std::vector<NodeId> before;
    for (const NodePtr p : producers(n)) before.push_back(p->id());
    part.Erase(n);
    for (const NodeId id : before) look(id);
  }
  return part;
}

namespace {

/// What is declared of an input's or a state variable's shape; inference begins anew behind it.
void Declare(const SharedGraph& g, const PyEntry& e, nb::handle shape) {
  const NodePtr n = EntriesIn(g, {e})[0].node;
  WEFT_CHECK(n->is_variable() && !n->has_attr("value"), kApiMisuse,
             "{}: only inputs and state without a value have a declared shape", n->Describe());
  g->SetAttr(n, "shape", ToShape(shape));
}

nb::object AttributeText(const Graph& g, const std::string& name) {
  const AttrType* type = FindAttrType(name);
  const auto it = g.attrs.find(name);
  if (it == g.attrs.end()) {
    std::vector<std::string> names;
    for (const auto& [known, value] : g.attrs) names.push_back(known);
    ThrowError(ErrorCode::kBadBinding, "the graph has no attribute '" + name + "'", "",
               DidYouMean(name, names));
  }
  if (!type || !type->format) return nb::none();
  if (type->scope == AttrScope::kGraph) return nb::cast(type->format(*it->second, 0, 0));
  nb::dict rows;
  for (NodeId id = 0; id < g.id_bound(); ++id) {
    const NodePtr node = g.node(id);
    if (!node) continue;
    const uint32_t outputs = type->scope == AttrScope::kNode ? 1 : node->num_outputs();
    for (uint32_t i = 0; i < outputs; ++i) {
      const auto text = type->format(*it->second, id, i);
      if (!text) continue;
      const nb::object key = type->scope == AttrScope::kNode ? nb::object(nb::int_(id))
                                                             : nb::object(nb::make_tuple(id, i));
      rows[key] = nb::cast(*text);
    }
  }
  return std::move(rows);
}

}  // namespace

void BindGraph(nb::module_& m) {
  nb::class_<Graph> graph(m, "Graph", nb::is_weak_referenceable(),
                          "A graph of operators: nodes, entries and typed attributes.\n\n"
                          "    g = weft.Graph()\n"
                          "    a, b = g.input('a', 'f32', [8]), g.input('b', 'f32', [8])\n"
                          "    g.outputs = [(a + b) * a]\n\n"
                          "`str(g)` is its text form, which `Graph.parse` reads.");
  graph
      .def(
          "__init__",
          [](Graph* self, const std::string& name) {
            new (self) Graph();
            if (!name.empty()) self->set_name(name);
          },
          "name"_a = "")
      .def_static(
          "parse",
          [](const std::string& text, const std::string& source_name) {
            return std::make_shared<Graph>(ParseGraph(text, source_name));
          },
          "text"_a, "source_name"_a = "<text>", "A graph from its text form (`.weft`).")
      .def_prop_rw(
          "name", [](const Graph& g) { return g.name(); },
          [](Graph& g, std::string name) { g.set_name(std::move(name)); }, "May be empty.")
      // Building.
      .def(
          "input",
          [](const SharedGraph& g, std::string name, nb::handle dtype, nb::handle shape) {
            CheckLives(*g);
            return EntryOf(g, {g->AddInput(std::move(name), ToType(dtype), ToShape(shape)), 0});
          },
          "name"_a, "dtype"_a = nb::none(), "shape"_a = nb::none(),
          nb::sig("def input(self, name: str, dtype: DTypeLike | None = None, shape: ShapeLike | "
                  "None = None) -> Entry"),
          "Declares an input. Dimensions are sizes, names of symbols, or None.")
      .def(
          "number",
          [](const SharedGraph& g, std::string name, const std::string& symbol) {
            return EntryOf(g, AddNumberInput(*g, std::move(name),
                                             ToShape(nb::make_tuple(nb::str(symbol.c_str())))[0]));
          },
          "name"_a, "symbol"_a,
          "Declares an input that is a whole number, at least 0: what a symbol of shapes is. Gives "
          "the number as a scalar.")
      .def(
          "fact", [](const SharedGraph& g, const std::string& fact) { AddFact(*g, fact); },
          "fact"_a,
          "What is known of the symbols: 'n in [2, 64]', 'n % 8 == 0'. A run at which it does not "
          "hold is refused.")
      .def(
          "param",
          [](const SharedGraph& g, std::string name, nb::handle value, bool copy) {
            CheckLives(*g);
            const Wanted wanted{{}, "parameter", &name};
            const TensorPtr tensor = copy ? ToOwnTensor(value, wanted) : ToTensor(value, wanted);
            return EntryOf(g, {g->AddParam(name, tensor), 0});
          },
          "name"_a, "value"_a, nb::kw_only(), "copy"_a = true,
          nb::sig("def param(self, name: str, value: ArrayLike, *, copy: bool = True) -> Entry"),
          "Adds a parameter: a variable with a value. Without `copy` it is a view of `value`, "
          "which may not be written to as long as the graph or anything made of it is used.")
      .def(
          "state",
          [](const SharedGraph& g, std::string name, nb::handle initial, nb::handle dtype,
             nb::handle shape) {
            CheckLives(*g);
            if (initial.is_none())
              return EntryOf(g, {AddState(*g, name, ToType(dtype), ToShape(shape)), 0});
            const TensorPtr value = ToOwnTensor(initial, {ToType(dtype), "state", &name});
            return EntryOf(g, {AddState(*g, name, value->type(), value->shape(), value), 0});
          },
          "name"_a, "initial"_a = nb::none(), "dtype"_a = nb::none(), "shape"_a = nb::none(),
          nb::sig("def state(self, name: str, initial: ArrayLike | None = None, dtype: DTypeLike | "
                  "None = None, shape: ShapeLike | None = None) -> Entry"),
          "Adds a state variable, whose content outlives runs: see VariableStore. `initial` is "
          "what it holds where the store has none of that name.")
      .def("declare", Declare, "entry"_a, "shape"_a,
           nb::sig("def declare(self, entry: Entry, shape: ShapeLike | None) -> None"),
           "Declares the shape of an input or of state again. What inference has found of symbols "
           "stays: `extract` a part anew for each of several shapes.")
      .def(
          "constant",
          [](const SharedGraph& g, nb::handle value, std::string name, nb::handle dtype) {
            CheckLives(*g);
            return EntryOf(
                g, g->AddConstant(ToOwnTensor(value, {ToType(dtype), "constant", &name}), name));
          },
          "value"_a, "name"_a = "", "dtype"_a = nb::none(),
          nb::sig("def constant(self, value: ArrayLike, name: str = '', dtype: DTypeLike | None = "
                  "None) -> Entry"),
          "Adds a constant.")
      .def(
          "node", [](const SharedGraph& g, nb::handle key) { return FindNode(g, key); }, "key"_a,
          nb::sig("def node(self, key: int | str) -> Node"), "The node of that id or name.")
      // Looking.
      .def_prop_rw(
          "inputs",
          [](const SharedGraph& g) {
            CheckLives(*g);
            return FirstEntries(g, g->inputs());
          },
          [](const SharedGraph& g, const std::vector<PyEntry>& entries) {
            std::vector<NodePtr> nodes;
            for (const NodeEntry& e : EntriesIn(g, entries)) nodes.push_back(e.node);
            g->SetInputs(nodes);
          },
          "Declared inputs, in order.")
      .def_prop_rw(
          "outputs",
          [](const SharedGraph& g) {
            CheckLives(*g);
            return EntriesOf(g, std::vector<NodeEntry>(g->outputs.begin(), g->outputs.end()));
          },
          SetOutputs, nb::for_getter(nb::sig("def outputs(self) -> list[Entry]")),
          nb::for_setter(nb::sig("def outputs(self, value: Entry | typing.Sequence[Entry] | "
                                 "dict[str, Entry], /) -> None")),
          "Entries that a run gives, in order; a dict names them.")
      .def_prop_rw(
          "output_names", OutputNames,
          [](Graph& g, const std::vector<std::string>& names) {
            WEFT_CHECK(names.size() == g.outputs.size(), kApiMisuse, "{} names for {} outputs",
                       names.size(), g.outputs.size());
            for (size_t i = 0; i < names.size(); ++i) g.SetOutputName(i, names[i]);
          },
          "Names of the outputs, by default those of their nodes.")
      .def_prop_ro(
          "nodes",
          [](const SharedGraph& g) {
            CheckLives(*g);
            return NodesOf(g, g->TopoOrder());
          },
          "What the outputs and effects need, producers first.")
      .def_prop_ro(
          "params",
          [](const SharedGraph& g) {
            std::vector<PyNode> list;
            for (NodeId id = 0; id < g->id_bound(); ++id)
              if (const NodePtr n = g->node(id); n && n->is_variable() && n->has_attr("value"))
                list.push_back(NodeOf(g, n));
            return list;
          },
          "Variables with a value.")
      .def_prop_ro(
          "states",
          [](const SharedGraph& g) {
            std::vector<NodePtr> list;
            for (const NodePtr n : g->TopoOrder())
              if (IsState(n)) list.push_back(n);
            return FirstEntries(g, list);
          },
          "State variables that the outputs and effects need, in order of first use.")
      .def_prop_ro("num_nodes", [](const Graph& g) { return g.num_nodes(); })
      .def("__len__", [](const Graph& g) { return g.num_nodes(); })
      .def(
          "value",
          [](const SharedGraph& g, const PyEntry& e) {
            const TensorPtr value = Graph::ConstantOf(EntriesIn(g, {e})[0]);
            return value ? ToArray(value, false) : nb::object(nb::none());
          },
          "entry"_a, nb::sig("def value(self, entry: Entry) -> typing.Any"),
          "What a parameter or a constant holds, as a read-only array; None for other entries.")
      .def(
          "at",
          [](const SharedGraph& g, const PyEntry& e) {
            const PyEntry twin{g, e.id, e.index};
            (void)twin.entry();  // raises where there is none
            return twin;
          },
          "handle"_a,
          "The twin of a handle of the graph that this one was copied or made by passes from.")
      .def(
          "at",
          [](const SharedGraph& g, const PyNode& n) {
            const PyNode twin{g, n.id};
            (void)twin.node();
            return twin;
          },
          "handle"_a)
      .def(
          "infer", [](const SharedGraph& g) { Infer(g); },
          "Infers dtypes and shapes of all entries, which they then tell.")
      .def_prop_ro(
          "attributes",
          [](const Graph& g) {
            std::vector<std::string> names;
            for (const auto& [name, value] : g.attrs) names.push_back(name);
            return names;
          },
          "Names of the graph's attributes: 'dtype', 'shape', 'subgraph' ...")
      .def("attribute", AttributeText, "name"_a,
           nb::sig("def attribute(self, name: str) -> typing.Any"),
           "An attribute in its text form: one text, or texts by node id, or by (node id, output). "
           "None where it has no text form.")
      .def_prop_rw(
          "metadata", [](const Graph& g) { return Metadata(g); },
          [](Graph& g, ModelMetadata metadata) { SetMetadata(&g, std::move(metadata)); },
          "What the author of the model says beside the graph.")
      .def(
          "body",
          [](const SharedGraph& g, const PyNode& n, const std::string& name) -> nb::object {
            WEFT_CHECK(n.graph.get() == g.get(), kApiMisuse, "the node is of another graph");
            const AttrValue value = n.node()->Attr(name);
            return AttrObject(value);
          },
          "node"_a, "name"_a = "body",
          nb::sig("def body(self, node: Node, name: str = 'body') -> typing.Any"),
          "A copy of the graph that an attribute of a node holds.")
      .def(
          "inline",
          [](const SharedGraph& g, const Graph& body, const std::vector<PyEntry>& operands,
             const std::string& origin) {
            return EntriesOf(g, Inline(*g, body, EntriesIn(g, operands), origin));
          },
          "graph"_a, "operands"_a, nb::kw_only(), "origin"_a = "",
          nb::sig("def inline(self, graph: Graph, operands: typing.Sequence[Entry], *, origin: str "
                  "= '') -> list[Entry]"),
          "Copies another graph into this one, with `operands` in the place of its inputs, and "
          "gives what its outputs are here. With `origin` the copies stand for that in errors and "
          "profiles.")
      // Editing.
      .def(
          "set_input",
          [](const SharedGraph& g, const PyNode& user, size_t slot, std::optional<PyEntry> entry) {
            const NodePtr node = user.node();
            WEFT_CHECK(user.graph.get() == g.get(), kApiMisuse, "the node is of another graph");
            WEFT_CHECK(slot < node->num_inputs(), kApiMisuse, "input {} of a node with {}", slot,
                       node->num_inputs());
            g->SetInput(node, slot, entry ? EntriesIn(g, {*entry})[0] : NodeEntry());
          },
          "node"_a, "slot"_a, "entry"_a.none(),
          "Makes input number `slot` of a node another entry.")
      .def(
          "set_attr",
          [](const SharedGraph& g, const PyNode& n, const std::string& name, nb::handle value) {
            WEFT_CHECK(n.graph.get() == g.get(), kApiMisuse, "the node is of another graph");
            const NodePtr node = n.node();
            const ParamField* field = node->op() && node->op()->param_schema
                                          ? node->op()->param_schema->find(name)
                                          : nullptr;
            g->SetAttr(node, name, ToAttrValue(value, field ? field->type : "", name));
          },
          "node"_a, "name"_a, "value"_a.none(), "Sets an attribute of a node.")
      .def(
          "replace_uses",
          [](const SharedGraph& g, const PyEntry& from, const PyEntry& to) {
            g->ReplaceUses(EntriesIn(g, {from})[0], EntriesIn(g, {to})[0]);
          },
          "old"_a, "new"_a,
          "Every use of `old`, graph outputs included, becomes one of `new`, but for those by "
          "`new`'s own node.")
      .def(
          "erase",
          [](const SharedGraph& g, const PyNode& n) {
            WEFT_CHECK(n.graph.get() == g.get(), kApiMisuse, "the node is of another graph");
            g->Erase(n.node());
          },
          "node"_a, "Removes a node that nothing uses.")
      .def(
          "erase_dead", [](Graph& g) { return g.EraseDead(); },
          "Removes what neither an output nor an effect needs; says how many nodes.")
      .def(
          "verify", [](const Graph& g) { VerifyGraph(g); },
          "Raises where the graph's structure is wrong.")
      // Forms.
      .def("to_text", TextOf, nb::kw_only(), "full"_a = false, "origins"_a = false,
           "hidden"_a = false,
           "The text form; `full` with the bytes of large tensors, `origins` with what nodes stand "
           "for, `hidden` with attributes that are not shown otherwise.")
      .def(
          "to_json", [](const Graph& g) { return SaveJson(g); }, "The JSON form, tensors included.")
      .def_static(
          "from_json",
          [](const std::string& text, const std::string& source_name) {
            JsonOptions options;
            options.source_name = source_name;
            return std::make_shared<Graph>(LoadJson(text, options));
          },
          "text"_a, "source_name"_a = "<json>", "A graph from its JSON form.")
      .def(
          "copy",
          [](const Graph& g) {
            CheckLives(g);
            return std::make_shared<Graph>(g);
          },
          "A copy with the same node ids. Tensors are shared, since nothing writes to them.")
      .def(
          "extract",
          [](const SharedGraph& g, const std::vector<PyEntry>& entries) {
            CheckLives(*g);
            return std::make_shared<Graph>(Extract(*g, EntriesIn(g, entries)));
          },
          "entries"_a, nb::sig("def extract(self, entries: typing.Sequence[Entry]) -> Graph"),
          "A copy, with the same node ids, whose outputs are these and which holds what they need "
          "alone: inputs and effects that they do not depend on are left out.")
      .def("__copy__", [](const Graph& g) { return std::make_shared<Graph>(g); })
      .def(
          "__deepcopy__", [](const Graph& g, nb::handle) { return std::make_shared<Graph>(g); },
          "memo"_a)
      .def("__str__",
           [](const Graph& g) {
             CheckLives(g);
             return TextOf(g, false, false, false);
           })
      .def("__repr__",
           [](const Graph& g) {
             std::string name = g.name();
             if (!name.empty()) name = " '" + name + "'";
             return "<Graph" + name + ": " + std::to_string(g.num_nodes()) + " nodes, " +
                    std::to_string(g.inputs().size()) + " inputs, " +
                    std::to_string(g.outputs.size()) + " outputs>";
           })
      .def(
          "_repr_html_",
          [](nb::handle_t<Graph> self) {
            return nb::module_::import_("weft._html").attr("graph_html")(self);
          },
          nb::sig("def _repr_html_(self) -> str"))
      .def("__getstate__",
           [](const Graph& g) {
             const std::string json = SaveJson(g);
             return nb::bytes(json.data(), json.size());
           })
      .def("__setstate__", [](Graph& g, const nb::bytes& state) {
        new (&g) Graph(LoadJson({state.c_str(), state.size()}));
      });
}

}  // namespace weft::python
