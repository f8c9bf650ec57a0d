/// arg_reduce.cc: ArgMax, ArgMin (positions of extrema) and CumSum (running sums) along one axis.
#include "ops/util/demand.h"
#include "weft/support/check.h"

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

struct CumSumParam : OpParam<CumSumParam> {
  int64_t exclusive, reverse;
  WEFT_OP_PARAM(CumSumParam) {
    WEFT_FIELD(exclusive).set_default(0).set_range(0, 1).describe(
        "1: the element itself is left out");
    WEFT_FIELD(reverse).set_default(0).set_range(0, 1).describe("1: sums run from the end");
  }
};
WEFT_REGISTER_OP_PARAM(CumSumParam);

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

void CumSumType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kNumeric);
  CheckInputType(ctx, 1, kIndexTypes);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}
void CumSumShape(InferShapeContext& ctx) {
  UnaryShape(ctx);
  const auto& p = ParamOf<CumSumParam>(ctx.node());
  const auto axis = InputInts(ctx, 1);
  WEFT_CHECK(!axis || axis->size() == 1, kShapeMismatch, "{}: the axis has {} elements",
             ctx.node()->Describe(), axis ? axis->size() : 0);
  if (axis && ctx.in(0).has_rank()) AxisOf(axis->at(0), ctx.in(0).rank(), ctx.node());
  const SymTensorPtr v = InputValue(ctx, 0);
  if (!v || v->dims.size() != 1 || p.reverse) return;
  // SetValue asks for elements in order; one overflow leaves all that follow unknown.
  SymInt before = 0, sum = 0;
  SetValue(ctx, 0, ctx.in(0), [&](int64_t i) {
    before = sum;
    sum = SymInt();
    sum = before + v->elements.at(size_t(i));
    return p.exclusive ? before : sum;
  });
}
Exprs CumSumCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<CumSumParam>(n);
  const TensorArg& x = in[0];
  const size_t axis = size_t(AxisOf(KnownInts(n, in[1], "the axis").at(0), x.rank(), n));
  const Expr i = at(0)[axis];
  const Expr sum = SumOver({x.shape[int(axis)]}, [&](const Indices& r) {
    Indices from = at(0);
    from[axis] = r[0];
    const Expr lo = p.reverse ? i : r[0], hi = p.reverse ? r[0] : i;
    return Expr::Select(p.exclusive ? Lt(lo, hi) : Le(lo, hi), x(from), Zero(x.dtype));
  });
  return {sum};
}
std::vector<NodeEntry> CumSumGrad(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry(), NodeEntry()};
  const auto& p = ParamOf<CumSumParam>(n);
  return {Apply("CumSum", {dy[0], n->inputs[1]},
                {{"exclusive", p.exclusive}, {"reverse", 1 - p.reverse}}),
          NodeEntry()};
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
      .set_num_inputs(1)                                                            \
      .set_num_outputs(1)                                                           \
      .param<ArgReduceParam>()                                                      \
      .example({"f32[2, 5]"}, "axis = 1")                                           \
      .example({"i32[n, 4]"}, "axis = -1, keepdims = 0, select_last_index = 1")     \
      .set_attr<FInferType>("FInferType", ArgType)                                  \
      .set_attr<FInferShape>("FInferShape", ArgShape)                               \
      .set_attr<FCodeGen>("FCodeGen", ArgCode(Op))                                  \
      .set_attr<FGradient>("FGradient", NoGradient)

WEFT_REGISTER_ARG(ArgMax, "maximum", ReduceOp::kArgMax);
WEFT_REGISTER_ARG(ArgMin, "minimum", ReduceOp::kArgMin);

WEFT_REGISTER_OP(CumSum)
    .describe(
        "y[i] = sum of x[j] over j <= i along the axis (j < i with `exclusive`; from the end with "
        "`reverse`). The definition is quadratic in the size; on cpu a library call walks "
        "once. Gradient: CumSum of dy in the other direction.\n"
        "Errors: axis out of range (kBadAttribute), not constant (kUnsupported when code is made). "
        "Source: ONNX CumSum-14.")
    .input("x", TypeDoc(kNumeric))
    .input("axis", TypeDoc(kIndexTypes, "T2"), "scalar in [-rank, rank)")
    .output("y", "T")
    .set_num_inputs(2)
    .set_num_outputs(1)
    .param<CumSumParam>()
    .example({"f32[2, 5]", "i64[] = [1]"})
    .example({"f32[n]", "i64[] = [0]"}, "exclusive = 1, reverse = 1")
    .set_attr<FInferType>("FInferType", CumSumType)
    .set_attr<FInferShape>("FInferShape", CumSumShape)
    .set_attr<FCodeGen>("FCodeGen", CumSumCode)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .set_attr<FGradient>("FGradient", CumSumGrad);

}  // namespace weft::ops
