/// softmax.cc: Softmax and LogSoftmax along one axis, shifted by the row's maximum so that nothing
/// overflows; Hardmax, 1 at the first maximum of the axis.
#include "ops/util/shape_util.h"

namespace weft::ops {
namespace {

struct SoftmaxParam : OpParam<SoftmaxParam> {
  int64_t axis;
  WEFT_OP_PARAM(SoftmaxParam) { WEFT_FIELD(axis).set_default(-1).describe("in [-rank, rank)"); }
};
WEFT_REGISTER_OP_PARAM(SoftmaxParam);

void AxisShape(InferShapeContext& ctx) {
  if (ctx.in(0).has_rank())
    AxisOf(ParamOf<SoftmaxParam>(ctx.node()).axis, ctx.in(0).rank(), ctx.node());
  UnaryShape(ctx);
}

/// x - max and the sum of its exponentials along the axis, in the accumulator's dtype.
std::pair<Expr, Expr> Row(const NodePtr& n, const TensorArg& x, const Indices& at) {
  const size_t axis = size_t(AxisOf(ParamOf<SoftmaxParam>(n).axis, x.rank(), n));
  const std::vector<SymInt> extent{x.shape[int(axis)]};
  auto read = [&](const Expr& i) {
    Indices from = at;
    from[axis] = i;
    return Expr::Cast(AccumulatorOf(x.dtype), x(from));
  };
  const Expr max =
      Expr::Reduce(ReduceOp::kMax, extent, [&](const Indices& r) { return read(r[0]); });
  const Expr sum = Expr::Reduce(ReduceOp::kSum, extent, [&](const Indices& r) {
    return CallMath(CallOp::kExp, read(r[0]) - max);
  });
  return {read(at[axis]) - max, sum};
}
Exprs SoftmaxCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto [x, sum] = Row(n, in[0], at(0));
  // One division a row: those of all elements would take as long as their exponentials.
  return {
      Expr::Cast(in[0].dtype, CallMath(CallOp::kExp, x) * (Expr::Const(sum->dtype(), 1) / sum))};
}
Exprs LogSoftmaxCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto [x, sum] = Row(n, in[0], at(0));
  return {Expr::Cast(in[0].dtype, x - CallMath(CallOp::kLog, sum))};
}
Exprs HardmaxCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const size_t axis = size_t(AxisOf(ParamOf<SoftmaxParam>(n).axis, x.rank(), n));
  const Expr first = Expr::Reduce(ReduceOp::kArgMax, {x.shape[int(axis)]}, [&](const Indices& r) {
    Indices from = at(0);
    from[axis] = r[0];
    return Expr::Cast(AccumulatorOf(x.dtype), x(from));
  });
  return {Expr::Select(Eq(first, at(0)[axis]), Expr::ConstInt(x.dtype, 1), Zero(x.dtype))};
}
NodeEntry SumOnAxis(const NodePtr& n, const NodeEntry& e) {
  return ApplyOp("ReduceSum", {e, IntsLike(e, {ParamOf<SoftmaxParam>(n).axis})}, {{"keepdims", 1}});
}
SymInt Flops(const NodePtr&, const std::vector<Shape>&, const std::vector<Shape>& out) {
  return out.at(0).num_elements() * 5;
}

}  // namespace

WEFT_REGISTER_OP(Softmax)
    .describe(
        "y = exp(x - max) / sum(exp(x - max)) along `axis`; a row of -inf gives NaN. f16 and bf16 "
        "compute in f32.\n"
        "Gradient: dx = (dy - sum(dy y)) y; keeps y. Errors: axis out of range (kBadAttribute). "
        "Source: ONNX Softmax-13.")
    .input("input", TypeDoc(kFloats))
    .output("output", "T")
    .param<SoftmaxParam>()
    .example({"f32[2, 5]"})
    .example({"f32[n, 3, 2]"}, "axis = 1")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", AxisShape)
    .set_attr<FCodeGen>("FCodeGen", SoftmaxCode)
    .set_attr<FGradient>("FGradient",
                         UnaryNodeGradient([](const NodePtr& n, const NodeEntry&,
                                              const NodeEntry& y, const NodeEntry& dy) {
                           return (dy - SumOnAxis(n, dy * y)) * y;
                         }))
    .set_attr<FInplace>("FInplace", InplaceOf({0}))
    .set_attr<FFlops>("FFlops", Flops);

WEFT_REGISTER_OP(LogSoftmax)
    .describe(
        "y = x - max - log(sum(exp(x - max))) along `axis`. f16 and bf16 compute in f32.\n"
        "Gradient: dx = dy - exp(y) sum(dy); keeps y. Errors: axis out of range (kBadAttribute). "
        "Source: ONNX LogSoftmax-13.")
    .input("input", TypeDoc(kFloats))
    .output("output", "T")
    .param<SoftmaxParam>()
    .example({"f32[2, 5]"})
    .example({"f32[n, 3, 2]"}, "axis = 1")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", AxisShape)
    .set_attr<FCodeGen>("FCodeGen", LogSoftmaxCode)
    .set_attr<FGradient>("FGradient",
                         UnaryNodeGradient([](const NodePtr& n, const NodeEntry&,
                                              const NodeEntry& y, const NodeEntry& dy) {
                           return dy - ApplyOp("Exp", {y}) * SumOnAxis(n, dy);
                         }))
    .set_attr<FInplace>("FInplace", InplaceOf({0}))
    .set_attr<FFlops>("FFlops", Flops);

WEFT_REGISTER_OP(Hardmax)
    .describe(
        "1 at the first maximum along `axis`, 0 elsewhere. Gradient: none. Source: ONNX "
        "Hardmax-13.")
    .input("input", TypeDoc(kFloats))
    .output("output", "T", "the shape of input")
    .param<SoftmaxParam>()
    .example({"f32[2, 5]"})
    .example({"f32[n, 3]"}, "axis = 0")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", AxisShape)
    .set_attr<FCodeGen>("FCodeGen", HardmaxCode)
    .set_attr<FGradient>("FGradient", NoGradient);

}  // namespace weft::ops
