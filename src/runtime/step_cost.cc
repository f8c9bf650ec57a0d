/// step_cost.cc: bytes from the extents of the binding, operations from FFlops over the shapes of the graph.
#include "step_cost.h"

#include "weft/core/builtin_ops.h"
#include "weft/core/flops.h"
#include "weft/support/error.h"

namespace weft {
namespace {

/// Of one operator; 0 where it does not say, or only for extents that are not bound.
int64_t BoundFlops(const NodePtr& n, const ShapeMap& shapes, const SymBindings& symbols) {
  try {
    const std::optional<SymInt> cost = FlopsOf(n, shapes);
    return cost && cost->known() ? Evaluate(*cost, symbols) : 0;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

StepCost CostOf(const Step& step, const ExecutionPlan& plan, const Binding& b,
                const ShapeMap& shapes) {
  StepCost cost;
  for (const auto* list : {&step.inputs, &step.outputs})
    for (int v : *list)
      if (v >= 0)
        cost.bytes += DTypeBytes(plan.values[size_t(v)].dtype, NumElements(b.dims[size_t(v)]));
  if (!step.node || step.kind == StepKind::kShapeValue || step.kind == StepKind::kCopy) return cost;
  if (!IsOp(step.node, builtin::kFused)) {
    cost.flops = BoundFlops(step.node, shapes, b.symbols);
    return cost;
  }
  const GraphPtr body = FusedBody(step.node);
  if (!body->HasAttr("shape")) return cost;
  const ShapeMap& inside = body->GetAttr<ShapeMap>("shape");
  for (NodePtr n : body->TopoOrder()) cost.flops += BoundFlops(n, inside, b.symbols);
  return cost;
}

}  // namespace weft
