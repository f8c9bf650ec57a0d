/// step_cost.cc: bytes from the extents of the binding, operations from FFlops over the shapes that the plan was made with.
#include "step_cost.h"

#include <algorithm>

#include "weft/core/builtin_ops.h"
#include "weft/core/op.h"
#include "weft/core/op_attr_types.h"
#include "weft/support/error.h"

namespace weft {
namespace {

/// Of one operator; 0 where it does not say, or only for extents that are not bound.
int64_t FlopsOf(const NodePtr& n, const std::vector<Shape>& in, const std::vector<Shape>& out,
                const SymBindings& symbols) {
  static const auto& flops = Op::GetAttr<FFlops>("FFlops");
  const FFlops* f = n->is_variable() ? nullptr : flops.find(n->op());
  const auto known = [](const Shape& s) { return !s.has_rank() || s.fully_known(); };
  if (!f || !std::all_of(in.begin(), in.end(), known) ||
      !std::all_of(out.begin(), out.end(), known))
    return 0;
  try {
    const SymInt cost = (*f)(n, in, out);
    return cost.known() ? Evaluate(cost, symbols) : 0;
  } catch (const Error&) {
    return 0;
  }
}

int64_t FlopsOfBody(const Graph& body, const SymBindings& symbols) {
  const ShapeMap& shapes = body.GetAttr<ShapeMap>("shape");
  int64_t sum = 0;
  for (NodePtr n : body.TopoOrder()) {
    std::vector<Shape> in, out;
    for (const NodeEntry& e : n->inputs) in.push_back(e.node ? shapes[e] : Shape());
    for (uint32_t i = 0; i < n->num_outputs(); ++i) out.push_back(shapes[NodeEntry(n, i)]);
    sum += FlopsOf(n, in, out, symbols);
  }
  return sum;
}

}  // namespace

StepCost CostOf(const Step& step, const ExecutionPlan& plan, const Binding& b) {
  StepCost cost;
  std::vector<Shape> in, out;
  for (const auto* list : {&step.inputs, &step.outputs})
    for (int v : *list) {
      (list == &step.inputs ? in : out).push_back(v < 0 ? Shape() : plan.values[size_t(v)].shape);
      if (v >= 0)
        cost.bytes += DTypeBytes(plan.values[size_t(v)].dtype, NumElements(b.dims[size_t(v)]));
    }
  if (!step.node || step.kind == StepKind::kShapeValue || step.kind == StepKind::kCopy) return cost;
  if (IsOp(step.node, builtin::kFused)) {
    const GraphPtr body = FusedBody(step.node);
    if (body->HasAttr("shape")) cost.flops = FlopsOfBody(*body, b.symbols);
  } else {
    cost.flops = FlopsOf(step.node, in, out, b.symbols);
  }
  return cost;
}

}  // namespace weft
