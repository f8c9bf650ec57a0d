/// host_eval.h: operators as plain C++ over host tensors, for what no expression says: results
/// whose extents depend on values (NonZero, Unique), sorting (TopK), bodies (If, Loop, Scan),
/// strings, and dtypes that kernels do not compute with.
///
/// The Evaluator prefers an operator's FCodeGen where every operand and result is of a computable
/// dtype; otherwise it calls FHostEval; otherwise, for an operator that only moves elements
/// (TMovesElements), it lets FCodeGen move positions and copies the elements that they name.
#pragma once

#include <functional>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/tensor/tensor.h"

namespace weft {

/// One tensor an output; `inputs` has null for an absent one. Types and shapes have been checked by
/// the operator's own inference. Throws what the operator documents.
using FHostEval =
    std::function<std::vector<TensorPtr>(const NodePtr&, const std::vector<TensorPtr>& inputs)>;

/// True for operators each of whose result elements is an element of an operand of the same dtype,
/// or zero: what decides which one never looks at the element.
using TMovesElements = bool;

}  // namespace weft
