/// generate.cc: Range, EyeLike, OneHot, Trilu: tensors made from positions.
#include <cmath>

#include "ops/util/shape_util.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct EyeLikeParam : OpParam<EyeLikeParam> {
  DTypeField dtype;
  int64_t k;
  WEFT_OP_PARAM(EyeLikeParam) {
    WEFT_FIELD(dtype).set_default({}).describe("dtype of the result; default: that of the input");
    WEFT_FIELD(k).set_default(0).describe("diagonal; positive above the main one");
  }
};
WEFT_REGISTER_OP_PARAM(EyeLikeParam);

struct OneHotParam : OpParam<OneHotParam> {
  int64_t axis;
  WEFT_OP_PARAM(OneHotParam) {
    WEFT_FIELD(axis).set_default(-1).describe("where the new axis stands, in [-rank - 1, rank]");
  }
};
WEFT_REGISTER_OP_PARAM(OneHotParam);

struct TriluParam : OpParam<TriluParam> {
  int64_t upper;
  WEFT_OP_PARAM(TriluParam) {
    WEFT_FIELD(upper).set_default(1).set_range(0, 1).describe(
        "1: on and above the diagonal; 0: on and below");
  }
};
WEFT_REGISTER_OP_PARAM(TriluParam);

Expr Scalar(const TensorArg& arg) { return arg(Indices(size_t(arg.rank()), Expr::Int(0))); }

// ---- Range ----

constexpr DTypeSet kRangeTypes = DTypeSet{DType::kI16, DType::kI32, DType::kI64} | kFloats;

void RangeShape(InferShapeContext& ctx) {
  const NodePtr& n = ctx.node();
  auto one = [&](int i) {
    const SymTensorPtr v = InputValue(ctx, i);
    return v && v->elements.size() == 1 ? v->elements[0] : SymInt();
  };
  const SymInt start = one(0), limit = one(1), delta = one(2);
  SymInt count;
  if (delta.known()) {
    WEFT_CHECK(!delta.is(0), kInvalidModel, "{}: delta is 0", n->Describe());
    if (start.known() && limit.known()) {
      if (delta.is_const() && delta.value() > 0)
        count = MaxOf(CeilDiv(limit - start, delta), 0, ctx.facts());
      else if (delta.is_const())
        count = MaxOf(CeilDiv(start - limit, -delta), 0, ctx.facts());
      else if (ctx.facts().RangeOf(delta).lo > 0)
        count = MaxOf(CeilDiv(limit - start, delta), 0, ctx.facts());
    }
  }
  if (!count.known()) {
    const TensorPtr s = ctx.in_constant(0), l = ctx.in_constant(1), d = ctx.in_constant(2);
    if (s && l && d && s->num_elements() == 1 && l->num_elements() == 1 && d->num_elements() == 1) {
      WEFT_CHECK(d->at(0) != 0, kInvalidModel, "{}: delta is 0", n->Describe());
      const double c = std::ceil((l->at(0) - s->at(0)) / d->at(0));
      WEFT_CHECK(std::isfinite(c) && c < 9e15, kInvalidModel, "{}: {} elements", n->Describe(), c);
      count = int64_t(std::max(c, 0.0));
    }
  }
  if (!count.known()) count = ctx.unbacked(0);
  const Shape out({count});
  ctx.set_out(0, out);
  // Long ones of constants are folded, and in a run (weft::Sizes) nobody follows the elements.
  constexpr int64_t kLong = 64;
  const bool folded = ctx.in_constant(0) && ctx.in_constant(1) && ctx.in_constant(2) &&
                      count.is_const() && count.value() > kLong;
  if (start.known() && delta.known() && !folded)
    SetValue(ctx, 0, out, [&](int64_t i) { return start + delta * i; });
}
Exprs RangeCode(const NodePtr&, const std::vector<TensorArg>& in, const OutputAt& at) {
  const DType t = in[0].dtype;
  const DType c = AccumulatorOf(t);
  return {Expr::Cast(
      t, Expr::Cast(c, Scalar(in[0])) + Expr::Cast(c, at(0)[0]) * Expr::Cast(c, Scalar(in[2])))};
}

/// By start and delta; the result is constant in limit wherever it is defined.
std::vector<NodeEntry> RangeGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  std::vector<NodeEntry> d(3);
  if (!dys[0]) return d;
  const NodeEntry dy = dys[0];
  const auto total = [](const NodeEntry& e) {
    return ApplyOp("ReduceSum", {e}, {{"keepdims", 0}});
  };
  const auto number = [&](double v) { return ConstantLike(dy, Tensor::Scalar(DType::kI64, v)); };
  const NodeEntry i = ApplyOp("Range", {number(0), ApplyOp("Size", {dy}), number(1)});
  d[0] = ReshapeLike(total(dy), n->inputs[0]);
  d[2] = ReshapeLike(total(dy * ApplyOp("CastLike", {i, dy})), n->inputs[2]);
  return d;
}

// ---- EyeLike ----

void EyeLikeType(InferTypeContext& ctx) {
  const DType t = ParamOf<EyeLikeParam>(ctx.node()).dtype.dtype;
  if (t != DType::kUnknown)
    ctx.set_out(0, t);
  else if (ctx.in(0).known())
    ctx.set_out(0, ctx.in(0));
}
void EyeLikeShape(InferShapeContext& ctx) {
  CheckRank(ctx, 0, 2, "x");
  ctx.set_out(0, ctx.in(0).has_rank() ? ctx.in(0) : Shape::OfRank(2));
}
Exprs EyeLikeCode(const NodePtr& n, const std::vector<TensorArg>&, const OutputAt& at) {
  const Expr hit = Eq(at(0)[0] + Expr::Int(ParamOf<EyeLikeParam>(n).k), at(0)[1]);
  return {Expr::Select(hit, Expr::ConstInt(at.dtype[0], 1), Zero(at.dtype[0]))};
}

// ---- OneHot ----

void OneHotType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kNumeric);
  CheckInputType(ctx, 1, kNumeric);
  CheckInputType(ctx, 2, kComputable);
  if (ctx.in(2).known()) ctx.set_out(0, ctx.in(2));
}
void OneHotShape(InferShapeContext& ctx) {
  const Shape& idx = ctx.in(0);
  if (CheckRank(ctx, 2, 1, "values")) UnifyDims(ctx, ctx.in(2)[0], 2, "values [off, on]");
  if (!idx.has_rank()) return Unknown(ctx, 0, "the rank of indices is unknown");
  const int axis = AxisOf(ParamOf<OneHotParam>(ctx.node()).axis, idx.rank() + 1, ctx.node());
  const SymTensorPtr depth = InputValue(ctx, 1);
  std::vector<SymInt> dims = idx.dims();
  const bool known = depth && depth->elements.size() == 1 && depth->elements[0].known();
  dims.insert(dims.begin() + axis, known ? depth->elements[0] : ctx.unbacked(0));
  ctx.set_out(0, Shape(std::move(dims)));
}
Exprs OneHotCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const int axis = AxisOf(ParamOf<OneHotParam>(n).axis, in[0].rank() + 1, n);
  Indices where = at(0);
  where.erase(where.begin() + axis);
  const Expr hit = Eq(WrapIndex(in[0](where), Expr::Dim(at.shape[0][axis])), at(0)[size_t(axis)]);
  return {Expr::Select(hit, in[2]({Expr::Int(1)}), in[2]({Expr::Int(0)}))};
}
/// By values only: {sum of dy where off, sum of dy where on}.
std::vector<NodeEntry> OneHotGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  std::vector<NodeEntry> d(3);
  if (!dys[0]) return d;
  const NodeEntry dy = dys[0];
  const NodeEntry values = ApplyOp("CastLike", {IntsLike(dy, {0, 1}), dy});
  const NodeEntry mask = ApplyOp("OneHot", {n->inputs[0], n->inputs[1], values}, AttrsOf(n));
  auto total = [](const NodeEntry& e) {
    const NodeEntry sum = ApplyOp("ReduceSum", {e}, {{"keepdims", 0}});
    return ApplyOp("Unsqueeze", {sum, IntsLike(e, {0})});
  };
  d[2] = ApplyOp("Concat", {total(dy * (ScalarOf(dy, 1) - mask)), total(dy * mask)}, {{"axis", 0}});
  return d;
}

// ---- Trilu ----

void TriluShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  WEFT_CHECK(!x.has_rank() || x.rank() >= 2, kShapeMismatch,
             "{}: x must have rank 2 or more, got {}", ctx.node()->Describe(), x.ToString());
  WEFT_CHECK(!ctx.has_input(1) || !ctx.in(1).has_rank() || ctx.in(1).rank() <= 1, kShapeMismatch,
             "{}: k must be one number, got {}", ctx.node()->Describe(), ctx.in(1).ToString());
  UnaryShape(ctx);
}
Exprs TriluCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const Indices& i = at(0);
  const Expr k = HasInput(in, 1) ? ElementI64(in[1], 0) : Expr::Int(0);
  // The distance of two positions cannot wrap; a position plus any k may.
  constexpr int64_t kFar = int64_t{1} << 40;
  const bool near =
      k->kind() == ExprKind::kConst && k->const_int() > -kFar && k->const_int() < kFar;
  const Expr row = near ? i[i.size() - 2] + k : k,
             column = near ? i.back() : i.back() - i[i.size() - 2];
  const Expr kept = ParamOf<TriluParam>(n).upper ? Le(row, column) : Le(column, row);
  return {Expr::Select(kept, in[0](i), Zero(in[0].dtype))};
}

}  // namespace

WEFT_REGISTER_OP(Range)
    .describe(
        "y[i] = start + i delta for i < max(ceil((limit - start) / delta), 0).\n"
        "Gradient: the sum of dy for start, of i dy for delta; 0 for limit.\n"
        "Errors: delta 0 (kInvalidModel). Source: ONNX Range-11.")
    .input("start", TypeDoc(kRangeTypes), "scalar")
    .input("limit", "T", "scalar, exclusive")
    .input("delta", "T", "scalar, not 0")
    .output("output", "T")
    .param<NoParam>()
    .example({"i64[] = [1]", "i64[] = [8]", "i64[] = [3]"})
    .example({"f32[] = [1]", "f32[] = [0]", "f32[] = [-0.25]"})
    .set_attr<FInferType>("FInferType", SameType(kRangeTypes))
    .set_attr<FInferShape>("FInferShape", RangeShape)
    .set_attr<TSizeOperands>("TSizeOperands", {0, 1, 2})
    .set_attr<FCodeGen>("FCodeGen", RangeCode)
    .set_attr<FGradient>("FGradient", RangeGrad);

WEFT_REGISTER_OP(EyeLike)
    .describe(
        "1 on the diagonal k, 0 elsewhere, in the shape of the input, whose elements are not read. "
        "Gradient: none.\n"
        "Errors: rank other than 2 (kShapeMismatch). Source: ONNX EyeLike-22.")
    .input("input", TypeDoc(kComputable), "rank 2")
    .output("output", TypeDoc(kComputable, "T2"))
    .param<EyeLikeParam>()
    .example({"f32[3, n]"}, "k = 1")
    .set_attr<FInferType>("FInferType", EyeLikeType)
    .set_attr<FInferShape>("FInferShape", EyeLikeShape)
    .set_attr<FCodeGen>("FCodeGen", EyeLikeCode)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(OneHot)
    .describe(
        "A new axis of size depth, values[1] where the position equals the index (negative ones "
        "count from the end), values[0] elsewhere; an index outside is off everywhere. Gradient: "
        "by values.\n"
        "Errors: axis out of range (kBadAttribute), values of another size than 2 "
        "(kShapeMismatch). Source: ONNX OneHot-11.")
    .input("indices", TypeDoc(kNumeric, "T1"))
    .input("depth", TypeDoc(kNumeric, "T2"), "one element")
    .input("values", TypeDoc(kComputable, "T3"), "[off, on]")
    .output("output", "T3")
    .param<OneHotParam>()
    .example({"i64[3] = [0, 2, -1]", "i64[] = [4]", "f32[2]"})
    .example({"i64[2] = [1, 0]", "i64[] = [3]", "f32[2]"}, "axis = 0")
    .set_attr<FInferType>("FInferType", OneHotType)
    .set_attr<FInferShape>("FInferShape", OneHotShape)
    .set_attr<TSizeOperands>("TSizeOperands", {1})
    .set_attr<FCodeGen>("FCodeGen", OneHotCode)
    .set_attr<FGradient>("FGradient", OneHotGrad)
    .set_attr<TMovesElements>("TMovesElements", true);

WEFT_REGISTER_OP(Trilu)
    .describe(
        "x on one side of diagonal k of the last two axes, 0 on the other. Gradient: Trilu(dy, "
        "k).\n"
        "Errors: rank below 2 (kShapeMismatch). Source: ONNX Trilu-14.")
    .input("input", TypeDoc(kComputable), "rank 2 or more")
    .optional_input("k", "i64", "one element; default 0")
    .output("output", "T")
    .param<TriluParam>()
    .example({"f32[2, 3, 4]"})
    .example({"f32[3, n]", "i64[] = [-1]"}, "upper = 0")
    .set_attr<FInferType>("FInferType", TypeOfDataInput(kComputable, {1}))
    .set_attr<FInferShape>("FInferShape", TriluShape)
    .set_attr<FCodeGen>("FCodeGen", TriluCode)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& n, const std::vector<NodeEntry>& dy) {
                           std::vector<NodeEntry> d(n->inputs.size());
                           std::vector<NodeEntry> args(n->inputs.begin(), n->inputs.end());
                           args[0] = dy[0];
                           if (dy[0]) d[0] = ApplyOp("Trilu", args, AttrsOf(n));
                           return d;
                         })
    .set_attr<TMovesElements>("TMovesElements", true);

}  // namespace weft::ops
