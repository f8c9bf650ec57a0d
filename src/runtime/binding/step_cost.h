/// step_cost.h: what a step has to do at given extents, for profiles: how far it is from
/// what the machine can.
#pragma once

#include <cstdint>

#include "binding.h"
#include "runtime/plan/instruction.h"

namespace weft {

struct StepCost {
  int64_t bytes = 0;  ///< of its operands and results, each once
  int64_t flops = 0;  ///< by FFlops of its operators; those without count as none
};

/// Operations of a node at these values of symbols, those of a fused body too.
int64_t FlopsAt(const NodePtr& node, const ShapeMap& shapes, const SymBindings& symbols);
/// StepCost::bytes alone.
int64_t BytesOf(const Step& step, const ExecutionPlan& plan, const Binding& binding);
/// Of a node by itself, for tensors; null: absent.
StepCost CostOf(const NodePtr& n, const std::vector<TensorPtr>& in,
                const std::vector<TensorPtr>& out);
/// `shapes`: of the graph that the plan was made of.
StepCost CostOf(const Step& step, const ExecutionPlan& plan, const Binding& binding,
                const ShapeMap& shapes);

}  // namespace weft
