/// arg_reduce.cc: ArgMax and ArgMin: positions of extrema along one axis.
#include "ops/util/demand.h"

namespace weft::ops {
namespace {

struct ArgReduceParam : OpParam<ArgReduceParam> {
  int64_t axis, keepdims, select_last_index;
  WEFT_OP_PARAM(ArgReduceParam) {
    WEFT_FIELD(axis).set_default(0).describe("in [-rank, rank)");
    WEFT_FIELD(keepdims).set_default(1).set_range(0, 1).describe("1: the axis stays with size 1");
    WEFT_FIELD(select_last_index)
        .set_default(0)
        .set_range(0, 1)
        .describe("of equal extrema: 0 the first, 1 the last");
  }
};
WEFT_REGISTER_OP_PARAM(ArgReduceParam);

void ArgType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kNumeric);
  ctx.set_out(0, DType::kI64);
}
void ArgShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<ArgReduceParam>(ctx.node());
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  const int axis = AxisOf(p.axis, x.rank(), ctx.node());
  DemandAtLeast(ctx, x[axis], 1, "the size of the axis");
  std::vector<SymInt> dims = x.dims();
  if (p.keepdims)
    dims[size_t(axis)] = 1;
  else
    dims.erase(dims.begin() + axis);
  ctx.set_out(0, Shape(std::move(dims)));
}
FCodeGen ArgCode(ReduceOp op) {
  return [op](const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) -> Exprs {
    const auto& p = ParamOf<ArgReduceParam>(n);
    const TensorArg& x = in[0];
    const int axis = AxisOf(p.axis, x.rank(), n);
    Indices from = at(0);
    if (!p.keepdims) from.insert(from.begin() + axis, Expr::Int(0));
    const Expr last = x.dim(axis) - Expr::Int(1);
    // The last extremum is the first one of the axis read backward.
    const Expr position = Expr::Reduce(op, {x.shape[axis]}, [&](const Indices& r) {
      from[size_t(axis)] = p.select_last_index ? last - r[0] : r[0];
      return Expr::Cast(AccumulatorOf(x.dtype), x(from));
    });
    return {p.select_last_index ? last - position : position};
  };
}

}  // namespace

#define WEFT_REGISTER_ARG(Name, What, Op)                                           \
  WEFT_REGISTER_OP(Name)                                                            \
      .describe("Position of the " What                                             \
                " along `axis`, i64; NaN counts as the extremum. Gradient: none.\n" \
                "Errors: axis out of range (kBadAttribute), an axis of size 0 "     \
                "(kShapeMismatch). Source: ONNX " #Name "-13.")                     \
      .input("data", TypeDoc(kNumeric))                                             \
      .output("reduced", "i64")                                                     \
      .param<ArgReduceParam>()                                                      \
      .example({"f32[2, 5]"}, "axis = 1")                                           \
      .example({"i32[n, 4]"}, "axis = -1, keepdims = 0, select_last_index = 1")     \
      .set_attr<FInferType>("FInferType", ArgType)                                  \
      .set_attr<FInferShape>("FInferShape", ArgShape)                               \
      .set_attr<FCodeGen>("FCodeGen", ArgCode(Op))                                  \
      .set_attr<FGradient>("FGradient", NoGradient)

WEFT_REGISTER_ARG(ArgMax, "maximum", ReduceOp::kArgMax);
WEFT_REGISTER_ARG(ArgMin, "minimum", ReduceOp::kArgMin);

}  // namespace weft::ops
