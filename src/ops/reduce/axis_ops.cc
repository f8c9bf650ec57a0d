/// axis_ops.cc: CumProd, Hardmax, ReverseSequence: operators along one axis.
///
///   CumProd          y[i] = product of x[j] over j <= i (j < i with `exclusive`; from
///                    the end with `reverse`)
///   Hardmax          1 at the first maximum of the axis, else 0
///   ReverseSequence  the first sequence_lens[b] slices of the time axis in reverse
/// Source: ONNX CumProd-26, Hardmax-13, ReverseSequence-10.
#include "ops/util/host_util.h"

namespace weft::ops {
namespace {

struct CumProdParam : OpParam<CumProdParam> {
  int64_t exclusive, reverse;
  WEFT_OP_PARAM(CumProdParam) {
    WEFT_FIELD(exclusive).set_default(0).set_range(0, 1).describe(
        "1: the element itself is left out");
    WEFT_FIELD(reverse).set_default(0).set_range(0, 1).describe("1: products run from the end");
  }
};
WEFT_REGISTER_OP_PARAM(CumProdParam);

struct HardmaxParam : OpParam<HardmaxParam> {
  int64_t axis;
  WEFT_OP_PARAM(HardmaxParam) { WEFT_FIELD(axis).set_default(-1).describe("in [-rank, rank)"); }
};
WEFT_REGISTER_OP_PARAM(HardmaxParam);

struct ReverseSequenceParam : OpParam<ReverseSequenceParam> {
  int64_t batch_axis, time_axis;
  WEFT_OP_PARAM(ReverseSequenceParam) {
    WEFT_FIELD(batch_axis).set_default(1).set_range(0, 1).describe("0 or 1");
    WEFT_FIELD(time_axis).set_default(0).set_range(0, 1).describe("the other one");
  }
};
WEFT_REGISTER_OP_PARAM(ReverseSequenceParam);

// ---- CumProd ----

constexpr DTypeSet kCumulative =
    kFloats | DTypeSet{DType::kI32, DType::kI64, DType::kU32, DType::kU64};

void CumProdShape(InferShapeContext& ctx) {
  UnaryShape(ctx);
  const auto axis = InputInts(ctx, 1);
  WEFT_CHECK(!axis || axis->size() == 1, kShapeMismatch, "{}: the axis has {} elements",
             ctx.node()->Describe(), axis ? axis->size() : 0);
  if (axis && ctx.in(0).has_rank()) AxisOf(axis->at(0), ctx.in(0).rank(), ctx.node());
}
Exprs CumProdCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<CumProdParam>(n);
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
  const auto& p = ParamOf<CumProdParam>(n);
  const NodeEntry x = n->inputs[0], axis = n->inputs[1], dy = dys[0];
  const AttrDict back{{"exclusive", p.exclusive}, {"reverse", 1 - p.reverse}};
  const NodeEntry zero = ScalarOf(dy, 0), one = ScalarOf(dy, 1);
  const NodeEntry is_zero = Apply("Equal", {x, zero});
  const NodeEntry zeros = Apply("CumSum", {Apply("Cast", {is_zero}, {{"to", DType::kI64}}), axis},
                                {{"reverse", p.reverse}});
  const NodeEntry first =
      Apply("And", {is_zero, Apply("Equal", {zeros, ScalarLike(x, DType::kI64, 1)})});
  const NodeEntry others = Apply("CumProd", {Apply("Where", {first, one, x}), axis}, AttrsOf(n));
  const NodeEntry total = Apply("CumSum", {dy * NodeEntry(n), axis}, back);
  const NodeEntry quotient = total / Apply("Where", {is_zero, one, x});
  const NodeEntry at_first = Apply("CumSum", {dy * others, axis}, back);
  return {Apply("Where", {first, at_first, Apply("Where", {is_zero, zero, quotient})}),
          NodeEntry()};
}

// ---- Hardmax ----

void HardmaxShape(InferShapeContext& ctx) {
  if (ctx.in(0).has_rank())
    AxisOf(ParamOf<HardmaxParam>(ctx.node()).axis, ctx.in(0).rank(), ctx.node());
  UnaryShape(ctx);
}
Exprs HardmaxCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const size_t axis = size_t(AxisOf(ParamOf<HardmaxParam>(n).axis, x.rank(), n));
  const Expr first = Expr::Reduce(ReduceOp::kArgMax, {x.shape[int(axis)]}, [&](const Indices& r) {
    Indices from = at(0);
    from[axis] = r[0];
    return Expr::Cast(AccumulatorOf(x.dtype), x(from));
  });
  return {Expr::Select(Eq(first, at(0)[axis]), Expr::ConstInt(x.dtype, 1), Zero(x.dtype))};
}

// ---- ReverseSequence ----

void ReverseSequenceShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<ReverseSequenceParam>(ctx.node());
  WEFT_CHECK(p.batch_axis != p.time_axis, kBadAttribute, "{}: batch_axis and time_axis are both {}",
             ctx.node()->Describe(), p.time_axis);
  const Shape& x = ctx.in(0);
  WEFT_CHECK(!x.has_rank() || x.rank() >= 2, kShapeMismatch, "{}: x has shape {}",
             ctx.node()->Describe(), x.ToString());
  if (CheckRank(ctx, 1, 1, "sequence_lens") && x.has_rank())
    UnifyDims(ctx, x[int(p.batch_axis)], ctx.in(1)[0], "the batch");
  UnaryShape(ctx);
}
Exprs ReverseSequenceCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<ReverseSequenceParam>(n);
  const Expr length = in[1]({at(0)[size_t(p.batch_axis)]});
  const Expr t = at(0)[size_t(p.time_axis)];
  Indices from = at(0);
  from[size_t(p.time_axis)] = Expr::Select(Lt(t, length), length - Expr::Int(1) - t, t);
  return {in[0](from)};
}
/// It is its own inverse.
std::vector<NodeEntry> ReverseSequenceGrad(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry(), NodeEntry()};
  return {Apply("ReverseSequence", {dy[0], n->inputs[1]}, AttrsOf(n)), NodeEntry()};
}

}  // namespace

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
    .set_num_inputs(2)
    .set_num_outputs(1)
    .param<CumProdParam>()
    .example({"f32[2, 5]", "i64[] = [1]"})
    .example({"f32[n]", "i64[] = [0]"}, "exclusive = 1, reverse = 1")
    .set_attr<FInferType>("FInferType", TypeOfDataInput(kCumulative, {1}))
    .set_attr<FInferShape>("FInferShape", CumProdShape)
    .set_attr<FCodeGen>("FCodeGen", CumProdCode)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .set_attr<FGradient>("FGradient", CumProdGrad)
    .set_attr<FInputDomains>("FInputDomains", Domains({NonZero()}));

WEFT_REGISTER_OP(Hardmax)
    .describe(
        "1 at the first maximum along `axis`, 0 elsewhere. Gradient: none. Source: ONNX "
        "Hardmax-13.")
    .input("input", TypeDoc(kFloats))
    .output("output", "T", "the shape of input")
    .set_num_inputs(1)
    .set_num_outputs(1)
    .param<HardmaxParam>()
    .example({"f32[2, 5]"})
    .example({"f32[n, 3]"}, "axis = 0")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", HardmaxShape)
    .set_attr<FCodeGen>("FCodeGen", HardmaxCode)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(ReverseSequence)
    .describe(
        "The first sequence_lens[b] slices of the time axis in reverse, the others unchanged.\n"
        "Gradient: the same reversal of dy. Source: ONNX ReverseSequence-10.")
    .input("input", TypeDoc(kAllTypes))
    .input("sequence_lens", "i64", "[batch], in [1, size of the time axis]")
    .output("Y", "T", "the shape of input")
    .set_num_inputs(2)
    .set_num_outputs(1)
    .param<ReverseSequenceParam>()
    .example({"f32[4, 3]", "i64[3] = [1, 4, 2]"})
    .example({"f32[2, n]", "i64[2] = [1, 1]"}, "batch_axis = 0, time_axis = 1")
    .set_attr<FInferType>("FInferType", TypeOfDataInput(kAllTypes, {1}))
    .set_attr<FInferShape>("FInferShape", ReverseSequenceShape)
    .set_attr<FCodeGen>("FCodeGen", ReverseSequenceCode)
    .set_attr<TMovesElements>("TMovesElements", true)
    .set_attr<FGradient>("FGradient", ReverseSequenceGrad);

}  // namespace weft::ops
