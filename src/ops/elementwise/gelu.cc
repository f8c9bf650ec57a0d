/// gelu.cc: smooth activations x * gate(x): Gelu, Swish (SiLU), Mish.
#include "ops/util/op_util.h"
#include "weft/support/check.h"

namespace weft::ops {

struct GeluParam : OpParam<GeluParam> {
  std::string approximate;
  WEFT_OP_PARAM(GeluParam) {
    WEFT_FIELD(approximate)
        .set_default("none")
        .describe("\"none\": by erf; \"tanh\": by the tanh approximation");
  }
};
WEFT_REGISTER_OP_PARAM(GeluParam);

struct SwishParam : OpParam<SwishParam> {
  float alpha;
  WEFT_OP_PARAM(SwishParam) {
    WEFT_FIELD(alpha).set_default(1.0f).describe("factor inside the sigmoid");
  }
};
WEFT_REGISTER_OP_PARAM(SwishParam);

namespace {

using Entry = const NodeEntry&;

constexpr double kSqrtHalf = 0.70710678118654752440;     // 1 / sqrt(2)
constexpr double kSqrt2OverPi = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kInvSqrt2Pi = 0.39894228040143267794;   // 1 / sqrt(2 * pi)
constexpr double kCubic = 0.044715;                      // Hendrycks and Gimpel, 2016

bool ByTanh(const NodePtr& n) {
  const std::string& a = ParamOf<GeluParam>(n).approximate;
  WEFT_CHECK(a == "none" || a == "tanh", kBadAttribute,
             "{}: approximate is \"{}\", expected \"none\" or \"tanh\"", n->Describe(), a);
  return a == "tanh";
}
void GeluType(InferTypeContext& ctx) {
  ByTanh(ctx.node());
  const Type t = CommonInputType(ctx, kFloats);
  if (t.known()) ctx.set_out(0, t);
}
Exprs GeluCode(const NodePtr& n, const Exprs& in) {
  const bool by_tanh = ByTanh(n);
  return {WithCompute(in[0], [by_tanh](const Expr& x) {
    const Expr gate = by_tanh ? CallMath(CallOp::kTanh, (x + x * x * x * kCubic) * kSqrt2OverPi)
                              : CallMath(CallOp::kErf, x * kSqrtHalf);
    return x * 0.5 * (gate + 1.0);
  })};
}
NodeEntry GeluGrad(const NodePtr& n, Entry x, Entry, Entry dy) {
  const auto c = [&x](double v) { return ScalarOf(x, v); };
  if (!ByTanh(n)) {
    const NodeEntry cdf = (ApplyOp("Erf", {x * c(kSqrtHalf)}) + c(1)) * c(0.5);
    const NodeEntry pdf = ApplyOp("Exp", {x * x * c(-0.5)}) * c(kInvSqrt2Pi);
    return dy * (cdf + x * pdf);
  }
  const NodeEntry square = x * x, one = c(1);
  const NodeEntry t = ApplyOp("Tanh", {(x * (one + square * c(kCubic))) * c(kSqrt2OverPi)});
  const NodeEntry slope = (one + square * c(3 * kCubic)) * c(kSqrt2OverPi);
  const NodeEntry gate = (one + t) * c(0.5);
  return dy * (gate + x * c(0.5) * ((one - t) * (one + t)) * slope);
}

Exprs SwishCode(const NodePtr& n, const Exprs& in) {
  const double alpha = ParamOf<SwishParam>(n).alpha;
  return {WithCompute(
      in[0], [alpha](const Expr& x) { return x * CallMath(CallOp::kSigmoid, x * alpha); })};
}
NodeEntry SwishGrad(const NodePtr& n, Entry x, Entry, Entry dy) {
  const float alpha = ParamOf<SwishParam>(n).alpha;
  const NodeEntry scaled = alpha == 1 ? x : x * ScalarOf(x, alpha);
  const NodeEntry s = ApplyOp("Sigmoid", {scaled});
  return dy * (s + scaled * (s * (ScalarOf(s, 1) - s)));
}

/// tanh(log(1 + e^x)) by way of e = e^-|x|, which never overflows: with n = e^x it is (n^2 + 2n) /
/// (n^2 + 2n + 2).
Expr MishOf(const Expr& x) {
  const Expr e = CallMath(CallOp::kExp, -Expr::Unary(UnOp::kAbs, x));
  const Expr negative = e * (e + 2.0);  // x < 0: n = e
  const Expr positive = e * 2.0 + 1.0;  // x >= 0: both divided by n^2, n = 1 / e
  const Expr below = Lt(x, ConstOf(x, 0));
  const Expr upper = Expr::Select(below, negative, positive);
  const Expr rest = Expr::Select(below, ConstOf(x, 2), e * e * 2.0);
  return x * (upper / (upper + rest));
}
NodeEntry MishGrad(Entry x, Entry, Entry dy) {
  const NodeEntry t = ApplyOp("Tanh", {ApplyOp("Softplus", {x})}), one = ScalarOf(x, 1);
  return dy * (t + x * ((one - t) * (one + t)) * ApplyOp("Sigmoid", {x}));
}

}  // namespace

WEFT_REGISTER_UNARY_OP(
    Gelu, kFloats,
    "y = x * cdf(x), cdf of the normal distribution: (1 + erf(x / sqrt 2)) / 2, "
    "or (1 + tanh(sqrt(2 / pi) * "
    "(x + 0.044715 x^3))) / 2. Gradient: dx = dy * (cdf + x * cdf'); retains x. "
    "Errors: an `approximate` other than none and tanh (kBadAttribute). Source: ONNX Gelu-20.")
    .param<GeluParam>()
    .set_attr<FInferType>("FInferType", GeluType)
    .set_attr<FCodeGen>("FCodeGen", GeluCode)
    .set_attr<FGradient>("FGradient", UnaryNodeGradient(GeluGrad))
    .example({"f32[2, n, 3]"})
    .example({"f16[]"}, "approximate = \"tanh\"")
    .example({"f64[4]"}, "approximate = \"tanh\"");

WEFT_REGISTER_UNARY_OP(Swish, kFloats,
                       "y = x * Sigmoid(alpha * x). Gradient: dx = dy * (s + alpha * x * s * (1 - "
                       "s)), s the sigmoid; retains x. "
                       "Source: ONNX Swish-24.")
    .param<SwishParam>()
    .set_attr<FCodeGen>("FCodeGen", SwishCode)
    .set_attr<FGradient>("FGradient", UnaryNodeGradient(SwishGrad))
    .example({"f32[2, n, 3]"})
    .example({"bf16[]"})
    .example({"f64[4]"}, "alpha = 1.5");

WEFT_REGISTER_UNARY_OP(Mish, kFloats,
                       "y = x * tanh(log(1 + e^x)). Gradient: dx = dy * (t + x * (1 - t^2) * "
                       "Sigmoid(x)), t the tanh; retains x. "
                       "Source: ONNX Mish-22.")
    .set_attr<FCodeGen>("FCodeGen", UnaryCodeGen(MishOf))
    .set_attr<FGradient>("FGradient", UnaryGradient(MishGrad))
    .example({"f32[2, n, 3]"})
    .example({"f16[]"});

}  // namespace weft::ops
