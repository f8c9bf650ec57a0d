/// plan_variables.h: where the contents of state variables lie over the steps of a program.
#pragma once

#include <functional>

#include "weft/codegen/compiler/kernel_attr_types.h"
#include "weft/core/graph/graph_attr.h"

namespace weft {

/// What may lie in a variable's own storage, and what has to lie beside it.
struct VariablePlan {
  /// Results of other steps that are written where the variable lies, because an Assign that
  /// follows would only copy them there: the variable.
  EntryMap<NodePtr> direct;
  /// Reads and views of a variable whose content is needed after the variable
  /// was overwritten: they copy.
  NodeMap<char> copied;
  /// Results that write a variable, but are needed longer than it, or computed by a kernel that
  /// still reads the old content elsewhere: they have a block of their own, which is copied into
  /// the variable at once.
  EntryMap<char> apart;
};

/// `sizes_agree(a, b)`: two entries have provably equal numbers of bytes and equal dtypes.
VariablePlan PlanVariables(
    const Graph& graph, const Order& order, const KernelMap* kernels,
    const std::function<bool(const NodeEntry&, const NodeEntry&)>& sizes_agree);

}  // namespace weft
