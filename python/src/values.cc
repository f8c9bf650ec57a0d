/// values.cc: attribute values, shapes and types of graphs between Python and C++.
#include <variant>

#include "arrays.h"
#include "errors.h"
#include "graph.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/graph/variable.h"
#include "weft/support/check.h"
#include "weft/support/error.h"

namespace nb = nanobind;

namespace weft::python {
namespace {

[[noreturn]] void ThrowAttribute(const std::string& name, const std::string& problem) {
  ThrowError(ErrorCode::kBadAttribute, "attribute '" + name + "': " + problem);
}

/// Index of numpy and torch included; not bool.
std::optional<int64_t> AsInt(nb::handle object) {
  if (PyFloat_Check(object.ptr()) || !PyIndex_Check(object.ptr())) return std::nullopt;
  const nb::object index = nb::steal(PyNumber_Index(object.ptr()));
  if (!index.is_valid()) {
    PyErr_Clear();
    return std::nullopt;
  }
  const long long value = PyLong_AsLongLong(index.ptr());
  if (value == -1 && PyErr_Occurred()) throw nb::python_error();
  return value;
}

/// Anything that has a float value: numpy's scalars too.
std::optional<double> AsDouble(nb::handle object) {
  if (PyFloat_Check(object.ptr())) return PyFloat_AsDouble(object.ptr());
  if (!nb::hasattr(object, "__float__") || nb::hasattr(object, "__len__")) return std::nullopt;
  const double value = PyFloat_AsDouble(object.ptr());
  if (value == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return std::nullopt;
  }
  return value;
}

bool IsList(nb::handle object) { return PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()); }

std::optional<AttrValue> ListValue(nb::handle object, const std::string& type) {
  Ints ints;
  Floats floats;
  Strings strings;
  size_t count = 0;
  for (const nb::handle item : nb::borrow<nb::sequence>(object)) {
    ++count;
    if (PyUnicode_Check(item.ptr())) {
      strings.push_back(nb::cast<std::string>(item));
    } else if (const auto i = AsInt(item)) {
      ints.push_back(*i);
      floats.push_back(double(*i));
    } else if (const auto f = AsDouble(item)) {
      floats.push_back(*f);
    } else {
      return std::nullopt;
    }
  }
  if (count == 0) {
    if (type == "floats") return AttrValue(Floats());
    if (type == "strings") return AttrValue(Strings());
    return AttrValue(Ints());
  }
  if (strings.size() == count) return AttrValue(std::move(strings));
  if (ints.size() == count && type != "floats") return AttrValue(std::move(ints));
  if (floats.size() == count) return AttrValue(std::move(floats));
  return std::nullopt;
}

}  // namespace

AttrValue ToAttrValue(nb::handle object, const std::string& type, const std::string& name) {
  if (object.is_none()) return {};
  if (type == "dtype" || type == "shape") {
    if (type == "dtype") return AttrValue(ToDType(object));
    return AttrValue(ToShape(object));
  }
  if (type == "tensor") {
    if (std::shared_ptr<Tensor> tensor; nb::try_cast(object, tensor) && tensor)
      return AttrValue(OwnCopy(tensor));  // its array may be written
    return AttrValue(ToOwnTensor(object, {{}, "attribute", &name}));
  }
  if (PyBool_Check(object.ptr())) return AttrValue(object.ptr() == Py_True);
  if (PyUnicode_Check(object.ptr())) return AttrValue(nb::cast<std::string>(object));
  if (PyBytes_Check(object.ptr()))
    return AttrValue(
        std::string(PyBytes_AsString(object.ptr()), size_t(PyBytes_Size(object.ptr()))));
  if (IsList(object)) {
    if (auto list = ListValue(object, type)) return *std::move(list);
    ThrowAttribute(name, "expected a list of integers, of floats or of strings");
  }
  if (SharedGraph graph; nb::try_cast(object, graph) && graph)
    return AttrValue(GraphPtr(std::make_shared<Graph>(*graph)));
  if (std::shared_ptr<Tensor> tensor; nb::try_cast(object, tensor) && tensor)
    return AttrValue(OwnCopy(tensor));  // its array may be written
  if (const auto i = AsInt(object)) return AttrValue(*i);
  if (const auto f = AsDouble(object)) return AttrValue(*f);
  if (nb::hasattr(object, "__array__") || nb::hasattr(object, "__dlpack__")) {
    if (type == "ints" || type == "floats") return ToAttrValue(object.attr("tolist")(), type, name);
    return AttrValue(ToOwnTensor(object, {{}, "attribute", &name}));
  }
  ThrowAttribute(name, "a " + TypeNameOf(object) + " is not a value of an attribute");
}

namespace {

struct ToObject {
  nb::object operator()(std::monostate) const { return nb::none(); }
  nb::object operator()(int64_t v) const { return nb::int_(v); }
  nb::object operator()(double v) const { return nb::float_(v); }
  nb::object operator()(const std::string& v) const {
    PyObject* text = PyUnicode_DecodeUTF8(v.data(), Py_ssize_t(v.size()), nullptr);
    if (text) return nb::steal(text);
    PyErr_Clear();
    return nb::bytes(v.data(), v.size());
  }
  nb::object operator()(DType v) const { return nb::cast(std::string(DTypeName(v))); }
  nb::object operator()(const Shape& v) const { return ShapeObject(v); }
  nb::object operator()(const TensorPtr& v) const { return ToArray(v, false); }
  nb::object operator()(const GraphPtr& v) const {
    return v ? nb::cast(std::make_shared<Graph>(*v)) : nb::object(nb::none());
  }
  template <class List>
  nb::object operator()(const List& v) const {
    nb::list list;
    for (const auto& item : v) list.append(item);
    return std::move(list);
  }
};

}  // namespace

nb::object AttrObject(const AttrValue& value) { return std::visit(ToObject(), value.storage()); }

nb::object ShapeObject(const Shape& shape) {
  if (!shape.has_rank()) return nb::none();
  nb::list dims;
  for (const SymInt d : shape.dims()) {
    const auto value = d.known() ? d.try_value() : std::nullopt;
    if (value)
      dims.append(*value);
    else if (d.known())
      dims.append(d.ToString());
    else
      dims.append(nb::none());
  }
  return nb::tuple(dims);
}

Shape ToShape(nb::handle object) {
  if (object.is_none()) return {};
  if (PyUnicode_Check(object.ptr())) return Shape::Parse(nb::cast<std::string>(object));
  if (!IsList(object)) {
    if (const auto one = AsInt(object)) return Shape::OfInts({*one});
    ThrowError(ErrorCode::kShapeMismatch, "a " + TypeNameOf(object) + " is not a shape", "",
               "give a list of sizes, of names of symbols, and None for what is not known");
  }
  std::vector<SymInt> dims;
  for (const nb::handle item : nb::borrow<nb::sequence>(object)) {
    if (item.is_none()) {
      dims.emplace_back();
    } else if (PyUnicode_Check(item.ptr())) {
      const std::string text = nb::cast<std::string>(item);
      dims.push_back(Shape::Parse("[" + text + "]")[0]);
    } else if (const auto i = AsInt(item)) {
      WEFT_CHECK(*i >= 0, kShapeMismatch, "a shape has the dimension {}", *i);
      dims.emplace_back(*i);
    } else {
      ThrowError(ErrorCode::kShapeMismatch, "a " + TypeNameOf(item) + " is not a dimension", "",
                 "give a size, the name of a symbol, or None");
    }
  }
  return Shape(std::move(dims));
}

nb::object TypeObject(const Type& type) {
  if (!type.known()) return nb::none();
  return nb::cast(type.ToString());
}

Type ToType(nb::handle object) {
  if (object.is_none()) return {};
  if (PyUnicode_Check(object.ptr()))
    if (const Type type = ParseType(nb::cast<std::string>(object)); type.known()) return type;
  return Type(ToDType(object));
}

Type TypeOfEntry(const Graph& graph, const NodeEntry& entry) {
  if (graph.HasAttr("dtype"))
    if (const Type* type = graph.GetAttr<TypeMap>("dtype").find(entry); type && type->known())
      return *type;
  return entry.node->is_variable() ? DeclaredType(entry.node) : Type();
}

Shape ShapeOfEntry(const Graph& graph, const NodeEntry& entry) {
  const Shape* found =
      graph.HasAttr("shape") ? graph.GetAttr<ShapeMap>("shape").find(entry) : nullptr;
  Shape shape;
  if (found)
    shape = *found;
  else if (const TensorPtr constant = Graph::ConstantOf(entry))
    shape = constant->shape();
  else if (entry.node->is_variable())
    shape = DeclaredShape(entry.node).value_or(Shape());
  if (!shape.has_rank() || !graph.HasAttr("facts")) return shape;
  // A symbol that is one number is that number.
  const Facts& facts = graph.GetAttr<Facts>("facts");
  std::vector<SymInt> dims(shape.dims().begin(), shape.dims().end());
  for (SymInt& d : dims)
    if (d.known())
      if (const SymInt number = facts.Simplify(d); number.is_const()) d = number;
  return Shape(std::move(dims));
}

}  // namespace weft::python
