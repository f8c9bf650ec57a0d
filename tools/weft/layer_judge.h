/// layer_judge.h: is a result what its node makes of the operands that the engine itself had?
///
/// Two right engines differ more from node to node, so a result that differs between them says
/// little about its node. Here each engine is measured against the evaluator in double precision on
/// that engine's own operands: what came in wrong does not count, and the first node that differs
/// is the cause. An element may be off by
///
///   roundoff * (16 + 8 sqrt(length of its sum)) * largest element
///
/// and by what the node makes of operands that differ in their last bits.
#pragma once

#include <functional>
#include <optional>

#include "weft/core/graph/graph.h"
#include "weft/core/tensor/tensor.h"

namespace weft::tool {

/// `value_of`: what the engine had for an entry; null: that is not at hand. The distance of the
/// result `entry` from what it should be, in units of what it may be off: at most 1 is right.
/// Nothing where that cannot be said.
std::optional<double> JudgeLayer(const NodeEntry& entry,
                                 const std::function<TensorPtr(const NodeEntry&)>& value_of);

}  // namespace weft::tool
