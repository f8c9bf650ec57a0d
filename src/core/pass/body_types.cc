/// body_types.cc: see body_types.h.
#include "weft/core/pass/body_types.h"

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/variable.h"
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

void SetTypes(Graph* body, const std::vector<Type>& types) {
  const std::vector<NodePtr> inputs = body->inputs();
  for (size_t i = 0; i < inputs.size() && i < types.size(); ++i) {
    if (types[i].is_tensor() && types[i].known())
      body->SetAttr(inputs[i], "dtype", types[i].dtype);
    else if (types[i].known())
      body->SetAttr(inputs[i], "type", types[i].ToString());
  }
}

/// What `outer` knows of `d` beyond what all sizes are.
void CarryFacts(const Facts& outer, SymInt d, Facts* inner) {
  if (!d.known() || d.is_const()) return;
  const Range r = outer.RangeOf(d), known = inner->RangeOf(d);
  if (r.lo > known.lo || r.hi < known.hi) inner->SetRange(d, r);
  if (const int64_t divisor = outer.DivisorOf(d); divisor > inner->DivisorOf(d))
    inner->SetDivisor(d, divisor);
}

PassOptions PlainOptions() {
  PassOptions plain;
  plain.verify = false;
  return plain;
}

}  // namespace

Graph InferBodyTypes(Graph body, const std::vector<Type>& types) {
  SetTypes(&body, types);
  return ProvideAttrs(std::move(body), {"dtype"}, PlainOptions());
}

Graph InferBody(Graph body, const BodyOperands& operands) {
  SetTypes(&body, operands.types);
  const std::vector<NodePtr> inputs = body.inputs();
  ValueMap values;
  Facts facts = body.AttrOr<Facts>("facts");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i < operands.shapes.size()) {
      body.SetAttr(inputs[i], "shape", operands.shapes[i]);
      if (operands.facts)
        for (SymInt d : operands.shapes[i].dims()) CarryFacts(*operands.facts, d, &facts);
    }
    if (i < operands.values.size() && operands.values[i])
      values.set(NodeEntry(inputs[i]), operands.values[i]);
  }
  if (!operands.values.empty()) body.SetAttr("value", std::move(values));
  if (operands.facts) body.SetAttr("facts", std::move(facts));
  return ProvideTypes(std::move(body), PlainOptions());
}

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
  const GraphPtr body = node->attr<GraphPtr>(name);
  const std::optional<uint32_t> before = OperandsBeforeBody(node);
  const Slices slices = SlicesOf(node);
  BodyOperands operands;
  for (size_t i = 0; before && i < body->inputs().size(); ++i) {
    const size_t slot = *before + i;
    const NodePtr input = body->inputs()[i];
    const NodeEntry e = slot < node->num_inputs() ? node->inputs[slot] : NodeEntry();
    operands.types.push_back(e.node && !input->has_attr("value") ? types[e] : Type());
    const Shape* s = e.node ? shapes.find(e) : nullptr;
    if (!s || input->has_attr("value") || MayChange(node, i, slices))
      operands.shapes.push_back(DeclaredShape(input).value_or(Shape()));
    else
      operands.shapes.push_back(slices.has(i) ? WithoutAxis(*s, slices.axes[i - slices.first])
                                              : *s);
  }
  return InferBody(*body, operands);
}

}  // namespace weft
