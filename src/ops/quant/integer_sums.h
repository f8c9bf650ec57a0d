/// integer_sums.h: what products and convolutions of 8-bit integers share: their sums in i32, and
/// the checks of zeros and scales.
#pragma once

#include <vector>

#include "ops/util/convolution.h"

namespace weft::ops {

constexpr DTypeSet kByte = DTypeSet{DType::kI8, DType::kU8};

/// Input i: one number, or, where `rows` is known, one a filter.
void CheckPerFilter(InferShapeContext& ctx, int i, const Shape& rows, const char* what);
/// A zero point is of the dtype of what it belongs to.
void CheckZeroType(InferTypeContext& ctx, int operand, int zero);
/// Element of a scale or a zero, as `t`; null where it is absent.
Expr PerFilter(const std::vector<TensorArg>& in, size_t i, const Expr& filter, DType t);
/// The sum of (x - x_zero) (w - w_zero).
Expr IntegerConvolution(const NodePtr& n, const TensorArg& x, const TensorArg& w,
                        const Expr& x_zero, const Expr& w_zero, const Indices& at);

/// Extents of a matrix product of ranks >= 1, the vectors seen as matrices.
Shape IntegerProductShape(InferShapeContext& ctx, const Shape& a, const Shape& b);
/// Input i of a product, a zero or a scale: one for all, or one for each of `own`; or of the
/// operand's rank, with 1 along the axis that is summed over.
void CheckPerRow(InferShapeContext& ctx, int i, const Shape& operand, SymInt own, bool row);
SymInt RowsOf(const Shape& a);
SymInt ColumnsOf(const Shape& b);
/// sum over k of (a - a_zero) * (b - b_zero) in i32, at the product's index.
Expr IntegerProduct(const TensorArg& a, const TensorArg& b, const TensorArg* a_zero,
                    const TensorArg* b_zero, const Indices& at);

/// Two operations per multiplication: of a convolution by w, of a product by b.
SymInt IntegerConvolutionFlops(const Shape& y, const Shape& w);
SymInt IntegerProductFlops(const Shape& y, const Shape& b);

}  // namespace weft::ops
