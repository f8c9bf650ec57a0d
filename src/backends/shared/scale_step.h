/// scale_step.h: steps of an epilogue that multiply by a constant or add one; for every backend.
#pragma once

#include <cmath>
#include <optional>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph.h"

namespace weft {

/// Value of a constant of one element behind input i; `otherwise` where the input is absent.
inline std::optional<float> ScalarAt(const NodePtr& n, size_t i, float otherwise) {
  if (i >= n->num_inputs() || !n->inputs[i].node) return otherwise;
  const TensorPtr t = Graph::ConstantOf(n->inputs[i]);
  if (!t || t->num_elements() != 1) return std::nullopt;
  return float(t->at(0));
}

/// What the step multiplies its input `slot` by.
inline std::optional<float> FactorOf(const NodePtr& n, int slot) {
  const bool divides = IsOp(n, "Div") && slot == 0;
  if (!divides && !IsOp(n, "Mul")) return std::nullopt;
  const auto value = ScalarAt(n, size_t(1 - slot), 1);
  if (!value || !divides) return value;
  const float inverse = 1 / *value;
  return std::isfinite(inverse) ? std::optional(inverse) : std::nullopt;
}

/// What the step adds to its input `slot`.
inline std::optional<float> OffsetOf(const NodePtr& n, int slot) {
  const bool subtracts = IsOp(n, "Sub") && slot == 0;
  if (!subtracts && !IsOp(n, "Add")) return std::nullopt;
  const auto value = ScalarAt(n, size_t(1 - slot), 0);
  return value && subtracts ? std::optional(-*value) : value;
}

}  // namespace weft
