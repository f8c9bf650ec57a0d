/// entries.cc: Node and Entry, and arithmetic on entries.
#include <nanobind/operators.h>

#include <cmath>

#include "arrays.h"
#include "errors.h"
#include "graph.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/value_name.h"
#include "weft/core/op/op.h"
#include "weft/support/check.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::python {

namespace {
constexpr const char* kEnded = "lent_and_returned";
}  // namespace

void EndGraph(Graph* graph) {
  *graph = Graph();
  graph->attrs[kEnded] = std::make_shared<std::any>(true);
}
bool HasEnded(const Graph& graph) { return !graph.attrs.empty() && graph.attrs.count(kEnded) != 0; }
void CheckLives(const Graph& graph) {
  if (HasEnded(graph))
    ThrowError(ErrorCode::kApiMisuse,
               "a graph that a pass or a rule was given, or a handle of it, is used after that has "
               "returned",
               "", "keep names of nodes, or graph.copy()");
}

NodePtr PyNode::node() const {
  CheckLives(*graph);
  const NodePtr n = graph->node(id);
  WEFT_CHECK(bool(n), kApiMisuse, "node %{} is not in the graph any longer", id);
  return n;
}

NodeEntry PyEntry::entry() const { return {node().node(), index}; }

PyEntry EntryOf(const SharedGraph& graph, const NodeEntry& entry) {
  return {graph, entry.node->id(), entry.index};
}

PyNode NodeOf(const SharedGraph& graph, NodePtr node) { return {graph, node->id()}; }

nb::object EntryObject(const SharedGraph& graph, const NodeEntry& entry) {
  return entry ? nb::cast(EntryOf(graph, entry)) : nb::object(nb::none());
}

std::vector<PyEntry> EntriesOf(const SharedGraph& graph, const std::vector<NodeEntry>& entries) {
  std::vector<PyEntry> made;
  made.reserve(entries.size());
  for (const NodeEntry& e : entries) made.push_back(EntryOf(graph, e));
  return made;
}

std::vector<NodeEntry> EntriesIn(const SharedGraph& graph, const std::vector<PyEntry>& entries) {
  std::vector<NodeEntry> made;
  made.reserve(entries.size());
  for (const PyEntry& e : entries) {
    WEFT_CHECK(e.graph.get() == graph.get(), kApiMisuse, "entry %{} is of another graph", e.id);
    made.push_back(e.entry());
  }
  return made;
}

namespace {

/// A Python number as a scalar of the dtype of `like`.
NodeEntry NumberLike(nb::handle value, const PyEntry& like) {
  const NodeEntry near = like.entry();
  const Type type = TypeOfEntry(*like.graph, near);
  const bool is_float = PyFloat_Check(value.ptr());
  const double number = PyFloat_AsDouble(value.ptr());
  if (number == -1 && PyErr_Occurred()) throw nb::python_error();
  if (!type.known() || !type.is_tensor()) return ScalarOf(near, number);
  constexpr double kEnd = 9223372036854775808.0;  // of i64
  if (is_float && !IsFloat(type.dtype) &&
      (!(std::abs(number) < kEnd) || number != double(int64_t(number))))
    ThrowError(ErrorCode::kTypeMismatch,
               "the number " + nb::cast<std::string>(nb::repr(value)) + " beside an entry of " +
                   type.ToString(),
               like.node().node()->Describe(), "cast the entry first: weft.ops.Cast(x, to='f32')");
  if (!is_float && !IsFloat(type.dtype)) {
    auto scalar = std::make_shared<Tensor>(type.dtype, std::vector<int64_t>{});
    const long long whole = PyLong_AsLongLong(value.ptr());
    if (whole == -1 && PyErr_Occurred()) throw nb::python_error();
    scalar->set_int(0, whole);
    WEFT_CHECK(scalar->at_int(0) == whole, kTypeMismatch, "the number {} is beyond {}", whole,
               DTypeName(type.dtype));
    return ConstantLike(near, scalar);
  }
  return ScalarLike(near, type.dtype, number);
}

}  // namespace

PyEntry Operand(nb::handle value, const PyEntry& like) {
  PyEntry entry;
  if (nb::try_cast(value, entry)) {
    WEFT_CHECK(entry.graph.get() == like.graph.get(), kApiMisuse,
               "entries of two graphs in one operation");
    return entry;
  }
  if ((PyLong_Check(value.ptr()) && !PyBool_Check(value.ptr())) || PyFloat_Check(value.ptr()))
    return EntryOf(like.graph, NumberLike(value, like));
  return EntryOf(like.graph, ConstantLike(like.entry(), ToOwnTensor(value, {{}, "operand"})));
}

namespace {

/// What is no operand leaves the operation to the other side.
bool IsOperand(nb::handle value) {
  if (nb::isinstance<PyEntry>(value)) return true;
  if (PyLong_Check(value.ptr()) || PyFloat_Check(value.ptr())) return true;
  return nb::hasattr(value, "__array__") || nb::hasattr(value, "__dlpack__");
}

nb::object Binary(const char* op, const PyEntry& a, nb::handle other, bool reversed) {
  if (!IsOperand(other)) return nb::borrow(Py_NotImplemented);
  const PyEntry b = Operand(other, a);
  const NodeEntry x = a.entry(), y = b.entry();
  const std::vector<NodeEntry> inputs =
      reversed ? std::vector<NodeEntry>{y, x} : std::vector<NodeEntry>{x, y};
  return nb::cast(EntryOf(a.graph, ApplyOp(op, inputs)));
}

template <class Class>
void BindOperator(Class& c, const char* forward, const char* reversed, const char* op) {
  const std::string sig = "(self, other: Operand, /) -> Entry";
  const std::string f = "def " + std::string(forward) + sig;
  c.def(
      forward, [op](const PyEntry& a, nb::handle b) { return Binary(op, a, b, false); },
      nb::is_operator(), nb::sig(f.c_str()));
  if (!reversed) return;
  const std::string r = "def " + std::string(reversed) + sig;
  c.def(
      reversed, [op](const PyEntry& a, nb::handle b) { return Binary(op, a, b, true); },
      nb::is_operator(), nb::sig(r.c_str()));
}

std::string EntryText(const PyEntry& e) {
  const NodeEntry entry = e.entry();
  const Node& node = *entry.node;
  std::string text = "<Entry %" + std::to_string(e.id);
  if (e.index) text += ":" + std::to_string(e.index);
  if (!node.attrs.name.empty()) text += " '" + node.attrs.name + "'";
  text += node.is_variable() ? " (variable)" : " (" + node.op()->name + ")";
  const Type type = TypeOfEntry(*e.graph, entry);
  const Shape shape = ShapeOfEntry(*e.graph, entry);
  if (type.known()) text += " " + type.ToString();
  if (shape.has_rank()) text += shape.ToString();
  return text + ">";
}

}  // namespace

void BindEntries(nb::module_& m) {
  nb::class_<PyNode>(m, "Node",
                     "A node of a graph. It keeps the graph alive; using one that an edit has "
                     "erased is a weft.ApiMisuseError.")
      .def_prop_ro(
          "graph", [](const PyNode& n) { return n.graph; }, "The graph that it is of.")
      .def_prop_ro(
          "id", [](const PyNode& n) { return n.id; }, "Its number: stable, and never used again.")
      .def_prop_ro(
          "op",
          [](const PyNode& n) -> std::optional<std::string> {
            const NodePtr node = n.node();
            if (node->is_variable()) return std::nullopt;
            return node->op()->name;
          },
          nb::sig("def op(self) -> str | None"), "Name of its operator; None for a variable.")
      .def_prop_rw(
          "name", [](const PyNode& n) { return n.node()->attrs.name; },
          [](const PyNode& n, std::string name) { n.node()->attrs.name = std::move(name); },
          "Its name; may be empty.")
      .def_prop_ro(
          "inputs",
          [](const PyNode& n) {
            nb::list list;
            for (const NodeEntry& e : n.node()->inputs) list.append(EntryObject(n.graph, e));
            return list;
          },
          nb::sig("def inputs(self) -> list[Entry | None]"),
          "Entries that it reads; None for an optional one that is absent.")
      .def_prop_ro(
          "outputs",
          [](const PyNode& n) {
            std::vector<PyEntry> list;
            for (uint32_t i = 0; i < n.node()->num_outputs(); ++i)
              list.push_back({n.graph, n.id, i});
            return list;
          },
          "Its entries.")
      .def_prop_ro(
          "control_deps",
          [](const PyNode& n) {
            std::vector<PyNode> list;
            for (Node* d : n.node()->control_deps) list.push_back(NodeOf(n.graph, d));
            return list;
          },
          "Nodes that have to run before it.")
      .def_prop_ro(
          "users",
          [](const PyNode& n) {
            std::vector<PyNode> list;
            for (const Use& use : n.node()->uses()) list.push_back(NodeOf(n.graph, use.user));
            return list;
          },
          "Nodes that read an output of it, or run after it.")
      .def_prop_ro(
          "attrs",
          [](const PyNode& n) {
            nb::dict dict;
            for (const auto& [name, value] : n.node()->attrs.dict)
              dict[nb::cast(name)] = AttrObject(value);
            return dict;
          },
          nb::sig("def attrs(self) -> dict[str, typing.Any]"),
          "Attributes as they were set; see `Graph.set_attr`.")
      .def_prop_ro(
          "origin",
          [](const PyNode& n) {
            const Origin origin = n.node()->origin();
            return origin ? *origin : std::vector<std::string>();
          },
          "Names of the nodes of the user's graph that it stands for.")
      .def(
          "__eq__",
          [](const PyNode& a, nb::handle b) {
            PyNode other;
            return nb::try_cast(b, other) && a == other;
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__",
           [](const PyNode& n) { return std::hash<void*>()(n.graph.get()) ^ size_t(n.id) * 31; })
      .def("__repr__", [](const PyNode& n) { return "<Node " + n.node()->Describe() + ">"; });

  nb::class_<PyEntry> entry(m, "Entry",
                            "Output `index` of a node: what operators take and give.\n\n"
                            "Arithmetic on entries adds nodes to their graph; numbers and arrays "
                            "beside them become constants. Comparisons but for == and != are "
                            "operators as well.");
  entry
      .def_prop_ro(
          "graph", [](const PyEntry& e) { return e.graph; }, "The graph that it is of.")
      .def_prop_ro(
          "node", [](const PyEntry& e) { return e.node(); }, "The node whose output it is.")
      .def_prop_ro(
          "index", [](const PyEntry& e) { return e.index; }, "Which output.")
      .def_prop_rw(
          "name", [](const PyEntry& e) { return ValueName(*e.graph, e.entry()); },
          [](const PyEntry& e, std::string name) {
            SetValueName(e.graph.get(), e.entry(), std::move(name));
          },
          "Name of the value; may be empty.")
      .def_prop_ro(
          "dtype", [](const PyEntry& e) { return TypeObject(TypeOfEntry(*e.graph, e.entry())); },
          nb::sig("def dtype(self) -> str | None"),
          "'f32', 'seq(f32)' ...: declared, or what `Graph.infer` has found; None: unknown.")
      .def_prop_ro(
          "shape", [](const PyEntry& e) { return ShapeObject(ShapeOfEntry(*e.graph, e.entry())); },
          nb::sig("def shape(self) -> tuple[int | str | None, ...] | None"),
          "Sizes, texts of symbolic ones, None where unknown; None: the rank is unknown. A symbol "
          "of which inference has found that it is one number is that number.")
      .def(
          "list_input_variables",
          [](const PyEntry& e) {
            std::vector<PyEntry> list;
            const Graph part = Extract(*e.graph, {e.entry()});
            for (const NodePtr n : part.TopoOrder())
              if (IsState(n)) list.push_back({e.graph, n->id(), 0});
            return list;
          },
          "State variables that it is computed from, in order of first use.")
      .def(
          "__eq__",
          [](const PyEntry& a, nb::handle b) {
            PyEntry other;
            return nb::try_cast(b, other) && a == other;
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__",
           [](const PyEntry& e) {
             return std::hash<void*>()(e.graph.get()) ^ (size_t(e.id) * 31 + e.index);
           })
      .def("__bool__",
           [](const PyEntry& e) -> bool {
             ThrowError(ErrorCode::kTypeMismatch, "an entry has no value before a program runs",
                        e.node().node()->Describe(),
                        "choose by weft.ops.Where or weft.ops.If, which are part of the graph");
           })
      .def("__neg__",
           [](const PyEntry& e) { return EntryOf(e.graph, ApplyOp("Neg", {e.entry()})); })
      .def("__abs__",
           [](const PyEntry& e) { return EntryOf(e.graph, ApplyOp("Abs", {e.entry()})); })
      .def("__repr__", EntryText);
  BindOperator(entry, "__add__", "__radd__", "Add");
  BindOperator(entry, "__sub__", "__rsub__", "Sub");
  BindOperator(entry, "__mul__", "__rmul__", "Mul");
  BindOperator(entry, "__truediv__", "__rtruediv__", "Div");
  BindOperator(entry, "__pow__", "__rpow__", "Pow");
  BindOperator(entry, "__matmul__", "__rmatmul__", "MatMul");
  BindOperator(entry, "__lt__", nullptr, "Less");
  BindOperator(entry, "__le__", nullptr, "LessOrEqual");
  BindOperator(entry, "__gt__", nullptr, "Greater");
  BindOperator(entry, "__ge__", nullptr, "GreaterOrEqual");
  // numpy's arrays on the left leave the operation to the entry.
  entry.attr("__array_ufunc__") = nb::none();
}

}  // namespace weft::python
