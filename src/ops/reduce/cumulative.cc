/// cumulative.cc: CumSum and CumProd: running sums and products along one axis.
/// Their definitions are quadratic in its size, so a library call that walks it once is sought.
#include "ops/util/shape_util.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct CumulativeParam : OpParam<CumulativeParam> {
  int64_t exclusive, reverse;
  WEFT_OP_PARAM(CumulativeParam) {
    WEFT_FIELD(exclusive).set_default(0).set_range(0, 1).describe(
        "1: the element itself is left out");
    WEFT_FIELD(reverse).set_default(0).set_range(0, 1).describe("1: it runs from the end");
  }
};
WEFT_REGISTER_OP_PARAM(CumulativeParam);

void CumulativeShape(InferShapeContext& ctx) {
  UnaryShape(ctx);
  const auto axis = InputInts(ctx, 1);
  WEFT_CHECK(!axis || axis->size() == 1, kShapeMismatch, "{}: the axis has {} elements",
             ctx.node()->Describe(), axis ? axis->size() : 0);
  if (axis && ctx.in(0).has_rank()) AxisOf(axis->at(0), ctx.in(0).rank(), ctx.node());
}

// ---- CumSum ----

void CumSumType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kNumeric);
  CheckInputType(ctx, 1, kIndexTypes);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}
void CumSumShape(InferShapeContext& ctx) {
  CumulativeShape(ctx);
  const auto& p = ParamOf<CumulativeParam>(ctx.node());
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
  const auto& p = ParamOf<CumulativeParam>(n);
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
  const auto& p = ParamOf<CumulativeParam>(n);
  return {ApplyOp("CumSum", {dy[0], n->inputs[1]},
                  {{"exclusive", p.exclusive}, {"reverse", 1 - p.reverse}}),
          NodeEntry()};
}

// ---- CumProd ----

constexpr DTypeSet kCumulative =
    kFloats | DTypeSet{DType::kI32, DType::kI64, DType::kU32, DType::kU64};

Exprs CumProdCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<CumulativeParam>(n);
  const TensorArg& x = in[0];
  const size_t axis = size_t(AxisOf(KnownInts(n, in[1], "the axis").at(0), x.rank(), n));
  const Expr i = at(0)[axis];
  const DType c = AccumulatorOf(x.dtype);
  return {Expr::Cast(x.dtype,
                     Expr::Reduce(ReduceOp::kProd, {x.shape[int(axis)]}, [&](const Indices& r) {
                       Indices from = at(0);
                       from[axis] = r[0];
                       const Expr lo = p.reverse ? i : r[0];
                       const Expr hi = p.reverse ? r[0] : i;
                       return Expr::Select(p.exclusive ? Lt(lo, hi) : Le(lo, hi),
                                           Expr::Cast(c, x(from)), Expr::ConstInt(c, 1));
                     }))};
}
/// dx = (sum of dy * y over what x takes part in) / x where x is not 0. At the first 0 of a line
/// the same sum with the products taken as if it were 1; at the others 0, since the first stays.
std::vector<NodeEntry> CumProdGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  if (!dys[0]) return {NodeEntry(), NodeEntry()};
  const auto& p = ParamOf<CumulativeParam>(n);
  const NodeEntry x = n->inputs[0], axis = n->inputs[1], dy = dys[0];
  const AttrDict back{{"exclusive", p.exclusive}, {"reverse", 1 - p.reverse}};
  const NodeEntry zero = ScalarOf(dy, 0), one = ScalarOf(dy, 1);
  const NodeEntry is_zero = ApplyOp("Equal", {x, zero});
  const NodeEntry zeros =
      ApplyOp("CumSum", {ApplyOp("Cast", {is_zero}, {{"to", DType::kI64}}), axis},
              {{"reverse", p.reverse}});
  const NodeEntry first =
      ApplyOp("And", {is_zero, ApplyOp("Equal", {zeros, ScalarLike(x, DType::kI64, 1)})});
  const NodeEntry others =
      ApplyOp("CumProd", {ApplyOp("Where", {first, one, x}), axis}, AttrsOf(n));
  const NodeEntry total = ApplyOp("CumSum", {dy * NodeEntry(n), axis}, back);
  const NodeEntry quotient = total / ApplyOp("Where", {is_zero, one, x});
  const NodeEntry at_first = ApplyOp("CumSum", {dy * others, axis}, back);
  return {ApplyOp("Where", {first, at_first, ApplyOp("Where", {is_zero, zero, quotient})}),
          NodeEntry()};
}

}  // namespace

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
    .param<CumulativeParam>()
    .example({"f32[2, 5]", "i64[] = [1]"})
    .example({"f32[n]", "i64[] = [0]"}, "exclusive = 1, reverse = 1")
    .set_attr<FInferType>("FInferType", CumSumType)
    .set_attr<FInferShape>("FInferShape", CumSumShape)
    .set_attr<FCodeGen>("FCodeGen", CumSumCode)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .set_attr<FGradient>("FGradient", CumSumGrad);

WEFT_REGISTER_OP(CumProd)
    .describe(
        "y[i] = product of x[j] over j <= i along the axis (j < i with `exclusive`; from the end "
        "with `reverse`).\n"
        "Gradient: CumSum of dy * y in the other direction, over x; at the first 0 of a line the "
        "products of the others, at the other zeros 0.\n"
        "Errors: axis out of range (kBadAttribute). Source: ONNX CumProd-26.")
    .input("x", TypeDoc(kCumulative))
    .input("axis", TypeDoc(kIndexTypes, "T2"), "scalar in [-rank, rank)")
    .output("y", "T", "the shape of x")
    .param<CumulativeParam>()
    .example({"f32[2, 5]", "i64[] = [1]"})
    .example({"f32[n]", "i64[] = [0]"}, "exclusive = 1, reverse = 1")
    .set_attr<FInferType>("FInferType", TypeOfDataInput(kCumulative, {1}))
    .set_attr<FInferShape>("FInferShape", CumulativeShape)
    .set_attr<FCodeGen>("FCodeGen", CumProdCode)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .set_attr<FGradient>("FGradient", CumProdGrad)
    .set_attr<FInputDomains>("FInputDomains", Domains({NonZero()}));

}  // namespace weft::ops
