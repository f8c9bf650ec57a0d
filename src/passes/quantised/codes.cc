/// codes.cc: see codes.h.
#include "codes.h"

#include <algorithm>
#include <cmath>

#include "weft/core/graph/accessors.h"
#include "weft/core/graph/builtin_ops.h"

namespace weft::quantised {
namespace {

bool IsByte(DType t) { return t == DType::kU8 || t == DType::kI8; }

/// Of a node QuantizeLinear or DequantizeLinear over a tensor of `rank`.
std::optional<Scaling> ScalingBy(const TypedEdit& edit, const NodePtr& n, DType dtype, int rank) {
  if (n->attr<int64_t>("block_size") != 0 || edit.dtype(n->inputs[1]) != DType::kF32)
    return std::nullopt;
  int64_t axis = n->attr<int64_t>("axis");
  if (axis < 0) axis += rank;
  return ScalingOf(n->inputs[1], InputOf(n, 2), dtype, axis);
}

}  // namespace

std::optional<Scaling> ScalingOf(const NodeEntry& scale, const NodeEntry& zero, DType dtype,
                                 int64_t axis) {
  const TensorPtr s = Graph::ConstantOf(scale);
  if (!s || s->dtype() != DType::kF32 || s->rank() > 1 || s->num_elements() == 0)
    return std::nullopt;
  Scaling by;
  by.dtype = dtype;
  by.axis = axis;
  by.scale.assign(s->data_as<float>(), s->data_as<float>() + s->num_elements());
  const auto right = [](float v) { return v > 0 && std::isfinite(v); };
  if (!std::all_of(by.scale.begin(), by.scale.end(), right)) return std::nullopt;
  by.zero = {0};
  if (!zero.node) return by;
  const TensorPtr z = Graph::ConstantOf(zero);
  if (!z || z->dtype() != dtype || z->num_elements() != s->num_elements()) return std::nullopt;
  by.zero_entry = zero;
  by.zero.clear();
  for (int64_t i = 0; i < z->num_elements(); ++i) by.zero.push_back(int64_t(z->at(i)));
  if (std::all_of(by.zero.begin(), by.zero.end(), [](int64_t v) { return v == 0; })) {
    by.zero = {0};
    by.zero_entry = {};
  }
  return by;
}

std::optional<Codes> CodesOf(const TypedEdit& edit, const NodeEntry& e) {
  if (!e.node || e.node->is_variable() || !IsOp(e.node, "DequantizeLinear")) return std::nullopt;
  const NodeEntry codes = e.node->inputs[0];
  const DType t = edit.dtype(codes);
  if ((!IsByte(t) && t != DType::kI32) || edit.dtype(e) != DType::kF32 ||
      !edit.shape(codes).has_rank())
    return std::nullopt;
  auto by = ScalingBy(edit, e.node, t, edit.shape(codes).rank());
  return by ? std::optional(Codes{codes, *by}) : std::nullopt;
}

std::optional<Rounded> RoundedBy(const TypedEdit& edit, const NodePtr& n) {
  if (!n || n->is_variable() || !IsOp(n, "QuantizeLinear")) return std::nullopt;
  const NodeEntry x = n->inputs[0];
  const DType t = edit.dtype(NodeEntry(n));
  const DType precision = n->attr<DType>("precision");
  if (!IsByte(t) || edit.dtype(x) != DType::kF32 || !edit.shape(x).has_rank() ||
      (precision != DType::kUnknown && precision != DType::kF32))
    return std::nullopt;
  auto by = ScalingBy(edit, n, t, edit.shape(x).rank());
  return by ? std::optional(Rounded{x, *by}) : std::nullopt;
}

Bounds BoundsOf(DType dtype) { return dtype == DType::kI8 ? Bounds{-128, 127} : Bounds{0, 255}; }

int64_t Quantise(float x, const Scaling& by) {
  const Bounds b = BoundsOf(by.dtype);
  const float q = std::nearbyint(x / by.scale[0]) + float(by.zero[0]);
  if (std::isnan(q)) return 0;
  return int64_t(std::clamp(q, float(b.low), float(b.high)));
}

}  // namespace weft::quantised
