/// body_types.cc: see body_types.h.
#include "weft/core/pass/body_types.h"

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/pass/provide.h"

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

/// The body may change them: the state of a loop.
bool MayChange(const NodePtr& n, size_t operand, const Slices& slices) {
  if (IsOp(n, "Scan")) return operand < slices.first;
  if (!IsOp(n, "Loop")) return false;
  return int64_t(operand) < int64_t(n->num_inputs()) - n->attr<int64_t>("num_captures");
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

Graph TypedBody(const NodePtr& node, const std::string& name, const ShapeMap& shapes,
                const TypeMap& types) {
  Graph body = *node->attr<GraphPtr>(name);
  const std::optional<uint32_t> before = OperandsBeforeBody(node);
  const Slices slices = SlicesOf(node);
  const std::vector<NodePtr> inputs = before ? body.inputs() : std::vector<NodePtr>();
  for (size_t i = 0; i < inputs.size() && *before + i < node->num_inputs(); ++i) {
    const NodeEntry& e = node->inputs[*before + i];
    if (!e.node || inputs[i]->has_attr("value")) continue;
    if (const Type t = types[e]; t.is_tensor() && t.known())
      body.SetAttr(inputs[i], "dtype", t.dtype);
    const Shape* s = shapes.find(e);
    if (!s || MayChange(node, i, slices)) continue;
    body.SetAttr(inputs[i], "shape",
                 slices.has(i) ? WithoutAxis(*s, slices.axes[i - slices.first]) : *s);
  }
  return ProvideTypes(std::move(body));
}

}  // namespace weft
