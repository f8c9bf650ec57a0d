/// body_types.cc: see body_types.h.
#include "weft/core/pass/body_types.h"

#include <algorithm>

#include "core/graph/claims.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/variable.h"
#include "weft/core/pass/provide.h"
#include "weft/support/error.h"

namespace weft {
namespace {

/// Operands of a Scan that its body gets in slices, and along which axis each.
struct Slices {
  size_t first = 0, end = 0;
  std::vector<int64_t> axes;
  bool has(size_t operand) const { return first <= operand && operand < end; }
};
Slices SlicesOf(const NodePtr& n) {
  Slices s;
  if (!IsOp(n, "Scan")) return s;
  const int64_t captures = n->attr<int64_t>("num_captures"),
                sliced = n->attr<int64_t>("num_scan_inputs");
  const int64_t end = int64_t(n->num_inputs()) - captures;
  if (captures < 0 || sliced < 0 || end < sliced) return s;
  s.first = size_t(end - sliced);
  s.end = size_t(end);
  s.axes.assign(size_t(sliced), 0);
  if (n->has_attr("scan_input_axes")) {
    const Ints& given = n->attr<Ints>("scan_input_axes");
    if (given.size() == s.axes.size()) s.axes.assign(given.begin(), given.end());
  }
  return s;
}

Shape WithoutAxis(const Shape& shape, int64_t axis) {
  if (!shape.has_rank()) return shape;
  if (axis < 0) axis += shape.rank();
  if (axis < 0 || axis >= shape.rank()) return Shape();
  std::vector<SymInt> dims = shape.dims();
  dims.erase(dims.begin() + axis);
  return Shape(std::move(dims));
}

/// The body may change them: the state of a loop. It is the output of that number.
std::optional<uint32_t> StateOf(const NodePtr& n, size_t operand, const Slices& slices) {
  if (IsOp(n, "Scan") && operand < slices.first) return uint32_t(operand);
  const int64_t captures = IsOp(n, "Loop") ? n->attr<int64_t>("num_captures") : 0;
  if (IsOp(n, "Loop") && operand >= 2 && int64_t(operand) < int64_t(n->num_inputs()) - captures)
    return uint32_t(operand - 2);
  return std::nullopt;
}
/// The number of the iteration and the condition, which a Loop itself gives its body.
bool IsCounter(const NodePtr& n, size_t operand) { return IsOp(n, "Loop") && operand < 2; }

bool MentionsUnbacked(SymInt d) {
  if (!d.known()) return false;
  const std::vector<SymInt> symbols = d.Symbols();
  return std::any_of(symbols.begin(), symbols.end(), [](SymInt s) { return s.is_unbacked(); });
}
/// What a body may know of the operand: a size that depends on data has another name in it.
Shape ShapeInside(const Shape& outside) {
  if (!outside.has_rank()) return outside;
  std::vector<SymInt> dims = outside.dims();
  for (SymInt& d : dims)
    if (MentionsUnbacked(d)) d = SymInt();
  return Shape(std::move(dims));
}

void Declare(Graph& body, const NodePtr& input, Type type, const Shape& shape) {
  if (type.is_tensor() && type.known() && DeclaredType(input) != type)
    body.SetAttr(input, "dtype", type.dtype);
  if (!shape.has_rank()) return;
  const std::optional<Shape> declared = DeclaredShape(input);
  if (!declared || !declared->same(shape)) body.SetAttr(input, "shape", shape);
}

}  // namespace

std::vector<std::string> BodyNames(const NodePtr& node) {
  std::vector<std::string> names;
  for (const auto& [name, value] : node->attrs.dict)
    if (value.is<GraphPtr>() && value.get<GraphPtr>()) names.push_back(name);
  return names;
}

std::optional<uint32_t> OperandsBeforeBody(const NodePtr& node) {
  if (IsOp(node, "If")) return 1;
  if (IsOp(node, "Loop") || IsOp(node, "Scan") || IsOp(node, builtin::kFused)) return 0;
  return std::nullopt;
}

bool HasControlBodies(const NodePtr& node) {
  return OperandsBeforeBody(node) && !IsOp(node, builtin::kFused);
}

Graph TypedBody(const NodePtr& node, const std::string& name, const ShapeMap& shapes,
                const TypeMap& types, const ValueMap* values) {
  Graph body = *node->attr<GraphPtr>(name);
  const std::optional<uint32_t> before = OperandsBeforeBody(node);
  const Slices slices = SlicesOf(node);
  const std::vector<NodePtr> inputs = before ? body.inputs() : std::vector<NodePtr>();
  ValueMap known;
  bool any_known = false;
  for (size_t i = 0; i < inputs.size() && *before + i < node->num_inputs(); ++i) {
    const NodeEntry& e = node->inputs[*before + i];
    if (IsCounter(node, i)) {
      Declare(body, inputs[i], i == 0 ? DType::kI64 : DType::kBool, Shape::Scalar());
      continue;
    }
    if (!e.node || inputs[i]->has_attr("value")) continue;
    const std::optional<uint32_t> state = StateOf(node, i, slices);
    Shape shape = shapes[e];
    if (state && !shapes[NodeEntry(node, *state)].same(shape)) shape = Shape();
    if (slices.has(i)) shape = WithoutAxis(shape, slices.axes[i - slices.first]);
    Declare(body, inputs[i], types[e], ShapeInside(shape));
    const SymTensorPtr* v = values && !state && !slices.has(i) ? values->find(e) : nullptr;
    if (!v || !*v) continue;
    const std::vector<SymInt>& elements = (*v)->elements;
    if (std::any_of(elements.begin(), elements.end(), MentionsUnbacked)) continue;
    known.set(NodeEntry(inputs[i]), *v);
    any_known = true;
  }
  if (body.IsComplete("dtype") && body.IsComplete("shape")) return body;
  if (any_known) body.SetAttr("value", std::move(known));
  return ProvideTypes(std::move(body));
}

std::optional<Graph> FittingBody(const NodePtr& node, const std::string& name,
                                 const ShapeMap& shapes, const TypeMap& types,
                                 const ValueMap* values) {
  try {
    return TypedBody(node, name, shapes, types, values);
  } catch (const UserError& e) {
    const bool misfit =
        e.code() == ErrorCode::kShapeMismatch || e.code() == ErrorCode::kBadAttribute;
    if (!misfit || !IsOp(node, "If")) throw;
    return std::nullopt;
  }
}

bool TellsItsSizes(const Graph& body) {
  const ShapeMap& shapes = body.GetAttr<ShapeMap>("shape");
  const TypeMap& types = body.GetAttr<TypeMap>("dtype");
  std::vector<SymInt> told;
  for (const NodePtr& input : body.inputs())
    for (SymInt d : shapes[NodeEntry(input)].dims())
      if (d.known() && d.is_symbol()) told.push_back(d);
  const auto tells = [&](SymInt d) {
    const std::vector<SymInt> symbols = d.Symbols();
    return std::all_of(symbols.begin(), symbols.end(), [&](SymInt s) {
      return std::find(told.begin(), told.end(), s) != told.end();
    });
  };
  for (const NodePtr& n : body.TopoOrder()) {
    for (uint32_t i = 0; i < n->num_outputs(); ++i) {
      const Shape& s = shapes[NodeEntry(n, i)];
      const bool tensor = types[NodeEntry(n, i)].is_tensor();
      if (tensor && (!s.fully_known() || !std::all_of(s.dims().begin(), s.dims().end(), tells)))
        return false;
    }
  }
  return true;
}

void ReplaceBody(Graph& graph, const NodePtr& node, const std::string& name, Graph body) {
  std::set<std::string> known;
  for (const auto& [attr, value] : graph.attrs) known.insert(attr);
  graph.HasAttr("");  // what earlier edits made stale does not hold
  const Claims claims(*graph.shared_store(), std::move(known));
  graph.SetAttr(node, name, std::make_shared<const Graph>(std::move(body)));
  graph.HasAttr("");
}

}  // namespace weft
