/// moments.cc: weft::Moments and weft::Normalize: what normalisations in training are made of.
///
///   m, v, e = weft::Moments(x, axes)               mean, population variance; axes kept as 1
///   y = weft::Normalize(x, m, v, scale, bias, e)   (x - m - e) / sqrt(v + epsilon) scale + bias
///
/// e is what the dtype of m cannot hold of the mean. Whoever takes differences to the mean takes it
/// off as well: where mean / deviation is 1e4, m alone is wrong by 6e-4 deviations.
///
/// One reduction with three results and one element-wise operator, rather than the means,
/// differences and squares that they stand for: forward and backward part of a model then
/// share the row values m, v and e only, and nothing of the size of x is kept but x itself.
/// How they are computed: row_moments.h.
///
/// Gradient of Normalize, with h = (x - m - e) r and r = 1 / sqrt(v + epsilon): dx = dy scale r,
/// dm = de = -SumTo(dx), dv = -SumTo(dx (x - m - e)) r^2 / 2, dscale = SumTo(dy h),
/// dbias = SumTo(dy). Moments passes none on from e: it is a rounding error.
#include <algorithm>

#include "ops/util/demand.h"
#include "ops/util/row_moments.h"
#include "weft/core/op/onnx_body.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct NormalizeParam : OpParam<NormalizeParam> {
  double epsilon;
  WEFT_OP_PARAM(NormalizeParam) {
    WEFT_FIELD(epsilon).set_default(1e-5).set_lower_bound(0).describe("added to the variance");
  }
};
WEFT_REGISTER_OP_PARAM(NormalizeParam);

// ---- Moments ----

void MomentsType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kFloats);
  CheckInputType(ctx, 1, kI64Only);
  if (!ctx.in(0).known()) return;
  for (int k = 0; k < 3; ++k) ctx.set_out(k, AccumulatorOf(ctx.in(0).dtype));
}
void MomentsShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  const auto set = [&ctx](const Shape& s) {
    for (int k = 0; k < 3; ++k) ctx.set_out(k, s);
  };
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  const auto axes = InputInts(ctx, 1);
  if (!axes) {
    set(Shape::OfRank(x.rank()));
    return Unknown(ctx, 0, "the axes are not known at compile time");
  }
  std::vector<SymInt> dims = x.dims();
  for (int a : NormalizeAxes(*axes, x.rank(), ctx.node())) dims[size_t(a)] = 1;
  set(Shape(std::move(dims)));
}

Exprs MomentsCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  std::vector<int> axes = NormalizeAxes(KnownInts(n, in[1], "axes"), x.rank(), n);
  std::sort(axes.begin(), axes.end());
  std::vector<SymInt> extents;
  for (int a : axes) extents.push_back(x.shape[a]);
  const DType t = AccumulatorOf(x.dtype);
  const auto moments = [&](int k) {
    const auto read = [&, k](const Indices& r) {
      Indices from = at(k);
      for (size_t i = 0; i < axes.size(); ++i) from[size_t(axes[i])] = r[i];
      return x(from);
    };
    return MomentsOver(extents, t, read, UnknownRows::kWide);
  };
  const RowMoments mean = moments(0), variance = moments(1), rest = moments(2);
  // As much of the mean as one number holds, and what is left of it.
  return {mean.mean + mean.rest, variance.variance,
          (rest.mean - (rest.mean + rest.rest)) + rest.rest};
}

std::vector<NodeEntry> MomentsGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  if (!dys[0] && (dys.size() < 2 || !dys[1])) return {NodeEntry(), NodeEntry()};
  const NodeEntry x = n->inputs[0], mean(n, 0), rest(n, 2);
  const NodeEntry count =
      ApplyOp("ReduceProd", {ApplyOp("Gather", {ShapeOf(x), n->inputs[1]})}, {{"keepdims", 0}});
  const auto share = [&](const NodeEntry& e) { return ApplyOp("weft::DivideCount", {e, count}); };
  NodeEntry dx;
  if (dys[0]) dx = ExpandLike(share(dys[0]), x);
  if (dys.size() > 1 && dys[1]) {
    const NodeEntry d = ApplyOp("CastLike", {x, mean}) - mean - rest;
    const NodeEntry term = d * share(dys[1] * ScalarOf(mean, 2));
    dx = dx ? dx + term : term;
  }
  return {ApplyOp("CastLike", {dx, x}), NodeEntry()};
}

std::string MomentsBody(const OnnxBodyRequest& r) {
  const DType t = r.input_types[0].dtype;
  const std::string x = IsNarrowFloat(t) ? "Cast<to = 1>(i0)" : "Identity(i0)";
  return "x = " + x +
         "\no0 = ReduceMean<keepdims = 1, noop_with_empty_axes = 1>(x, i1)\nd = Sub(x, o0)\n"
         "o2 = ReduceMean<keepdims = 1, noop_with_empty_axes = 1>(d, i1)\ndd = Mul(d, d)\n"
         "v = ReduceMean<keepdims = 1, noop_with_empty_axes = 1>(dd, i1)\nee = Mul(o2, o2)\n"
         "o1 = Sub(v, ee)";
}

// ---- Normalize ----

void NormalizeType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kFloats);
  CommonInputType(ctx, kFloats, 1, 6);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}
void NormalizeShape(InferShapeContext& ctx) {
  for (int i = 1; i < ctx.num_inputs(); ++i) DemandBroadcastTo(ctx, i, ctx.in(0));
  UnaryShape(ctx);
}
Exprs NormalizeCode(const NodePtr& n, const Exprs& in) {
  const DType t = std::max(AccumulatorOf(in[0]->dtype()), AccumulatorOf(in[1]->dtype()));
  const auto wide = [&](size_t i) { return Expr::Cast(t, in[i]); };
  const Expr inverse =
      CallMath(CallOp::kRsqrt, wide(2) + Expr::Const(t, ParamOf<NormalizeParam>(n).epsilon));
  Expr d = wide(0) - wide(1);
  if (in.size() > 5 && in[5]) d = d - wide(5);
  return {Expr::Cast(in[0]->dtype(), Expr::Fma(d, inverse * wide(3), wide(4)))};
}

std::vector<NodeEntry> NormalizeGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  if (!dys[0]) return NoGradient(n, dys);
  const NodeEntry x = n->inputs[0], mean = n->inputs[1], var = n->inputs[2], scale = n->inputs[3];
  const NodeEntry dy = ApplyOp("CastLike", {dys[0], mean});
  NodeEntry centered = ApplyOp("CastLike", {x, mean}) - mean;
  if (HasInput(n, 5)) centered = centered - n->inputs[5];
  const NodeEntry inverse = ApplyOp(
      "Reciprocal", {ApplyOp("Sqrt", {var + ScalarOf(var, ParamOf<NormalizeParam>(n).epsilon)})});
  const NodeEntry g = dy * (scale * inverse);
  std::vector<NodeEntry> d{ApplyOp("CastLike", {g, x}), SumTo(-g, mean),
                           SumTo(g * centered, var) * (inverse * inverse * ScalarOf(var, -0.5)),
                           SumTo(dy * (centered * inverse), scale), SumTo(dy, n->inputs[4])};
  if (n->num_inputs() > 5) d.push_back(HasInput(n, 5) ? SumTo(-g, n->inputs[5]) : NodeEntry());
  return d;
}

std::string NormalizeBody(const OnnxBodyRequest& r) {
  const char* centered =
      HasInput(r.node, 5) ? "c = Sub(x, i1)\nd = Sub(c, i5)\n" : "d = Sub(x, i1)\n";
  return fmt::format(
      "x = CastLike(i0, i1)\n{}e0 = Constant<value_float = {:.9g}>()\n"
      "e = CastLike(e0, i2)\nve = Add(i2, e)\ns = Sqrt(ve)\nh = Div(d, s)\nhs = Mul(h, i3)\n"
      "y = Add(hs, i4)\no0 = CastLike(y, i0)",
      centered, r.node->attr<double>("epsilon"));
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, Moments)
    .describe(
        "Mean and population variance of x over `axes`, which stay with size 1. In f32 for f16 and "
        "bf16, by sums in f64;\n"
        "`rest` is what the mean loses by its dtype: mean + rest is right where mean / deviation "
        "is 1e6 as well. No axes: x, 0, 0;\n"
        "over nothing: NaN.\n"
        "Gradient: dx = (dmean + 2 (x - mean - rest) dvar) / count, ordinary ops. Errors: an axis "
        "out of range or repeated (kBadAttribute), axes not constant (kUnsupported when code is "
        "made). Source: Weft.")
    .input("x", TypeDoc(kFloats))
    .input("axes", "i64", "in [-rank, rank)")
    .output("mean", "f32, or f64 for f64")
    .output("variance", "as mean")
    .output("rest", "as mean")
    .param<NoParam>()
    .example({"f32[2, 3, 4]", "i64[2] = [0, 2]"})
    .example({"f16[n, 3]", "i64[1] = [-1]"})
    .set_attr<FInferType>("FInferType", MomentsType)
    .set_attr<FInferShape>("FInferShape", MomentsShape)
    .set_attr<FCodeGen>("FCodeGen", MomentsCode)
    .set_attr<FGradient>("FGradient", MomentsGrad)
    .set_attr<FOnnxBody>("FOnnxBody", MomentsBody)
    .set_attr<FFlops>("FFlops",
                      [](const NodePtr&, const std::vector<Shape>& in, const std::vector<Shape>&) {
                        return in.at(0).num_elements() * 5;
                      });

WEFT_REGISTER_OP_IN(weft, Normalize)
    .describe(
        "y = (x - mean - rest) / sqrt(variance + epsilon) scale + bias. All broadcast to x; "
        "computed in the widest dtype, at least f32.\n"
        "Gradient: by all of them, ordinary ops; keeps x, mean, variance and scale. Errors: an "
        "operand that does not broadcast to x (kShapeMismatch). Source: Weft.")
    .input("x", TypeDoc(kFloats))
    .input("mean", TypeDoc(kFloats, "U"), "broadcasts to x")
    .input("variance", "U")
    .input("scale", "U")
    .input("bias", "U")
    .optional_input("rest", "U", "of the mean; absent: 0")
    .output("y", "T", "the shape of x")
    .param<NormalizeParam>()
    .example({"f32[2, 3, 4]", "f32[3, 1]", "f32[3, 1]", "f32[3, 1]", "f32[3, 1]"})
    .example({"f16[n, 5]", "f32[n, 1]", "f32[n, 1]", "f32[5]", "f32[5]"}, "epsilon = 0.01")
    .example({"f32[3, n]", "f32[3, 1]", "f32[3, 1]", "f32[1]", "f32[1]", "f32[3, 1]"})
    .set_attr<FInferType>("FInferType", NormalizeType)
    .set_attr<FInferShape>("FInferShape", NormalizeShape)
    .set_attr<FCodeGen>("FCodeGen", NormalizeCode)
    .set_attr<FGradient>("FGradient", NormalizeGrad)
    .set_attr<FOnnxBody>("FOnnxBody", NormalizeBody)
    .set_attr<FInplace>("FInplace", InplaceOf({0}))
    .set_attr<FInputDomains>("FInputDomains", Domains({Any(), Any(), Positive(), Any(), Any()}))
    .set_attr<FFlops>("FFlops",
                      [](const NodePtr&, const std::vector<Shape>& in, const std::vector<Shape>&) {
                        return in.at(0).num_elements() * 5;
                      });

}  // namespace weft::ops
