/// layer_norm.cc: LayerNormalization, RMSNormalization.
///
/// Computed in the stash dtype, at least f32, and in f64 for f64 inputs; results are rounded once,
/// Mean and InvStdDev to the stash dtype. Mean and variance: row_moments.h.
#include <algorithm>

#include "ops/util/demand.h"
#include "ops/util/row_moments.h"
#include "weft/core/gradient/gradient.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct LayerNormParam : OpParam<LayerNormParam> {
  int64_t axis, stash_type;
  double epsilon;
  WEFT_OP_PARAM(LayerNormParam) {
    WEFT_FIELD(axis).set_default(-1).describe("first normalized axis, in [-rank, rank)");
    WEFT_FIELD(epsilon).set_default(1e-5).set_lower_bound(0).describe("added to the variance");
    WEFT_FIELD(stash_type)
        .set_default(1)
        .describe("ONNX number of the dtype of the statistics: 1 f32, 11 f64, 10 f16, 16 bf16");
  }
};
WEFT_REGISTER_OP_PARAM(LayerNormParam);

/// The dtype of Mean and InvStdDev.
DType StashOf(const NodePtr& n) { return StashType(n, ParamOf<LayerNormParam>(n).stash_type); }
DType ComputeOf(const NodePtr& n, DType x) {
  return x == DType::kF64 ? x : AccumulatorOf(StashOf(n));
}

std::vector<SymInt> RowExtents(const Shape& x, int axis) {
  return std::vector<SymInt>(x.dims().begin() + axis, x.dims().end());
}

void LayerNormType(InferTypeContext& ctx) {
  const Type t = CommonInputType(ctx, kFloats);
  if (!t.known()) return;
  ctx.set_out(0, t);
  for (int k = 1; k < ctx.num_outputs(); ++k) ctx.set_out(k, StashOf(ctx.node()));
}
void LayerNormShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  const int axis = AxisOf(ParamOf<LayerNormParam>(ctx.node()).axis, x.rank(), ctx.node());
  for (int i = 1; i < ctx.num_inputs(); ++i) DemandBroadcastTo(ctx, i, x);
  ctx.set_out(0, x);
  std::vector<SymInt> dims = x.dims();
  for (int k = axis; k < x.rank(); ++k) dims[size_t(k)] = 1;
  for (int k = 1; k < ctx.num_outputs(); ++k) ctx.set_out(k, Shape(dims));
}

Expr ReadBroadcast(const TensorArg& arg, const Shape& out, const Indices& at) {
  const int lead = out.rank() - arg.rank();
  Indices from;
  for (int k = 0; k < arg.rank(); ++k)
    from.push_back(BroadcastIndex(arg.shape[k], out[lead + k], at[size_t(lead + k)]));
  return arg(from);
}

/// An element of the row through `at`.
Expr ReadRow(const TensorArg& x, const Indices& at, int axis, const Indices& r) {
  Indices from(at.begin(), at.begin() + axis);
  from.insert(from.end(), r.begin(), r.end());
  return x(from);
}

Exprs LayerNormCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const auto& p = ParamOf<LayerNormParam>(n);
  const DType stash = StashOf(n), t = ComputeOf(n, x.dtype);
  const int axis = AxisOf(p.axis, x.rank(), n);
  const std::vector<SymInt> extents = RowExtents(x.shape, axis);
  const auto moments = [&](int k) {
    return MomentsOver(extents, t, [&](const Indices& r) { return ReadRow(x, at(k), axis, r); });
  };
  const RowMoments row = moments(0);
  const Expr h = row.Normal(x(at(0)), p.epsilon),
             scale = Expr::Cast(t, ReadBroadcast(in[1], x.shape, at(0)));
  const Expr y = HasInput(in, 2)
                     ? Expr::Fma(h, scale, Expr::Cast(t, ReadBroadcast(in[2], x.shape, at(0))))
                     : h * scale;
  Exprs out{Expr::Cast(x.dtype, y)};
  if (at.index.size() > 1) out.push_back(Expr::Cast(stash, moments(1).mean + moments(1).rest));
  if (at.index.size() > 2) out.push_back(Expr::Cast(stash, moments(2).InverseDeviation(p.epsilon)));
  return out;
}
Exprs RmsNormCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const DType t = ComputeOf(n, x.dtype);
  const auto& p = ParamOf<LayerNormParam>(n);
  const int axis = AxisOf(p.axis, x.rank(), n);
  const std::vector<SymInt> extents = RowExtents(x.shape, axis);
  const Expr sum = ReduceOver(ReduceOp::kSum, extents, [&](const Indices& r) {
    const Expr e = Expr::Cast(t, ReadRow(x, at(0), axis, r));
    return e * e;
  });
  const Expr inverse =
      CallMath(CallOp::kRsqrt, sum / CountOf(extents, t) + Expr::Const(t, p.epsilon));
  return {Expr::Cast(x.dtype, Expr::Cast(t, x(at(0))) * inverse *
                                  Expr::Cast(t, ReadBroadcast(in[1], x.shape, at(0))))};
}

// ---- gradients ----

/// The normalized axes as a tensor: constants for a negative axis, else range(axis, rank).
NodeEntry RowAxes(const NodePtr& n, const NodeEntry& x) {
  const int64_t axis = ParamOf<LayerNormParam>(n).axis;
  if (axis >= 0) {
    const NodeEntry rank = ApplyOp("Size", {ShapeOf(x)});
    return ApplyOp("Range", {ConstantLike(x, Tensor::Scalar(DType::kI64, double(axis))), rank,
                             ConstantLike(x, Tensor::Scalar(DType::kI64, 1))});
  }
  std::vector<int64_t> axes;
  for (int64_t a = axis; a < 0; ++a) axes.push_back(a);
  return IntsLike(x, axes);
}

/// 1 / (number of elements of a row), in the dtype of `mean`.
NodeEntry OverCount(const NodeEntry& x, const NodeEntry& mean) {
  const NodeEntry count = ApplyOp("Div", {ApplyOp("Size", {x}), ApplyOp("Size", {mean})});
  const NodeEntry inverse =
      ApplyOp("Reciprocal", {ApplyOp("Cast", {count}, {{"to", DType::kF64}})});
  return ApplyOp("CastLike", {inverse, mean});
}

/// What the gradient reads of a row: Mean and InvStdDev where they have the digits that it computes
/// with, else both again.
struct RowStats {
  NodeEntry mean, inverse, rest;  ///< rest: of the mean; null: the mean of the differences to it
};
RowStats GradStats(const NodePtr& n, const NodeEntry& x, const NodeEntry& axes) {
  const DType t = KnownType(x).dtype;
  if (t != DType::kUnknown && ComputeOf(n, t) == StashOf(n))
    return {NodeEntry(n, 1), NodeEntry(n, 2), NodeEntry()};
  const NodePtr m = ApplyOp("weft::Moments", {x, axes}).node;
  const NodeEntry v(m, 1), epsilon = ScalarOf(v, ParamOf<LayerNormParam>(n).epsilon);
  return {NodeEntry(m, 0), ApplyOp("Reciprocal", {ApplyOp("Sqrt", {v + epsilon})}),
          NodeEntry(m, 2)};
}

/// With h = (x - mean) inverse and e = dy scale: dx = inverse (e - mean(e) - h mean(e h)), and what
/// reaches x through the statistics themselves: d mean = 1 / count, d inverse = -inverse^2 h /
/// count. Mean is rounded, which h would show where mean / deviation is large: the mean of what is
/// left is taken off, too.
std::vector<NodeEntry> LayerNormGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  std::vector<NodeEntry> d(n->inputs.size());
  if (AllNull(dys)) return d;
  const NodeEntry x = n->inputs[0], scale = n->inputs[1];
  const NodeEntry axes = RowAxes(n, x);
  const auto [mean, inverse, rest] = GradStats(n, x, axes);
  auto like = [](const NodeEntry& e, const NodeEntry& t) { return ApplyOp("CastLike", {e, t}); };
  const NodeEntry centered = like(x, mean) - mean;
  const NodeEntry h = (centered - (rest ? rest : MeanOver(centered, axes))) * inverse;
  NodeEntry dx;
  if (dys[0]) {
    const NodeEntry dy = like(dys[0], mean), e = dy * like(scale, mean);
    dx = inverse * (e - MeanOver(e, axes) - h * MeanOver(e * h, axes));
    d[1] = like(SumTo(dy * h, scale), scale);
    if (HasInput(n, 2)) d[2] = like(SumTo(dy, n->inputs[2]), n->inputs[2]);
  }
  auto add = [&dx](const NodeEntry& e) { dx = dx ? dx + e : e; };
  if (dys.size() > 1 && dys[1]) add(like(dys[1], mean) * OverCount(x, mean));
  if (dys.size() > 2 && dys[2])
    add(-(like(dys[2], mean) * inverse * inverse * OverCount(x, mean)) * h);
  d[0] = ExpandLike(like(dx, x), x);
  return d;
}
std::vector<NodeEntry> RmsNormGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  std::vector<NodeEntry> d(2);
  if (!dys[0]) return d;
  const NodeEntry axes = RowAxes(n, n->inputs[0]);
  auto like = [](const NodeEntry& e, const NodeEntry& t) { return ApplyOp("CastLike", {e, t}); };
  // The dtype of x is not known here and may be f16, whose squares overflow: f64 is right for all.
  const NodeEntry x = ApplyOp("Cast", {n->inputs[0]}, {{"to", DType::kF64}});
  const NodeEntry scale = like(n->inputs[1], x), dy = like(dys[0], x);
  const NodeEntry inverse = ApplyOp(
      "Reciprocal",
      {ApplyOp("Sqrt", {MeanOver(x * x, axes) + ScalarOf(x, ParamOf<LayerNormParam>(n).epsilon)})});
  const NodeEntry h = x * inverse, e = dy * scale;
  d[0] = like(inverse * (e - h * MeanOver(e * h, axes)), n->inputs[0]);
  d[1] = like(SumTo(dy * h, n->inputs[1]), n->inputs[1]);
  return d;
}

SymInt Flops(const NodePtr&, const std::vector<Shape>& in, const std::vector<Shape>&) {
  return in.at(0).num_elements() * 8;
}

}  // namespace

WEFT_REGISTER_OP(LayerNormalization)
    .describe(
        "y = (x - mean) / sqrt(variance + epsilon) scale + B over the axes from `axis` on; also "
        "the mean and 1 / sqrt(..).\n"
        "Computed in the dtype of stash_type, at least f32 (f64 for f64 inputs); Mean and "
        "InvStdDev are of that dtype. Gradient: ordinary ops over x, Mean and InvStdDev (f64 "
        "inputs: statistics computed again).\n"
        "Errors: axis out of range, a stash_type that is not a float dtype (kBadAttribute), scale "
        "or B do not broadcast (kShapeMismatch).\n"
        "Source: ONNX LayerNormalization-17.")
    .input("X", TypeDoc(kFloats))
    .input("Scale", "T", "broadcasts to x")
    .optional_input("B", "T", "broadcasts to x")
    .output("Y", "T")
    .optional_output("Mean", "U", "dimensions of x with 1 for the normalized axes")
    .optional_output("InvStdDev", "U")
    .set_num_outputs(3)
    .param<LayerNormParam>()
    .example({"f32[2, 3, 4]", "f32[4]", "f32[4]"})
    .example({"f32[n, 3, 4]", "f32[3, 4]"}, "axis = 1, epsilon = 0.01")
    .set_attr<FInferType>("FInferType", LayerNormType)
    .set_attr<FInferShape>("FInferShape", LayerNormShape)
    .set_attr<FCodeGen>("FCodeGen", LayerNormCode)
    .set_attr<FGradient>("FGradient", LayerNormGrad)
    .set_attr<FFlops>("FFlops", Flops);

WEFT_REGISTER_OP(RMSNormalization)
    .describe(
        "y = x / sqrt(mean(x^2) + epsilon) scale over the axes from `axis` on, computed in the "
        "stash dtype.\n"
        "Gradient: ordinary ops, the statistic computed again from x. Errors: as "
        "LayerNormalization.\n"
        "Source: ONNX RMSNormalization-23.")
    .input("X", TypeDoc(kFloats))
    .input("scale", "T", "broadcasts to x")
    .output("Y", "T")
    .param<LayerNormParam>()
    .example({"f32[2, 3, 4]", "f32[4]"})
    .example({"f32[n, 3, 4]", "f32[3, 4]"}, "axis = 1")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", LayerNormShape)
    .set_attr<FCodeGen>("FCodeGen", RmsNormCode)
    .set_attr<FGradient>("FGradient", RmsNormGrad)
    .set_attr<FFlops>("FFlops", Flops);

}  // namespace weft::ops
