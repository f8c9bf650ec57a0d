/// recurrent.h: what the runs of RNN, GRU and LSTM (recurrent.cc), what they are made of
/// (recurrent_scan.cc) and their gradients (recurrent_gradient.cc) share.
#pragma once

#include <string>
#include <vector>

#include "ops/util/op_util.h"
#include "weft/core/op/decompose.h"

namespace weft::ops {

struct RecurrentParam : OpParam<RecurrentParam> {
  Floats activation_alpha, activation_beta;
  Strings activations;
  double clip;
  std::string direction;
  int64_t hidden_size, layout, linear_before_reset, input_forget;
  WEFT_OP_PARAM(RecurrentParam) {
    WEFT_FIELD(activation_alpha).set_default({}).describe("of the activations that have one");
    WEFT_FIELD(activation_beta).set_default({}).describe("of the activations that have one");
    WEFT_FIELD(activations).set_default({}).describe("of each direction; default Sigmoid and Tanh");
    WEFT_FIELD(clip).set_default(0).set_lower_bound(0).describe(
        "bound of what activations get; 0: none");
    WEFT_FIELD(direction).set_default("forward").describe(
        "\"forward\", \"reverse\" or \"bidirectional\"");
    WEFT_FIELD(hidden_size).set_default(0).set_lower_bound(0).describe("0: that of R");
    WEFT_FIELD(layout).set_default(0).set_range(0, 1).describe("1: the batch is the first axis");
    WEFT_FIELD(linear_before_reset)
        .set_default(0)
        .describe("GRU: the reset gate after the product");
    WEFT_FIELD(input_forget).set_default(0).describe("LSTM: the forget gate is 1 - the input gate");
  }
};

enum class Cell { kRNN, kGRU, kLSTM };
inline int64_t GatesOf(Cell cell) { return cell == Cell::kRNN ? 1 : cell == Cell::kGRU ? 3 : 4; }

/// 1 or 2; throws kBadAttribute for a direction that there is not.
int64_t DirectionsOf(const NodePtr& n);

/// One of `activations`: an operator by that name, or Affine, a x + b, or ScaledTanh, a tanh(b x).
struct ActivationSpec {
  std::string name;
  double alpha = 0, beta = 0;  ///< where it has them
};
/// Those of the cell in one direction. Throws kBadAttribute where there are too few or ONNX knows
/// none of that name.
std::vector<ActivationSpec> ActivationsOf(const NodePtr& n, Cell cell, int64_t direction);

/// What the operator computes, of `operands` (as many as are given), in their graph.
std::vector<NodeEntry> AsScans(Cell cell, const NodePtr& n, std::vector<NodeEntry> operands);
FDecompose RecurrentDecompose(Cell cell);
FGradient RecurrentGradient(Cell cell);

}  // namespace weft::ops
