/// ops.cc: operators of the registry: what they take, and nodes of them.
#include <algorithm>

#include "arrays.h"
#include "errors.h"
#include "graph.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op_param.h"
#include "weft/support/check.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::python {
namespace {

/// Attributes by keyword, by the operator's declaration where it has one.
AttrDict AttrsOf(const Op& op, const nb::kwargs& given) {
  AttrDict attrs;
  for (const auto& [key, value] : given) {
    const std::string name = nb::cast<std::string>(key);
    if (value.is_none()) continue;
    const ParamField* field = op.param_schema ? op.param_schema->find(name) : nullptr;
    std::string type = field ? field->type : "";
    // ONNX numbers dtypes; names are clearer.
    if (type == "int" && PyUnicode_Check(value.ptr()) && (name == "to" || name == "dtype")) {
      attrs[name] = AttrValue(int64_t(TraitsOf(ToDType(value)).onnx));
      continue;
    }
    attrs[name] = ToAttrValue(value, type, name);
  }
  return attrs;
}

nb::dict DescribeArg(const ArgDoc& arg) {
  nb::dict d;
  d["name"] = arg.name;
  d["type"] = arg.type;
  d["doc"] = arg.doc;
  d["optional"] = arg.optional;
  d["variadic"] = arg.variadic;
  return d;
}

nb::dict DescribeOp(const std::string& name) {
  const Op* op = Op::Get(name);
  nb::dict d;
  d["name"] = op->name;
  d["doc"] = op->description;
  nb::list inputs, outputs, attributes;
  for (const ArgDoc& a : op->inputs) inputs.append(DescribeArg(a));
  for (const ArgDoc& a : op->outputs) outputs.append(DescribeArg(a));
  if (op->param_schema) {
    for (const ParamField& f : op->param_schema->fields) {
      nb::dict field;
      field["name"] = f.name;
      field["type"] = f.type;
      field["doc"] = f.doc;
      field["default"] = f.default_text;
      field["required"] = f.required;
      attributes.append(field);
    }
  }
  d["inputs"] = inputs;
  d["outputs"] = outputs;
  d["attributes"] = attributes;
  d["declared"] = op->param_schema != nullptr;
  d["min_inputs"] = op->min_inputs;
  d["max_inputs"] = op->max_inputs;
  d["num_outputs"] = op->get_num_outputs ? -1 : op->num_outputs;
  d["owner"] = op->owners.empty() ? "" : op->owners[0].ToString();
  return d;
}

}  // namespace

nb::object MakeOpNode(const std::string& name, const nb::args& inputs, const nb::kwargs& kwargs) {
  const Op* op = Op::Get(name);
  nb::kwargs rest = kwargs;
  std::string node_name;
  SharedGraph graph;
  // `rest` is the caller's dictionary of keywords, made for this call.
  const auto take = [&](const char* key) -> nb::object {
    if (!rest.contains(key)) return {};
    nb::object value = rest[key];
    nb::del(rest[key]);
    return value;
  };
  if (const nb::object o = take("name"); o.is_valid() && !o.is_none())
    node_name = nb::cast<std::string>(o);
  if (const nb::object o = take("graph"); o.is_valid() && !o.is_none())
    graph = nb::cast<SharedGraph>(o);
  PyEntry like;
  for (const nb::handle input : inputs) {
    PyEntry entry;
    if (!nb::try_cast(input, entry)) continue;
    WEFT_CHECK(!graph || graph.get() == entry.graph.get(), kApiMisuse,
               "operands of {} are of two graphs", name);
    if (!like.graph) like = entry;
    graph = entry.graph;
  }
  WEFT_CHECK(graph != nullptr, kApiMisuse, "no operand of {} is an entry: give graph=", name);
  CheckLives(*graph);
  std::vector<NodeEntry> entries;
  for (const nb::handle input : inputs) {
    PyEntry entry;
    if (input.is_none()) {
      entries.emplace_back();
    } else if (nb::try_cast(input, entry)) {
      entries.push_back(entry.entry());
    } else if (like.graph && (PyFloat_Check(input.ptr()) || PyLong_Check(input.ptr()))) {
      entries.push_back(Operand(input, like).entry());
    } else {
      entries.push_back(graph->AddConstant(ToOwnTensor(input, {{}, "operand"})));
    }
  }
  const NodePtr node = graph->AddNode(op, entries, AttrsOf(*op, rest), node_name);
  const uint32_t count = node->num_outputs();
  if (count == 1) return nb::cast(EntryOf(graph, {node, 0}));
  nb::list outputs;
  for (uint32_t i = 0; i < count; ++i) outputs.append(EntryOf(graph, {node, i}));
  return nb::tuple(outputs);
}

void BindOps(nb::module_& m) {
  m.def("_list_ops", [] {
    std::vector<std::string> names;
    for (const Op* op : Op::List()) names.push_back(op->name);
    return names;
  });
  m.def("_describe_op", DescribeOp, "name"_a,
        nb::sig("def _describe_op(name: str) -> dict[str, typing.Any]"));
  m.def(
      "_make_node",
      [](const std::string& op, const nb::args& inputs, const nb::kwargs& attrs) {
        return MakeOpNode(op, inputs, attrs);
      },
      nb::sig("def _make_node(op: str, /, *inputs: Operand | None, **attributes: typing.Any) -> "
              "typing.Any"));
}

}  // namespace weft::python
