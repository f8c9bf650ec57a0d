/// interpreter.h: the reference meaning of an Expr: evaluates a ComputeSpec on host tensors.
///
/// `kDouble` computes every floating value in double whatever its dtype (storage is still rounded
/// on output): the oracle of the tests. `kTyped` rounds each operation to its dtype like a device
/// does (math calls by the generated polynomials are *not* used: libm, rounded). Each
/// sub-expression is evaluated once per distinct tuple of the indices it depends on, so that
/// soft-max over n x r costs n * r, not n * r * r.
#pragma once

#include <vector>

#include "weft/codegen/lower/lower.h"
#include "weft/core/tensor/tensor.h"

namespace weft {

enum class InterpretMode { kDouble, kTyped };

/// Evaluates all outputs. `inputs[i]` must match spec.inputs[i] in dtype and, under
/// `bindings`, in extents (kBadInput).
WEFT_API std::vector<TensorPtr> Interpret(const ComputeSpec& spec,
                                          const std::vector<TensorPtr>& inputs,
                                          const SymBindings& bindings,
                                          InterpretMode mode = InterpretMode::kTyped);

}  // namespace weft
