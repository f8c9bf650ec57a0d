/// instance_norm.cc: InstanceNormalization (each image, each channel) and
/// LpNormalization (along one axis).
///
/// Mean and variance: row_moments.h.
#include "ops/util/channel_util.h"
#include "ops/util/row_moments.h"
#include "ops/util/window.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct InstanceNormParam : OpParam<InstanceNormParam> {
  double epsilon;
  WEFT_OP_PARAM(InstanceNormParam) {
    WEFT_FIELD(epsilon).set_default(1e-5).set_lower_bound(0).describe("added to the variance");
  }
};
WEFT_REGISTER_OP_PARAM(InstanceNormParam);

struct LpNormParam : OpParam<LpNormParam> {
  int64_t axis, p;
  WEFT_OP_PARAM(LpNormParam) {
    WEFT_FIELD(axis).set_default(-1).describe("axis of the norm, in [-rank, rank)");
    WEFT_FIELD(p).set_default(2).set_range(1, 2).describe("1: sum of |x|; 2: root of sum of x^2");
  }
};
WEFT_REGISTER_OP_PARAM(LpNormParam);

// ---- InstanceNormalization ----

void InstanceNormShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  WEFT_CHECK(!x.has_rank() || x.rank() >= 3, kShapeMismatch,
             "{}: x must have rank 3 or more, got {}", ctx.node()->Describe(), x.ToString());
  for (int i = 1; i < 3; ++i) {
    if (CheckRank(ctx, i, 1, "a channel vector") && x.has_rank())
      UnifyDims(ctx, ctx.in(i)[0], x[1], "channels");
  }
  UnaryShape(ctx);
}

Exprs InstanceNormCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const DType t = AccumulatorOf(x.dtype);
  const std::vector<SymInt> extents = Tail(x.shape, 2);
  const Expr c = at(0)[1];
  const RowMoments row =
      MomentsOver(extents, t, [&](const Indices& r) { return x(At(at(0)[0], c, r)); });
  const Expr h = row.Normal(x(at(0)), ParamOf<InstanceNormParam>(n).epsilon);
  return {Expr::Cast(x.dtype, Expr::Fma(h, Expr::Cast(t, in[1]({c})), Expr::Cast(t, in[2]({c}))))};
}

/// With h = (x - mean) inverse and e = dy scale: dx = inverse (e - mean(e) - h mean(e h)).
std::vector<NodeEntry> InstanceNormGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  std::vector<NodeEntry> d(3);
  if (!dys[0]) return d;
  // The dtype of x is not known here and may be f16, whose squares overflow: f64 is right for all.
  const NodeEntry x = ApplyOp("Cast", {n->inputs[0]}, {{"to", DType::kF64}});
  const NodeEntry scale = n->inputs[1], dy = CastTo(dys[0], x), axes = SpatialAxes(x);
  const auto mean = [&](const NodeEntry& e) { return MeanOver(e, axes); };
  const NodeEntry centered = x - mean(x);
  const NodeEntry variance =
      mean(centered * centered) + ScalarOf(x, ParamOf<InstanceNormParam>(n).epsilon);
  const NodeEntry inverse = ApplyOp("Reciprocal", {ApplyOp("Sqrt", {variance})});
  const NodeEntry h = centered * inverse, e = dy * ChannelColumn(CastTo(scale, x), x);
  d[0] = CastTo(inverse * (e - mean(e) - h * mean(e * h)), n->inputs[0]);
  d[1] = CastTo(ApplyOp("weft::ChannelSum", {dy * h}), scale);
  d[2] = CastTo(ApplyOp("weft::ChannelSum", {dy}), n->inputs[2]);
  return d;
}

// ---- LpNormalization ----

void LpNormShape(InferShapeContext& ctx) {
  if (ctx.in(0).has_rank())
    AxisOf(ParamOf<LpNormParam>(ctx.node()).axis, ctx.in(0).rank(), ctx.node());
  UnaryShape(ctx);
}
Exprs LpNormCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<LpNormParam>(n);
  const TensorArg& x = in[0];
  const DType t = AccumulatorOf(x.dtype);
  const size_t axis = size_t(AxisOf(p.axis, x.rank(), n));
  Expr norm = Expr::Reduce(ReduceOp::kSum, {x.shape[int(axis)]}, [&](const Indices& r) {
    Indices from = at(0);
    from[axis] = r[0];
    const Expr e = Expr::Cast(t, x(from));
    return p.p == 1 ? Expr::Unary(UnOp::kAbs, e) : e * e;
  });
  if (p.p == 2) norm = Expr::Unary(UnOp::kSqrt, norm);
  const Expr zero = Zero(t);
  const Expr y = Expr::Cast(t, x(at(0))) / norm;
  return {Expr::Cast(x.dtype, Expr::Select(Eq(norm, zero), zero, y))};
}
/// dx = (dy - e sum(dy y)) / norm, e = y for p = 2, sign(x) for p = 1; 0 where the norm is 0.
std::vector<NodeEntry> LpNormGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  if (!dys[0]) return {NodeEntry()};
  const auto& p = ParamOf<LpNormParam>(n);
  const NodeEntry x = n->inputs[0], dy = dys[0], y(n, 0), axis = IntsLike(x, {p.axis});
  const auto reduce = [&](const char* op, const NodeEntry& e) {
    return ApplyOp(op, {e, axis}, {{"keepdims", 1}});
  };
  const NodeEntry norm = reduce(p.p == 1 ? "ReduceL1" : "ReduceL2", x);
  const NodeEntry none = ApplyOp("Equal", {norm, ScalarOf(x, 0)});
  const NodeEntry divisor = ApplyOp("Where", {none, ScalarOf(x, 1), norm});
  const NodeEntry e = p.p == 1 ? ApplyOp("Sign", {x}) : y;
  const NodeEntry dx = (dy - e * reduce("ReduceSum", dy * y)) / divisor;
  return {ApplyOp("Where", {none, ScalarOf(x, 0), dx})};
}

SymInt Flops(const NodePtr&, const std::vector<Shape>& in, const std::vector<Shape>&) {
  return in.at(0).num_elements() * 8;
}

}  // namespace

WEFT_REGISTER_OP(InstanceNormalization)
    .describe(
        "y = (x - mean) / sqrt(variance + epsilon) scale[c] + B[c], the statistics over the "
        "spatial axes of each image and channel.\n"
        "f16 and bf16 compute in f32. Gradient: ordinary ops, the statistics computed again from "
        "x.\n"
        "Errors: rank below 3, a channel vector of another size (kShapeMismatch). Source: "
        "ONNX InstanceNormalization-22.")
    .input("input", TypeDoc(kFloats), "[n, c, spatial...]")
    .input("scale", "T", "[c]")
    .input("B", "T", "[c]")
    .output("output", "T")
    .param<InstanceNormParam>()
    .example({"f32[2, 3, 4, 5]", "f32[3]", "f32[3]"})
    .example({"f32[n, 2, 7]", "f32[2]", "f32[2]"}, "epsilon = 0.01")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", InstanceNormShape)
    .set_attr<FCodeGen>("FCodeGen", InstanceNormCode)
    .set_attr<FGradient>("FGradient", InstanceNormGrad)
    .set_attr<FFlops>("FFlops", Flops);

WEFT_REGISTER_OP(LpNormalization)
    .describe(
        "y = x / |x|_p along `axis`, p = 1 or 2; 0 where the norm is 0. Gradient: ordinary ops; "
        "keeps x and y.\n"
        "Errors: axis out of range, p neither 1 nor 2 (kBadAttribute). Source: ONNX "
        "LpNormalization-22.")
    .input("input", TypeDoc(kFloats))
    .output("output", "T")
    .param<LpNormParam>()
    .example({"f32[2, 5]"})
    .example({"f32[n, 3, 2]"}, "axis = 1, p = 1")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", LpNormShape)
    .set_attr<FCodeGen>("FCodeGen", LpNormCode)
    .set_attr<FGradient>("FGradient", LpNormGrad)
    .set_attr<FFlops>("FFlops", Flops);

}  // namespace weft::ops
