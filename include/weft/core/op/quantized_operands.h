/// quantized_operands.h: which operands of an operator quantisation rounds to few bits, for who
/// measures their values and for who rounds them.
#pragma once

#include <optional>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

/// Operands by their places. Weights are symmetric, one scale for each index of `weight_axis`; a
/// bias is an integer in units of the scale of the activation times that of its filter.
struct QuantizedOperands {
  std::vector<size_t> activations;
  std::optional<size_t> weight, bias;
  int64_t weight_axis = 0;   ///< of the filters, or columns
  int64_t summed_axis = 0;   ///< of the weights: the channels of the activation
  int64_t channel_axis = 0;  ///< of the activation: what is summed over; < 0: from the back
};

/// Of Conv, Gemm and MatMul with constant f32 weights, and of an Add of two values that are not
/// constant. Nothing for another operator, and where the weights are a result of other nodes.
WEFT_API std::optional<QuantizedOperands> QuantizedOperandsOf(const NodePtr& n);

/// Does the node only move elements, or choose among them in a way that keeps their order
/// (MaxPool)? *data: so many of its inputs, from the first on, are elements of the result.
WEFT_API bool MovesElements(const NodePtr& n, size_t* data);

}  // namespace weft
