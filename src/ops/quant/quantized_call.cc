/// quantized_call.cc: weft::QuantizedConv and weft::QuantizedMatMul, products of 8-bit integers and
/// what becomes of their sums, as one library call.
///
///   x, w          u8 or i8; w as of Conv, or the right side of a MatMul
///   scale         f32, one or one a filter (column); absent only for results in i32
///   x_zero        one; w_zero one, or one a filter (column)
///   bias          i32[filters], added to the sum
///   offset        f32[filters], added behind the scale
///   y             `to`: i32, f32, u8 or i8
///
///   sum = sum of (x - x_zero) (w - w_zero), + bias       exact in i32, wraps beyond it
///   i32     y = sum
///   f32     y = f32(sum) * scale, + offset               each operation rounds to f32
///   u8, i8  y = clamp(round(f32(sum) * scale, + offset) + zero, low, high), ties to even
///
/// Without an offset, and with scale = x_scale * w_scale / y_scale, that is QLinearConv and
/// QLinearMatMul to the last bit; Relu and Clip before the rounding are bounds behind it.
/// Gradient: none. Errors: those of Conv and MatMul; zeros of other dtypes than what they belong to
/// (kTypeMismatch). Source: Weft; the pass Quantised makes them.
#include "integer_sums.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

enum Operand : int { kX, kW, kScale, kXZero, kWZero, kBias, kOffset };
constexpr DTypeSet kResults = kByte | DTypeSet{DType::kI32, DType::kF32};
constexpr DTypeSet kF32Only{DType::kF32}, kI32Only{DType::kI32};

#define WEFT_FINISH_FIELDS()                                                                 \
  WEFT_FIELD(to).set_default({DType::kI32}).describe("dtype of the result");                 \
  WEFT_FIELD(zero).set_default(0).set_range(-128, 255).describe("zero point of a u8 or i8"); \
  WEFT_FIELD(low).set_default(-128).set_range(-128, 255).describe("least u8 or i8 result");  \
  WEFT_FIELD(high).set_default(255).set_range(-128, 255).describe("greatest u8 or i8 result")

struct QuantizedMatMulParam : OpParam<QuantizedMatMulParam> {
  int64_t zero, low, high;
  DTypeField to;
  WEFT_OP_PARAM(QuantizedMatMulParam) { WEFT_FINISH_FIELDS(); }
};
WEFT_REGISTER_OP_PARAM(QuantizedMatMulParam);

struct QuantizedConvParam : OpParam<QuantizedConvParam> {
  std::string auto_pad;
  Ints dilations, kernel_shape, pads, strides;
  int64_t group, zero, low, high;
  DTypeField to;
  WEFT_OP_PARAM(QuantizedConvParam) {
    WEFT_CONV_FIELDS();
    WEFT_FINISH_FIELDS();
  }
};
WEFT_REGISTER_OP_PARAM(QuantizedConvParam);

template <class Param>
void QuantizedType(InferTypeContext& ctx) {
  const DType to = ParamOf<Param>(ctx.node()).to.dtype;
  WEFT_CHECK(kResults.has(to), kBadAttribute, "{}: a result of {}", ctx.node()->Describe(),
             DTypeName(to));
  for (int i : {kX, kW, kXZero, kWZero}) CheckInputType(ctx, i, kByte);
  for (int i : {kScale, kOffset}) CheckInputType(ctx, i, kF32Only);
  CheckInputType(ctx, kBias, kI32Only);
  CheckZeroType(ctx, kX, kXZero);
  CheckZeroType(ctx, kW, kWZero);
  ctx.set_out(0, to);
}

Expr OfFilter(const std::vector<TensorArg>& in, Operand i, const Expr& filter, DType t) {
  return PerFilter(in, size_t(i), filter, t);
}

/// What becomes of a sum.
template <class Param>
Expr Finished(const NodePtr& n, const std::vector<TensorArg>& in, Expr sum, const Expr& filter) {
  const auto& p = ParamOf<Param>(n);
  if (const Expr bias = OfFilter(in, kBias, filter, DType::kI32)) sum = sum + bias;
  if (p.to.dtype == DType::kI32) return sum;
  Expr y = Expr::Cast(DType::kF32, sum);
  if (const Expr scale = OfFilter(in, kScale, filter, DType::kF32)) y = y * scale;
  if (const Expr offset = OfFilter(in, kOffset, filter, DType::kF32)) y = y + offset;
  if (p.to.dtype == DType::kF32) return y;
  const auto number = [](int64_t v) { return Expr::Const(DType::kF32, double(v)); };
  y = Expr::Unary(UnOp::kRound, y) + number(p.zero);
  y = Min(Max(y, number(p.low)), number(p.high));
  return Expr::Cast(p.to.dtype, y);  // float to integer saturates
}

void QuantizedConvShape(InferShapeContext& ctx) {
  const Shape filters = ConvolutionShape(ctx, kW, kBias);
  CheckPerFilter(ctx, kXZero, Shape(), "the zero of x");
  if (!filters.has_rank()) return;
  for (int i : {kScale, kWZero, kOffset})
    CheckPerFilter(ctx, i, filters, "a scale, zero or offset");
}
Exprs QuantizedConvCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const Expr filter = at(0)[1];
  return {Finished<QuantizedConvParam>(
      n, in,
      IntegerConvolution(n, in[kX], in[kW], OfFilter(in, kXZero, filter, DType::kI32),
                         OfFilter(in, kWZero, filter, DType::kI32), at(0)),
      filter)};
}

void QuantizedMatMulShape(InferShapeContext& ctx) {
  const Shape &a = ctx.in(kX), &b = ctx.in(kW);
  if (!a.has_rank() || !b.has_rank()) return Unknown(ctx, 0, "the rank of an operand is unknown");
  const Shape columns({ColumnsOf(b)});
  CheckPerFilter(ctx, kXZero, Shape(), "the zero of x");
  for (int i : {kScale, kWZero, kBias, kOffset})
    CheckPerFilter(ctx, i, columns, "a scale, zero, bias or offset");
  ctx.set_out(0, IntegerProductShape(ctx, a, b));
}
Exprs QuantizedMatMulCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto given = [&](Operand i) { return HasInput(in, size_t(i)) ? &in[size_t(i)] : nullptr; };
  const Expr column = in[kW].rank() > 1 ? at(0).back() : Expr::Int(0);
  return {Finished<QuantizedMatMulParam>(
      n, in, IntegerProduct(in[kX], in[kW], given(kXZero), given(kWZero), at(0)), column)};
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, QuantizedConv)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .describe(
        "sum = sum((x - x_zero) * (w - w_zero)) + bias in i32; y is the sum, f32(sum) * scale + "
        "offset, or that rounded (ties to the even neighbour), plus `zero`, within [low, high]; "
        "attributes and errors as of Conv.\nGradient: none. Source: Weft; the pass Quantised "
        "makes it.")
    .input("x", TypeDoc(kByte, "T1"), "[n, C, spatial...]")
    .input("w", TypeDoc(kByte, "T2"), "[M, C/group, kernel...]")
    .optional_input("scale", "f32", "one, or one a filter")
    .optional_input("x_zero", "T1", "one")
    .optional_input("w_zero", "T2", "one, or one a filter")
    .optional_input("bias", "i32", "[M]")
    .optional_input("offset", "f32", "one, or one a filter")
    .output("y", TypeDoc(kResults), "[n, M, spatial...]")
    .param<QuantizedConvParam>()
    .example({"u8[1, 2, 5, 5]", "i8[3, 2, 3, 3]", "f32[3]", "u8[] = [3]", "i8[3]", "i32[3]"},
             "pads = [1, 1, 1, 1], to = f32")
    .example({"i8[n, 4, 7]", "u8[4, 2, 3]"}, "group = 2, strides = [2], dilations = [2]")
    .example({"u8[2, 3, 5, 4]", "i8[3, 1, 2, 2]", "f32[1] = [0.001]"},
             "group = 3, to = u8, zero = 7, low = 7, high = 250")
    .set_attr<FInferType>("FInferType", QuantizedType<QuantizedConvParam>)
    .set_attr<FInferShape>("FInferShape", QuantizedConvShape)
    .set_attr<FCodeGen>("FCodeGen", QuantizedConvCode)
    .set_attr<FGradient>("FGradient", NoGradient)
    .set_attr<FFlops>("FFlops", [](const NodePtr&, const std::vector<Shape>& in,
                                   const std::vector<Shape>& out) {
      return IntegerConvolutionFlops(out.at(0), in.at(kW));
    });

WEFT_REGISTER_OP_IN(weft, QuantizedMatMul)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .describe(
        "sum = sum((x - x_zero) * (w - w_zero)) + bias in i32, over the inner dimension; y is the "
        "sum, f32(sum) * scale + offset, or that rounded (ties to the even neighbour), plus "
        "`zero`, within [low, high]; shapes as of MatMul.\nGradient: none. Errors: those of "
        "MatMul; another dtype of a result (kBadAttribute); a zero of another dtype than what it "
        "belongs to (kTypeMismatch). Source: Weft; the pass Quantised makes it.")
    .input("x", TypeDoc(kByte, "T1"))
    .input("w", TypeDoc(kByte, "T2"))
    .optional_input("scale", "f32", "one, or one a column of w")
    .optional_input("x_zero", "T1", "one")
    .optional_input("w_zero", "T2", "one, or one a column of w")
    .optional_input("bias", "i32", "one, or one a column of w")
    .optional_input("offset", "f32", "one, or one a column of w")
    .output("y", TypeDoc(kResults))
    .param<QuantizedMatMulParam>()
    .example({"u8[2, 3]", "i8[3, n]", "f32[]", "u8[] = [3]"}, "to = f32")
    .example({"i8[2, 2, 3]", "i8[3]"})
    .example({"i8[2, 5]", "u8[5, 4]", "f32[4]", "i8[]", "u8[4]", "i32[4]", "f32[4]"}, "to = i8")
    .set_attr<FInferType>("FInferType", QuantizedType<QuantizedMatMulParam>)
    .set_attr<FInferShape>("FInferShape", QuantizedMatMulShape)
    .set_attr<FCodeGen>("FCodeGen", QuantizedMatMulCode)
    .set_attr<FGradient>("FGradient", NoGradient)
    .set_attr<FFlops>("FFlops", [](const NodePtr&, const std::vector<Shape>& in,
                                   const std::vector<Shape>& out) {
      return IntegerProductFlops(out.at(0), in.at(kW));
    });

}  // namespace weft::ops
