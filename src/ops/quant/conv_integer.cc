/// conv_integer.cc: ConvInteger, QLinearConv: convolutions of 8-bit integers, summed in i32.
///
/// Padding is the zero point of x, so what lies outside adds nothing.
#include "integer_sums.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

constexpr DTypeSet kI32Only{DType::kI32};

// ---- ConvInteger ----

void ConvIntegerType(InferTypeContext& ctx) {
  for (int i : {0, 1, 2, 3}) CheckInputType(ctx, i, kByte);
  CheckZeroType(ctx, 0, 2);
  CheckZeroType(ctx, 1, 3);
  ctx.set_out(0, DType::kI32);
}
void ConvIntegerShape(InferShapeContext& ctx) {
  const Shape filters = ConvolutionShape(ctx, 1, -1);
  CheckPerFilter(ctx, 2, Shape(), "x_zero_point");
  if (filters.has_rank()) CheckPerFilter(ctx, 3, filters, "w_zero_point");
}
Exprs ConvIntegerCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const Expr filter = at(0)[1];
  return {IntegerConvolution(n, in[0], in[1], PerFilter(in, 2, filter, DType::kI32),
                             PerFilter(in, 3, filter, DType::kI32), at(0))};
}

// ---- QLinearConv ----

void QLinearConvType(InferTypeContext& ctx) {
  for (int i : {0, 2, 3, 5, 7}) CheckInputType(ctx, i, kByte);
  for (int i : {1, 4, 6}) CheckInputType(ctx, i, DTypeSet{DType::kF32});
  CheckInputType(ctx, 8, kI32Only);
  CheckZeroType(ctx, 0, 2);
  CheckZeroType(ctx, 3, 5);
  if (ctx.in(7).known()) ctx.set_out(0, ctx.in(7));
}
void QLinearConvShape(InferShapeContext& ctx) {
  const Shape filters = ConvolutionShape(ctx, 3, 8);
  for (int i : {1, 2, 6, 7}) CheckPerFilter(ctx, i, Shape(), "a scale or zero of x or y");
  if (!filters.has_rank()) return;
  for (int i : {4, 5}) CheckPerFilter(ctx, i, filters, "a scale or zero of w");
}
Exprs QLinearConvCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const Expr filter = at(0)[1];
  const auto of = [&](size_t i, DType t) { return PerFilter(in, i, filter, t); };
  Expr sum = IntegerConvolution(n, in[0], in[3], of(2, DType::kI32), of(5, DType::kI32), at(0));
  if (HasInput(in, 8)) sum = sum + in[8]({filter});
  const Expr scale = of(1, DType::kF32) * of(4, DType::kF32) / of(6, DType::kF32);
  const Expr q =
      Expr::Unary(UnOp::kRound, Expr::Cast(DType::kF32, sum) * scale) + of(7, DType::kF32);
  return {Expr::Cast(at.dtype[0], q)};  // float to integer saturates
}

}  // namespace

WEFT_REGISTER_OP(ConvInteger)
    .describe(
        "Conv of x - x_zero_point and w - w_zero_point in i32; attributes and errors as of Conv. "
        "Gradient: none. Source: ONNX ConvInteger-10.")
    .input("x", TypeDoc(kByte, "T1"), "[n, C, spatial...]")
    .input("w", TypeDoc(kByte, "T2"), "[M, C/group, kernel...]")
    .optional_input("x_zero_point", "T1", "one")
    .optional_input("w_zero_point", "T2", "one, or one a filter")
    .output("y", "i32", "[n, M, spatial...]")
    .param<ConvParam>()
    .example({"u8[1, 2, 5, 5]", "i8[3, 2, 3, 3]", "u8[] = [3]", "i8[3]"}, "pads = [1, 1, 1, 1]")
    .example({"i8[n, 4, 7]", "u8[4, 2, 3]"}, "group = 2, strides = [2], dilations = [2]")
    .set_attr<FInferType>("FInferType", ConvIntegerType)
    .set_attr<FInferShape>("FInferShape", ConvIntegerShape)
    .set_attr<FCodeGen>("FCodeGen", ConvIntegerCode)
    .set_attr<FGradient>("FGradient", NoGradient)
    .set_attr<FFlops>("FFlops", [](const NodePtr&, const std::vector<Shape>& in,
                                   const std::vector<Shape>& out) {
      return IntegerConvolutionFlops(out.at(0), in.at(1));
    });

WEFT_REGISTER_OP(QLinearConv)
    .describe(
        "y = saturate(round((sum((x - x_zero_point) * (w - w_zero_point)) + B) * x_scale * w_scale "
        "/ y_scale) + y_zero_point), the sum in i32, ties to the even neighbour; attributes and "
        "errors as of Conv.\nGradient: none. Source: ONNX QLinearConv-10.")
    .input("x", TypeDoc(kByte, "T1"), "[n, C, spatial...]")
    .input("x_scale", "f32", "one")
    .input("x_zero_point", "T1", "one")
    .input("w", TypeDoc(kByte, "T2"), "[M, C/group, kernel...]")
    .input("w_scale", "f32", "one, or one a filter")
    .input("w_zero_point", "T2", "one, or one a filter")
    .input("y_scale", "f32", "one")
    .input("y_zero_point", TypeDoc(kByte, "T3"), "one")
    .optional_input("B", "i32", "[M], in units of x_scale * w_scale")
    .output("y", "T3", "[n, M, spatial...]")
    .param<ConvParam>()
    .example({"u8[1, 2, 5, 5]", "f32[] = [0.5]", "u8[] = [3]", "i8[3, 2, 3, 3]", "f32[3]", "i8[3]",
              "f32[] = [2]", "u8[] = [9]", "i32[3]"},
             "pads = [1, 1, 1, 1]")
    .example({"i8[n, 4, 7]", "f32[]", "i8[]", "i8[4, 2, 3]", "f32[]", "i8[]", "f32[]", "i8[]"},
             "group = 2, strides = [2]")
    .set_attr<FInferType>("FInferType", QLinearConvType)
    .set_attr<FInferShape>("FInferShape", QLinearConvShape)
    .set_attr<FCodeGen>("FCodeGen", QLinearConvCode)
    .set_attr<FGradient>("FGradient", NoGradient)
    .set_attr<FFlops>("FFlops",
                      [](const NodePtr&, const std::vector<Shape>& in,
                         const std::vector<Shape>& out) {
                        return IntegerConvolutionFlops(out.at(0), in.at(3));
                      })
    .set_attr<FInputDomains>("FInputDomains", Domains({Any(), Positive(), Any(), Any(), Positive(),
                                                       Any(), Positive(), Any(), Any()}));

}  // namespace weft::ops
