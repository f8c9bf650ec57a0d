/// lrn.cc: LRN, local response normalization across channels, and weft::ChannelWindowSum, the
/// linear op that its gradient is made of.
#include <algorithm>

#include "ops/util/shape_util.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct LrnParam : OpParam<LrnParam> {
  double alpha, beta, bias;
  int64_t size;
  WEFT_OP_PARAM(LrnParam) {
    WEFT_FIELD(alpha).set_default(1e-4).describe("scale of the mean square");
    WEFT_FIELD(beta).set_default(0.75).describe("exponent");
    WEFT_FIELD(bias).set_default(1).describe("added to the scaled mean square");
    WEFT_FIELD(size).set_range(1, INT32_MAX).describe("channels summed over");
  }
};
WEFT_REGISTER_OP_PARAM(LrnParam);

struct ChannelWindowParam : OpParam<ChannelWindowParam> {
  int64_t before, after;
  WEFT_OP_PARAM(ChannelWindowParam) {
    WEFT_FIELD(before).set_range(0, INT32_MAX).describe("channels before the one asked for");
    WEFT_FIELD(after).set_range(0, INT32_MAX).describe("channels after it");
  }
};
WEFT_REGISTER_OP_PARAM(ChannelWindowParam);

void ChannelShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  WEFT_CHECK(!x.has_rank() || x.rank() >= 2, kShapeMismatch,
             "{}: x must have rank 2 or more, got {}", ctx.node()->Describe(), x.ToString());
  UnaryShape(ctx);
}

/// Sum of f(x) over channels [c - before, c + after] that exist, in dtype t.
Expr WindowSum(const TensorArg& x, const Indices& at, int64_t before, int64_t after, DType t,
               const std::function<Expr(const Expr&)>& f) {
  if (const SymInt c = x.shape[1]; c.is_const()) {  // no wider than the channels that there are
    before = std::min(before, std::max<int64_t>(c.value() - 1, 0));
    after = std::min(after, std::max<int64_t>(c.value() - 1, 0));
  }
  return Expr::Reduce(ReduceOp::kSum, {SymInt(before + after + 1)}, [&](const Indices& r) {
    Indices from = at;
    from[1] = at[1] + r[0] - Expr::Int(before);
    return ReadWhere(InRange(from[1], x.dim(1)), f(Expr::Cast(t, x(from))), Zero(t));
  });
}

/// The window of channel c is [c - floor((size - 1) / 2), c + ceil((size - 1) / 2)].
int64_t Before(const NodePtr& n) { return (ParamOf<LrnParam>(n).size - 1) / 2; }
int64_t After(const NodePtr& n) { return ParamOf<LrnParam>(n).size / 2; }

Exprs LrnCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<LrnParam>(n);
  const TensorArg& x = in[0];
  const DType t = AccumulatorOf(x.dtype);
  const Expr sum = WindowSum(x, at(0), Before(n), After(n), t, [](const Expr& e) { return e * e; });
  const Expr base = sum * Expr::Const(t, p.alpha / double(p.size)) + Expr::Const(t, p.bias);
  const Expr scale = Expr::Call(CallOp::kPow, {base, Expr::Const(t, -p.beta)});
  return {Expr::Cast(x.dtype, Expr::Cast(t, x(at(0))) * scale)};
}

/// With D = bias + a S(x^2), a = alpha / size, S the sum over a channel's window and S' over the
/// mirrored one:
///   dx = dy D^-beta - 2 a beta x S'(dy x D^(-beta - 1))
std::vector<NodeEntry> LrnGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  if (!dys[0]) return {NodeEntry()};
  const auto& p = ParamOf<LrnParam>(n);
  const NodeEntry x = n->inputs[0], dy = dys[0];
  const double a = p.alpha / double(p.size);
  const auto window = [&](const NodeEntry& e, int64_t before, int64_t after) {
    return ApplyOp("weft::ChannelWindowSum", {e}, {{"before", before}, {"after", after}});
  };
  const NodeEntry base = window(x * x, Before(n), After(n)) * ScalarOf(x, a) + ScalarOf(x, p.bias);
  const NodeEntry scale = ApplyOp("Pow", {base, ScalarOf(x, -p.beta)});
  const NodeEntry through = window(dy * x * scale / base, After(n), Before(n));
  return {dy * scale - ScalarOf(x, 2 * a * p.beta) * x * through};
}

Exprs WindowSumCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<ChannelWindowParam>(n);
  const DType t = AccumulatorOf(in[0].dtype);
  return {Expr::Cast(
      in[0].dtype, WindowSum(in[0], at(0), p.before, p.after, t, [](const Expr& e) { return e; }))};
}
std::vector<NodeEntry> WindowSumGrad(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry()};
  const auto& p = ParamOf<ChannelWindowParam>(n);
  return {ApplyOp("weft::ChannelWindowSum", {dy[0]}, {{"before", p.after}, {"after", p.before}})};
}

}  // namespace

WEFT_REGISTER_OP(LRN)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .describe(
        "y = x / (bias + alpha / size sum of x^2 over channels [c - floor((size - 1) / 2), c + "
        "ceil((size - 1) / 2)])^beta.\n"
        "f16 and bf16 compute in f32. Gradient: ordinary ops and weft::ChannelWindowSum; keeps x.\n"
        "Errors: rank below 2 (kShapeMismatch). Source: ONNX LRN-13.")
    .input("X", TypeDoc(kFloats), "[n, c, spatial...]")
    .output("Y", "T")
    .param<LrnParam>()
    .example({"f32[2, 5, 3, 2]"}, "size = 3, alpha = 0.5, bias = 2.0")
    .example({"f32[n, 4, 3]"}, "size = 2")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", ChannelShape)
    .set_attr<FCodeGen>("FCodeGen", LrnCode)
    .set_attr<FGradient>("FGradient", LrnGrad)
    .set_attr<FFlops>("FFlops", [](const NodePtr& n, const std::vector<Shape>& in,
                                   const std::vector<Shape>&) {
      return in.at(0).num_elements() * (2 * ParamOf<LrnParam>(n).size + 4);
    });

WEFT_REGISTER_OP_IN(weft, ChannelWindowSum)
    .describe(
        "y[b, c, ...] = sum of x[b, j, ...] over channels j in [c - before, c + after] that exist. "
        "Gradient: the same with the window mirrored. Errors: rank below 2 (kShapeMismatch). "
        "Source: Weft.")
    .input("x", TypeDoc(kFloats), "[n, c, spatial...]")
    .output("y", "T")
    .param<ChannelWindowParam>()
    .example({"f32[2, 5, 3]"}, "before = 1, after = 2")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", ChannelShape)
    .set_attr<FCodeGen>("FCodeGen", WindowSumCode)
    .set_attr<FGradient>("FGradient", WindowSumGrad);

}  // namespace weft::ops
