/// mean_variance_norm.cc: MeanVarianceNormalization over given axes:
///   y = (x - mean) / (deviation + 1e-9)
///
/// Rewritten as soon as the rank is known, so that it fuses like any other; the FCodeGen
/// below is its meaning:
///   m, v, e = weft::Moments(x, axes)     y = (x - m - e) * (1 / (sqrt(v) + 1e-9))
///
///   grad  dx = q (dy - mean(dy) - c mean(dy c) q / s) with c = x - mean, s = sqrt(v),
///         q = 1 / (s + 1e-9); the last term is 0 where s is
#include <algorithm>

#include "ops/util/row_moments.h"
#include "weft/core/op/onnx_body.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

/// Of ONNX's function body.
constexpr double kEpsilon = 1e-9;

struct MeanVarianceNormParam : OpParam<MeanVarianceNormParam> {
  Ints axes;
  WEFT_OP_PARAM(MeanVarianceNormParam) {
    WEFT_FIELD(axes)
        .set_default(Ints{0, 2, 3})
        .describe("axes of the statistics, in [-rank, rank); none: all");
  }
};
WEFT_REGISTER_OP_PARAM(MeanVarianceNormParam);

std::vector<int> AxesOf(const NodePtr& n, int rank) {
  const Ints& given = ParamOf<MeanVarianceNormParam>(n).axes;
  std::vector<int> axes = NormalizeAxes(given, rank, n);
  for (int k = 0; given.empty() && k < rank; ++k) axes.push_back(k);
  std::sort(axes.begin(), axes.end());
  return axes;
}

void MeanVarianceNormShape(InferShapeContext& ctx) {
  if (ctx.in(0).has_rank()) AxesOf(ctx.node(), ctx.in(0).rank());
  UnaryShape(ctx);
}

Exprs MeanVarianceNormCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const DType t = AccumulatorOf(x.dtype);
  const std::vector<int> axes = AxesOf(n, x.rank());
  std::vector<SymInt> extents;
  for (int a : axes) extents.push_back(x.shape[a]);
  const RowMoments row = MomentsOver(extents, t, [&](const Indices& r) {
    Indices from = at(0);
    for (size_t i = 0; i < axes.size(); ++i) from[size_t(axes[i])] = r[i];
    return x(from);
  });
  const Expr deviation = Expr::Unary(UnOp::kSqrt, row.variance) + Expr::Const(t, kEpsilon);
  const Expr centered = (Expr::Cast(t, x(at(0))) - row.mean) - row.rest;
  return {Expr::Cast(x.dtype, centered * (Expr::Const(t, 1) / deviation))};
}

/// The moments over `axes` (a tensor) and what is made of them.
struct Normal {
  NodeEntry centered, deviation, inverse;
};
Normal NormalOf(const NodeEntry& x, const NodeEntry& axes) {
  const NodePtr moments = ApplyOp("weft::Moments", {x, axes}).node;
  const NodeEntry m(moments, 0), v(moments, 1);
  const NodeEntry s = ApplyOp("Sqrt", {v});
  return {ApplyOp("CastLike", {x, m}) - m - NodeEntry(moments, 2), s,
          ApplyOp("Reciprocal", {s + ScalarOf(s, kEpsilon)})};
}

std::vector<NodeEntry> AsMoments(RewriteContext& ctx, const NodePtr& n) {
  const NodeEntry x = n->inputs[0];
  if (!ctx.shape(x).has_rank() || ctx.dtype(x) == DType::kUnknown) return {};
  const std::vector<int> axes = AxesOf(n, ctx.shape(x).rank());
  const Normal y = NormalOf(x, IntsLike(x, std::vector<int64_t>(axes.begin(), axes.end())));
  return {ApplyOp("CastLike", {y.centered * y.inverse, x})};
}

std::vector<NodeEntry> MeanVarianceNormGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  if (!dys[0]) return {NodeEntry()};
  const NodeEntry x = n->inputs[0];
  const Ints& given = ParamOf<MeanVarianceNormParam>(n).axes;
  const auto scalar = [&](int64_t v) {
    return ConstantLike(x, Tensor::Scalar(DType::kI64, double(v)));
  };
  const NodeEntry axes =
      given.empty() ? ApplyOp("Range", {scalar(0), ApplyOp("Size", {ShapeOf(x)}), scalar(1)})
                    : IntsLike(x, given);
  const auto mean_of = [&](const NodeEntry& e) {
    return ApplyOp("ReduceMean", {e, axes}, {{"keepdims", 1}, {"noop_with_empty_axes", 1}});
  };
  const Normal y = NormalOf(x, axes);
  const NodeEntry dy = ApplyOp("CastLike", {dys[0], y.centered});
  const NodeEntry none = ApplyOp("Equal", {y.deviation, ScalarOf(y.deviation, 0)});
  const NodeEntry divisor = ApplyOp("Where", {none, ScalarOf(y.deviation, 1), y.deviation});
  const NodeEntry pull = mean_of(dy * y.centered) * y.inverse / divisor;
  return {ApplyOp("CastLike", {(dy - mean_of(dy) - y.centered * pull) * y.inverse, x})};
}

/// The body that ONNX gives the operator is of f32 alone.
std::string MeanVarianceNormBody(const OnnxBodyRequest& r) {
  const DType t = r.input_types[0].dtype;
  if (t == DType::kF32) return {};
  const Ints& given = ParamOf<MeanVarianceNormParam>(r.node).axes;
  const std::string axes =
      given.empty() ? ""
                    : fmt::format("a = Constant<value_ints = [{}]>()\n", fmt::join(given, ", "));
  const char* over = given.empty() ? "" : ", a";
  const char* x = t == DType::kF64 ? "Identity(i0)" : "Cast<to = 1>(i0)";
  return fmt::format(
      "{0}x = {2}\nm = ReduceMean<keepdims = 1>(x{1})\nd = Sub(x, m)\n"
      "e = ReduceMean<keepdims = 1>(d{1})\nc = Sub(d, e)\nq = Mul(c, c)\n"
      "v = ReduceMean<keepdims = 1>(q{1})\ns = Sqrt(v)\nf = Constant<value_float = {3:.9g}>()\n"
      "g = CastLike(f, s)\nh = Add(s, g)\ny = Div(c, h)\no0 = CastLike(y, i0)",
      axes, over, x, kEpsilon);
}

}  // namespace

WEFT_REGISTER_OP(MeanVarianceNormalization)
    .describe(
        "y = (x - mean) / (sqrt(variance) + 1e-9), mean and variance of the population over "
        "`axes`. "
        "f16 and bf16 compute in f32, rounded once.\n"
        "Gradient: ordinary ops, the statistics computed again from x. Errors: an axis out of "
        "range or "
        "repeated (kBadAttribute).\n"
        "Source: ONNX MeanVarianceNormalization-13.")
    .input("X", TypeDoc(kFloats))
    .output("Y", "T")
    .param<MeanVarianceNormParam>()
    .example({"f32[2, 3, 4, 2]"})
    .example({"f32[n, 5]"}, "axes = [-1]")
    .example({"f64[3, 4]"}, "axes = []")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", MeanVarianceNormShape)
    .set_attr<FCodeGen>("FCodeGen", MeanVarianceNormCode)
    .set_attr<FGradient>("FGradient", MeanVarianceNormGrad)
    .set_attr<FSimplify>("FSimplify", AsMoments)
    .set_attr<FOnnxBody>("FOnnxBody", MeanVarianceNormBody)
    .set_attr<FFlops>("FFlops",
                      [](const NodePtr&, const std::vector<Shape>& in, const std::vector<Shape>&) {
                        return in.at(0).num_elements() * 8;
                      });

}  // namespace weft::ops
