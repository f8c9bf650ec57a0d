/// step_cost.cc: bytes from the extents of the binding, operations from FFlops over the
/// shapes of the graph.
#include "step_cost.h"

#include <algorithm>
#include <map>

#include "weft/core/op/flops.h"
#include "weft/support/error.h"

namespace weft {

int64_t FlopsAt(const NodePtr& node, const ShapeMap& shapes, const SymBindings& symbols) {
  int64_t sum = 0;
  for (const SymInt flops : FlopsOfAll(node, shapes)) {
    try {
      sum += Evaluate(flops, symbols);
    } catch (const Error&) {
      // of extents that are not bound
    }
  }
  return sum;
}

int64_t BytesOf(const Step& step, const ExecutionPlan& plan, const Binding& b) {
  int64_t bytes = 0;
  for (const auto* list : {&step.inputs, &step.outputs}) {
    // A variable that is read and then written anew is an operand twice, under two
    // names, in one place.
    std::map<int, int64_t> places;
    for (int v : *list) {
      if (v < 0) continue;
      const Value& value = plan.values[size_t(v)];
      int64_t& most = places[value.storage];
      most = std::max(most, DTypeBytes(value.dtype, NumElements(b.dims[size_t(v)])));
    }
    for (const auto& [storage, size] : places) bytes += size;
  }
  return bytes;
}

StepCost CostOf(const NodePtr& n, const std::vector<TensorPtr>& in,
                const std::vector<TensorPtr>& out) {
  StepCost cost;
  ShapeMap shapes;
  const auto add = [&](const NodeEntry& e, const TensorPtr& t) {
    if (!t || !t->is_tensor()) return;
    cost.bytes += t->num_bytes();
    shapes.set(e, t->shape());
  };
  for (size_t i = 0; i < in.size(); ++i) add(n->inputs[i], in[i]);
  for (size_t i = 0; i < out.size(); ++i) add(NodeEntry(n, uint32_t(i)), out[i]);
  cost.flops = FlopsAt(n, shapes, {});
  return cost;
}

StepCost CostOf(const Step& step, const ExecutionPlan& plan, const Binding& b,
                const ShapeMap& shapes) {
  StepCost cost;
  cost.bytes = BytesOf(step, plan, b);
  if (!step.node || step.kind == StepKind::kShapeValue || step.kind == StepKind::kCopy) return cost;
  cost.flops = FlopsAt(step.node, shapes, b.symbols);
  return cost;
}

}  // namespace weft
