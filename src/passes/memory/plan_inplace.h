/// plan_inplace.h: which operands a node may overwrite while it runs.
#pragma once

#include <utility>
#include <vector>

#include "weft/codegen/compiler/kernel_attr_types.h"

namespace weft {

/// Pairs (operand, output): the output may be written where the operand lies, because every element
/// of the operand is read by the point that writes that element, and no later. What printers
/// promise: all values of a point are computed before any is stored, and a row is stored when all
/// its reductions are done.
std::vector<std::pair<int, int>> InplacePairs(const LoweredKernel& launch, int num_inputs);

/// Of any node: those of its kernel in `kernels` (may be null), else what its operator says
/// (FInplace).
std::vector<std::pair<int, int>> InplacePairs(const NodePtr& node, const KernelMap* kernels);

/// Operands that the launch loads from.
std::vector<bool> LoadedOperands(const LoweredKernel& launch, int num_inputs);

}  // namespace weft
