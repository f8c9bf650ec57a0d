/// differentiate.h: derivatives of expressions, and of what an element-wise operator computes.
///
/// Derivatives are taken forwards, so that what a select does not choose is not looked at, and
/// cannot bring a NaN along. What depends on a slot through integers, booleans and comparisons, or
/// by Floor, Ceil, Round and Trunc, has none. At a kink (Abs at 0, Min and Max of equal operands)
/// the derivative is the mean of those on both sides, as that of the operators Abs, Max and Min: so
/// a smooth function that is written with kinks, as Softplus is, keeps its derivative. Min and Max
/// of a NaN have 0.
///
/// A narrow float has its derivative in f32: the rounding of a value has the derivative 1.
#pragma once

#include "weft/codegen/expr/expr.h"
#include "weft/core/graph/graph.h"

namespace weft {

/// d e / d Slot(slot), in AccumulatorOf the dtype of `e`; null where it is 0 by structure. Throws
/// kUnsupported where `e` reads the bits of a number that depends on the slot, or takes a product
/// or an extremum over an axis of such.
WEFT_API Expr Differentiate(const Expr& e, int slot);

/// The gradient of operand `wrt` of a node with an element-wise FCodeGen, before it is summed to
/// the operand's shape: the sum over k of dy[k] * d y[k] / d x[wrt], in the dtype of x[wrt]. Null
/// operands are absent, null dy are zeros; null where all is 0 by structure. Throws as
/// Differentiate does.
WEFT_API Expr DifferentiateNode(const NodePtr& node, const Exprs& x, const Exprs& dy, int wrt);

}  // namespace weft
