/// quantized_operands.cc: see quantized_operands.h.
#include "weft/core/op/quantized_operands.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "weft/core/graph/accessors.h"
#include "weft/core/graph/builtin_ops.h"

namespace weft {
namespace {

/// A constant of f32 with at least `rank` axes.
bool IsWeight(const NodeEntry& e, int rank) {
  const TensorPtr t = e.node ? Graph::ConstantOf(e) : nullptr;
  return t && t->is_tensor() && t->dtype() == DType::kF32 && t->rank() >= rank &&
         t->num_elements() > 0;
}
bool IsActivation(const NodeEntry& e) { return e.node && !Graph::ConstantOf(e); }

bool IsRead(const NodePtr& n, uint32_t output) {
  return std::any_of(n->uses().begin(), n->uses().end(), [&](const Use& u) {
    return !u.control && u.user->inputs[u.slot].index == output;
  });
}

}  // namespace

std::optional<QuantizedOperands> QuantizedOperandsOf(const NodePtr& n) {
  if (n->is_variable() || n->num_inputs() < 2) return std::nullopt;
  QuantizedOperands q;
  if (IsOp(n, "Add")) {
    if (!IsActivation(n->inputs[0]) || !IsActivation(n->inputs[1])) return std::nullopt;
    q.activations = {0, 1};
    return q;
  }
  const bool conv = IsOp(n, "Conv"), gemm = IsOp(n, "Gemm");
  if (!conv && !gemm && !IsOp(n, "MatMul")) return std::nullopt;
  if (!IsActivation(n->inputs[0]) || !IsWeight(n->inputs[1], conv ? 3 : 2)) return std::nullopt;
  const int rank = Graph::ConstantOf(n->inputs[1])->rank();
  q.activations = {0};
  q.weight = 1;
  if (!IsOp(n, "MatMul") && InputOf(n, 2).node) q.bias = 2;
  if (conv) {
    q.weight_axis = 0;
    q.summed_axis = q.channel_axis = 1;
    return q;
  }
  const bool turned = gemm && n->attr<int64_t>("transB") != 0;
  q.weight_axis = turned ? rank - 2 : rank - 1;
  q.summed_axis = turned ? rank - 1 : rank - 2;
  q.channel_axis = gemm && n->attr<int64_t>("transA") != 0 ? -2 : -1;
  return q;
}

bool MovesElements(const NodePtr& n, size_t* data) {
  static constexpr std::array<std::string_view, 12> kOfFirst{
      "DepthToSpace", "Expand",       "Flatten", "Identity", "MaxPool",   "Reshape",
      "Slice",        "SpaceToDepth", "Squeeze", "Tile",     "Transpose", "Unsqueeze"};
  *data = 1;
  for (std::string_view op : kOfFirst)
    if (IsOp(n, op)) return !IsOp(n, "MaxPool") || !IsRead(n, 1);
  *data = n->num_inputs();
  return IsOp(n, "Concat");
}

}  // namespace weft
