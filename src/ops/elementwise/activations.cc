/// activations.cc: piecewise linear and exponential activations: Relu, LeakyRelu, ThresholdedRelu,
/// PRelu, Elu, Celu, Selu, Sigmoid, HardSigmoid, HardSwish, Softplus, Softsign, Shrink.
///
/// At a kink gradients are the left derivative, PyTorch's choice: Relu'(0) = 0.
/// Gradients select with Where, so that the unused branch cannot leak a NaN. Exponentials are taken
/// from y (y + alpha = alpha * e^x): nothing overflows in the unused branch.
#include "ops/util/demand.h"
#include "weft/core/tensor/demand.h"
#include "weft/support/check.h"

namespace weft::ops {

#define WEFT_ALPHA_PARAM(Name, Default, Doc)                                      \
  struct Name : OpParam<Name> {                                                   \
    float alpha;                                                                  \
    WEFT_OP_PARAM(Name) { WEFT_FIELD(alpha).set_default(Default).describe(Doc); } \
  };                                                                              \
  WEFT_REGISTER_OP_PARAM(Name)

WEFT_ALPHA_PARAM(LeakyReluParam, 0.01f, "slope for x < 0");
WEFT_ALPHA_PARAM(ThresholdedReluParam, 1.0f, "threshold");
WEFT_ALPHA_PARAM(EluParam, 1.0f, "y tends to -alpha for x to -inf");
WEFT_ALPHA_PARAM(CeluParam, 1.0f, "y tends to -alpha for x to -inf; not 0");

struct SeluParam : OpParam<SeluParam> {
  float alpha, gamma;
  WEFT_OP_PARAM(SeluParam) {
    WEFT_FIELD(alpha)
        .set_default(1.67326319217681884765625f)
        .describe("y tends to -gamma * alpha for x to -inf");
    WEFT_FIELD(gamma).set_default(1.05070102214813232421875f).describe("slope for x > 0");
  }
};
WEFT_REGISTER_OP_PARAM(SeluParam);

struct HardSigmoidParam : OpParam<HardSigmoidParam> {
  float alpha, beta;
  WEFT_OP_PARAM(HardSigmoidParam) {
    WEFT_FIELD(alpha).set_default(0.2f).describe("slope");
    WEFT_FIELD(beta).set_default(0.5f).describe("y at 0");
  }
};
WEFT_REGISTER_OP_PARAM(HardSigmoidParam);

struct ShrinkParam : OpParam<ShrinkParam> {
  float bias, lambd;
  WEFT_OP_PARAM(ShrinkParam) {
    WEFT_FIELD(bias).set_default(0.0f).describe("what is taken off the magnitude");
    WEFT_FIELD(lambd).set_default(0.5f).describe("half width of the interval that becomes 0");
  }
};
WEFT_REGISTER_OP_PARAM(ShrinkParam);

namespace {

using Entry = const NodeEntry&;
using Code = std::function<Expr(const Expr&)>;

NodeEntry Greater0(Entry x) { return ApplyOp("Greater", {x, ScalarOf(x, 0)}); }
NodeEntry Where(Entry c, Entry a, Entry b) { return ApplyOp("Where", {c, a, b}); }

/// FCodeGen and FGradient of ops with attribute struct P.
template <class P, class F>
FCodeGen CodeWith(F f) {
  return [f](const NodePtr& n, const Exprs& x) -> Exprs {
    const P& p = ParamOf<P>(n);
    return {WithCompute(x[0], [&](const Expr& v) { return f(p, v); })};
  };
}
template <class P, class F>
FGradient GradientWith(F f) {
  return UnaryNodeGradient(
      [f](const NodePtr& n, Entry x, Entry y, Entry dy) { return f(ParamOf<P>(n), x, y, dy); });
}

SymInt ReluValue(const std::vector<SymInt>& x, const ValueArgs&) { return Max(x[0], 0); }

Expr HardSigmoidOf(const Expr& x, double alpha, double beta) {
  return Max(Min(x * alpha + beta, ConstOf(x, 1)), ConstOf(x, 0));
}
/// log(1 + e^x) without overflow.
Expr SoftplusOf(const Expr& x) {
  return Max(x, ConstOf(x, 0)) +
         CallMath(CallOp::kLog1p, CallMath(CallOp::kExp, -Expr::Unary(UnOp::kAbs, x)));
}

}  // namespace

// ---- rectifiers ----

WEFT_REGISTER_UNARY_OP(
    Relu, kSignedNumeric,
    "y = max(x, 0); NaN stays NaN. Gradient: dx = dy where y > 0, else 0; retains y. "
    "Source: ONNX Relu-14.")
    .set_attr<FInferShape>("FInferShape", UnaryShapeAndValue(ReluValue))
    .set_attr<FCodeGen>("FCodeGen",
                        UnaryCodeGen([](const Expr& x) { return Max(x, ConstOf(x, 0)); }))
    .set_attr<FGradient>("FGradient", UnaryGradient([](Entry, Entry y, Entry dy) {
                           return MaskedGrad(Greater0(y), dy);
                         }))
    .set_attr<FSimplify>("FSimplify", SimplifyIdempotent)
    .example({"f32[2, n, 3]"})
    .example({"f64[]"})
    .example({"i32[4]"});

WEFT_REGISTER_UNARY_OP(
    LeakyRelu, kFloats,
    "y = x for x >= 0, alpha * x below. Gradient: dx = dy where x > 0, else alpha * dy; "
    "retains x. Source: ONNX LeakyRelu-16.")
    .param<LeakyReluParam>()
    .set_attr<FCodeGen>("FCodeGen",
                        CodeWith<LeakyReluParam>([](const LeakyReluParam& p, const Expr& x) {
                          return Expr::Select(Lt(x, ConstOf(x, 0)), x * double(p.alpha), x);
                        }))
    .set_attr<FGradient>("FGradient", GradientWith<LeakyReluParam>([](const LeakyReluParam& p,
                                                                      Entry x, Entry, Entry dy) {
                           return Where(Greater0(x), dy, dy * ScalarOf(dy, p.alpha));
                         }))
    .example({"f32[2, n, 3]"})
    .example({"f16[]"}, "alpha = 0.2");

WEFT_REGISTER_UNARY_OP(ThresholdedRelu, kFloats,
                       "y = x where x > alpha, else 0. Gradient: dx = dy where x > alpha, else 0; "
                       "retains x. Source: ONNX ThresholdedRelu-22.")
    .param<ThresholdedReluParam>()
    .set_attr<FCodeGen>("FCodeGen", CodeWith<ThresholdedReluParam>([](const ThresholdedReluParam& p,
                                                                      const Expr& x) {
                          return Expr::Select(Gt(x, ConstOf(x, p.alpha)), x, ConstOf(x, 0));
                        }))
    .set_attr<FGradient>("FGradient",
                         GradientWith<ThresholdedReluParam>([](const ThresholdedReluParam& p,
                                                               Entry x, Entry, Entry dy) {
                           return MaskedGrad(ApplyOp("Greater", {x, ScalarOf(x, p.alpha)}), dy);
                         }))
    .example({"f32[2, n, 3]"})
    .example({"f64[]"}, "alpha = 0.3");

namespace {

constexpr DTypeSet kPReluTypes =
    kFloats | DTypeSet{DType::kI32, DType::kI64, DType::kU32, DType::kU64};

/// Slope broadcasts to x, never x to slope.
void PReluShape(InferShapeContext& ctx) {
  DemandBroadcastTo(ctx, 1, ctx.in(0));
  ctx.set_out(0, ctx.in(0));
}

}  // namespace

WEFT_REGISTER_OP(PRelu)
    .describe(
        "y = x for x >= 0, slope * x below. Gradient: dx = dy where x > 0, else dy * slope; dslope "
        "= SumTo(dy * x where "
        "x < 0, slope); retains x and slope. Errors: a slope that does not broadcast to x "
        "(kShapeMismatch). Source: ONNX PRelu-16.")
    .input("x", TypeDoc(kPReluTypes))
    .input("slope", "T", "broadcasts to the shape of x")
    .output("y", "T", "the shape of x")
    .param<NoParam>()
    .include("ElementwiseBinary")
    .set_attr<FInferType>("FInferType", SameType(kPReluTypes))
    .set_attr<FInferShape>("FInferShape", PReluShape)
    .set_attr<TBroadcasts>("TBroadcasts", false)
    .set_attr<FInplace>("FInplace", InplaceOf({0}))
    .set_attr<FCodeGen>("FCodeGen", BinaryCodeGen([](const Expr& x, const Expr& slope) {
                          return Expr::Select(Lt(x, ConstOf(x, 0)), slope * x, x);
                        }))
    .set_attr<FGradient>("FGradient", BinaryGradient([](Entry x, Entry slope, Entry, Entry dy) {
                           const NodeEntry negative = ApplyOp("Less", {x, ScalarOf(x, 0)});
                           return std::pair(Where(Greater0(x), dy, dy * slope),
                                            MaskedGrad(negative, dy * x));
                         }))
    .example({"f32[2, n, 3]", "f32[3]"})
    .example({"f32[m, 4, 3]", "f32[4, 1]"})
    .example({"i32[4]", "i32[]"});

// ---- exponential units ----

WEFT_REGISTER_UNARY_OP(
    Elu, kFloats,
    "y = x for x >= 0, alpha * (e^x - 1) below. Gradient: dx = dy where x > 0, else "
    "dy * (y + alpha); retains x and y. Source: ONNX Elu-22.")
    .param<EluParam>()
    .set_attr<FCodeGen>("FCodeGen", CodeWith<EluParam>([](const EluParam& p, const Expr& x) {
                          return Expr::Select(Lt(x, ConstOf(x, 0)),
                                              CallMath(CallOp::kExpm1, x) * double(p.alpha), x);
                        }))
    .set_attr<FGradient>("FGradient",
                         GradientWith<EluParam>([](const EluParam& p, Entry x, Entry y, Entry dy) {
                           return Where(Greater0(x), dy, dy * (y + ScalarOf(y, p.alpha)));
                         }))
    .example({"f32[2, n, 3]"})
    .example({"f16[]"}, "alpha = 0.5");

WEFT_REGISTER_UNARY_OP(
    Celu, kFloats,
    "y = max(0, x) + min(0, alpha * (e^(x / alpha) - 1)). Gradient: dx = dy where x > 0, else "
    "dy * (y / alpha + 1); retains x and y. Errors: alpha = 0 (kBadAttribute). Source: ONNX "
    "Celu-12.")
    .param<CeluParam>()
    .set_attr<FInferType>("FInferType", FInferType([](InferTypeContext& ctx) {
                            WEFT_CHECK(ParamOf<CeluParam>(ctx.node()).alpha != 0, kBadAttribute,
                                       "{}: alpha must not be 0", ctx.node()->Describe());
                            SameType(kFloats)(ctx);
                          }))
    .set_attr<FCodeGen>("FCodeGen", CodeWith<CeluParam>([](const CeluParam& p, const Expr& x) {
                          const Expr zero = ConstOf(x, 0);
                          const Expr curve =
                              CallMath(CallOp::kExpm1, x / double(p.alpha)) * double(p.alpha);
                          return Max(x, zero) + Min(curve, zero);
                        }))
    .set_attr<FGradient>("FGradient", GradientWith<CeluParam>([](const CeluParam& p, Entry x,
                                                                 Entry y, Entry dy) {
                           return Where(Greater0(x), dy,
                                        dy * (y / ScalarOf(y, p.alpha) + ScalarOf(y, 1)));
                         }))
    .example({"f32[2, n, 3]"})
    .example({"f32[]"}, "alpha = 2.0");

WEFT_REGISTER_UNARY_OP(
    Selu, kFloats,
    "y = gamma * x for x > 0, gamma * alpha * (e^x - 1) below. Gradient: dx = dy * gamma where "
    "x > 0, else dy * (y + gamma * alpha); retains x and y. Source: ONNX Selu-22.")
    .param<SeluParam>()
    .set_attr<FCodeGen>("FCodeGen", CodeWith<SeluParam>([](const SeluParam& p, const Expr& x) {
                          const double scale = double(p.gamma) * p.alpha;
                          return Expr::Select(Gt(x, ConstOf(x, 0)), x * double(p.gamma),
                                              CallMath(CallOp::kExpm1, x) * scale);
                        }))
    .set_attr<FGradient>("FGradient", GradientWith<SeluParam>([](const SeluParam& p, Entry x,
                                                                 Entry y, Entry dy) {
                           return Where(Greater0(x), dy * ScalarOf(dy, p.gamma),
                                        dy * (y + ScalarOf(y, double(p.gamma) * p.alpha)));
                         }))
    .example({"f32[2, n, 3]"})
    .example({"f64[]"}, "alpha = 2.0, gamma = 3.0");

// ---- sigmoids ----

WEFT_REGISTER_UNARY_OP(
    Sigmoid, kFloats,
    "y = 1 / (1 + e^-x). Gradient: dx = dy * y * (1 - y); retains y. Source: ONNX Sigmoid-13.")
    .set_attr<FCodeGen>("FCodeGen", UnaryCodeGen(CallOp::kSigmoid))
    .set_attr<FGradient>("FGradient", UnaryGradient([](Entry, Entry y, Entry dy) {
                           return dy * (y * (ScalarOf(y, 1) - y));
                         }))
    .example({"f32[2, n, 3]"})
    .example({"f16[]"});

WEFT_REGISTER_UNARY_OP(
    HardSigmoid, kFloats,
    "y = max(0, min(1, alpha * x + beta)). Gradient: dx = alpha * dy where 0 < y < 1, "
    "else 0; retains y. Source: ONNX HardSigmoid-22.")
    .param<HardSigmoidParam>()
    .set_attr<FCodeGen>("FCodeGen",
                        CodeWith<HardSigmoidParam>([](const HardSigmoidParam& p, const Expr& x) {
                          return HardSigmoidOf(x, p.alpha, p.beta);
                        }))
    .set_attr<FGradient>("FGradient", GradientWith<HardSigmoidParam>([](const HardSigmoidParam& p,
                                                                        Entry, Entry y, Entry dy) {
                           const NodeEntry inside =
                               ApplyOp("And", {Greater0(y), ApplyOp("Less", {y, ScalarOf(y, 1)})});
                           return MaskedGrad(inside, dy * ScalarOf(dy, p.alpha));
                         }))
    .example({"f32[2, n, 3]"})
    .example({"f64[]"}, "alpha = 0.5, beta = 0.6");

WEFT_REGISTER_UNARY_OP(
    HardSwish, kFloats,
    "y = x * max(0, min(1, x / 6 + 1/2)). Gradient: dx = dy * (h + x / 6 where |x| < 3), h "
    "the second factor; retains x. Source: ONNX HardSwish-22.")
    .set_attr<FCodeGen>("FCodeGen", UnaryCodeGen([](const Expr& x) {
                          return x * HardSigmoidOf(x, 1.0 / 6, 0.5);
                        }))
    .set_attr<FGradient>(
        "FGradient", UnaryGradient([](Entry x, Entry, Entry dy) {
          // The slope 1/6 is written with division: as an attribute it would be rounded to f32.
          const NodeEntry sixth = x / ScalarOf(x, 6);
          const NodeEntry h =
              ApplyOp("Clip", {sixth + ScalarOf(x, 0.5), ScalarOf(x, 0), ScalarOf(x, 1)});
          const NodeEntry inside = ApplyOp("Less", {ApplyOp("Abs", {x}), ScalarOf(x, 3)});
          return dy * (h + MaskedGrad(inside, sixth));
        }))
    .example({"f32[2, n, 3]"})
    .example({"f64[]"});

WEFT_REGISTER_UNARY_OP(
    Softplus, kFloats,
    "y = log(1 + e^x), computed as max(x, 0) + log1p(e^-|x|). Gradient: dx = dy * "
    "Sigmoid(x); retains x. Source: ONNX Softplus-22.")
    .set_attr<FCodeGen>("FCodeGen", UnaryCodeGen(Code(SoftplusOf)))
    .set_attr<FGradient>("FGradient", UnaryGradient([](Entry x, Entry, Entry dy) {
                           return dy * ApplyOp("Sigmoid", {x});
                         }))
    .example({"f32[2, n, 3]"})
    .example({"f16[]"});

WEFT_REGISTER_UNARY_OP(
    Softsign, kFloats,
    "y = x / (1 + |x|). Gradient: dx = dy / (1 + |x|)^2; retains x. Source: ONNX Softsign-22.")
    .set_attr<FCodeGen>("FCodeGen", UnaryCodeGen([](const Expr& x) {
                          return x / (Expr::Unary(UnOp::kAbs, x) + 1.0);
                        }))
    .set_attr<FGradient>("FGradient", UnaryGradient([](Entry x, Entry, Entry dy) {
                           const NodeEntry d = ApplyOp("Abs", {x}) + ScalarOf(x, 1);
                           return dy / (d * d);
                         }))
    .example({"f32[2, n, 3]"})
    .example({"f16[]"});

// ---- Shrink ----

namespace {

/// Integers go through f64, which holds what bias and lambd make of them.
Exprs ShrinkCode(const NodePtr& n, const Exprs& in) {
  const ShrinkParam& p = ParamOf<ShrinkParam>(n);
  const DType t = in[0]->dtype(), compute = IsInt(t) ? DType::kF64 : AccumulatorOf(t);
  const Expr x = Expr::Cast(compute, in[0]);
  const Expr inner = Expr::Select(Gt(x, ConstOf(x, p.lambd)), x - double(p.bias), ConstOf(x, 0));
  return {
      Expr::Cast(t, Expr::Select(Lt(x, ConstOf(x, -double(p.lambd))), x + double(p.bias), inner))};
}

}  // namespace

WEFT_REGISTER_UNARY_OP(
    Shrink, kNumeric,
    "y = x + bias for x < -lambd, x - bias for x > lambd, else 0. Gradient: dx = dy outside "
    "[-lambd, lambd], else 0; retains x. Source: ONNX Shrink-9.")
    .param<ShrinkParam>()
    .set_attr<FCodeGen>("FCodeGen", ShrinkCode)
    .set_attr<FGradient>(
        "FGradient", GradientWith<ShrinkParam>([](const ShrinkParam& p, Entry x, Entry, Entry dy) {
          const NodeEntry above = ApplyOp("Greater", {x, ScalarOf(x, p.lambd)});
          const NodeEntry below = ApplyOp("Less", {x, ScalarOf(x, -double(p.lambd))});
          return MaskedGrad(ApplyOp("Or", {above, below}), dy);
        }))
    .example({"f32[2, n, 3]"})
    .example({"f64[4]"}, "bias = 0.25, lambd = 1.0")
    .example({"i32[4]"}, "lambd = 1.5");

}  // namespace weft::ops
