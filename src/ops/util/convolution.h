/// convolution.h: what Conv and the convolutions of integers share: attributes, windows, the shape
/// of the result, and the sum over channels and offsets.
#pragma once

#include <functional>

#include "window.h"

namespace weft::ops {

/// What parameters of convolutions declare.
#define WEFT_CONV_FIELDS()                                                                         \
  WEFT_FIELD(auto_pad).set_default("NOTSET").describe("NOTSET, SAME_UPPER, SAME_LOWER or VALID");  \
  WEFT_FIELD(dilations).set_default({}).describe("positive, one a spatial axis; default 1");       \
  WEFT_FIELD(group)                                                                                \
      .set_default(1)                                                                              \
      .set_range(1, INT32_MAX)                                                                     \
      .describe("channels and filters split into this many groups");                               \
  WEFT_FIELD(kernel_shape).set_default({}).describe("must equal the dimensions of W where given"); \
  WEFT_FIELD(pads).set_default({}).describe("all begins, then all ends; default 0");               \
  WEFT_FIELD(strides).set_default({}).describe("positive, one a spatial axis; default 1")

struct ConvParam : OpParam<ConvParam> {
  std::string auto_pad;
  Ints dilations, kernel_shape, pads, strides;
  int64_t group;
  WEFT_OP_PARAM(ConvParam) { WEFT_CONV_FIELDS(); }
};

/// Of a node that has these attributes.
Window ConvWindow(const NodePtr& n, const Shape& x, const Shape& w, const Facts* facts);

/// Sets output 0 of such a node, whose operand 0 is X = [n, C, spatial...]; `w` is the
/// operand W = [M, C/group, kernel...], `bias` one of [M], maybe absent, or -1. Gives [M], of
/// unknown rank where neither X nor W is known. Throws kShapeMismatch, kBadAttribute.
Shape ConvolutionShape(InferShapeContext& ctx, int w, int bias);
/// The sum at position `at` of Y of product(position in X, position in W), 0 outside of X.
Expr ConvolutionSum(const NodePtr& n, const Shape& x, const Shape& w, const Indices& at,
                    const std::function<Expr(const Indices&, const Indices&)>& product);

}  // namespace weft::ops
