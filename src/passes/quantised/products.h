/// products.h: products and convolutions of 8-bit numbers, with what becomes of their sums, for the
/// pass Quantised.
#pragma once

#include "weft/core/graph/typed_edit.h"
#include "weft/core/pass/pass.h"

namespace weft::quantised {

/// Each replaces what `n` begins by one internal operator; false where there is nothing to replace.
/// `n` must be in the graph.

/// Conv, MatMul or Gemm of dequantised operands, and, where it alone reads them, a row that is
/// added, Relu, Clip and QuantizeLinear.
bool RewriteDequantised(Graph& g, TypedEdit& edit, PassContext& ctx, const NodePtr& n);
/// QLinearConv and QLinearMatMul.
bool RewriteQLinear(Graph& g, TypedEdit& edit, PassContext& ctx, const NodePtr& n);
/// ConvInteger and MatMulInteger, and, where it alone reads them, Cast to f32, a scale and a row
/// that is added.
bool RewriteInteger(Graph& g, TypedEdit& edit, PassContext& ctx, const NodePtr& n);

}  // namespace weft::quantised
