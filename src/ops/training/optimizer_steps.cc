/// optimizer_steps.cc: Adagrad, Adam, Momentum of ai.onnx.preview.training: one step of an
/// optimizer for any number of parameters.
///
/// Operands: R (rate), T (steps done), then all parameters X, all gradients G and the state:
/// Adagrad H, Momentum V, Adam V and H. Results: the new X, then the new state.
///   Adagrad   r = R / (1 + T decay); g = norm X + G; H' = H + g^2;
///             X' = X - r g / (sqrt(H') + epsilon)
///   Momentum  g = norm X + G; V' = alpha V + (T > 0 ? beta : 1) g;
///             X' = X - R V', nesterov: X - R (g + alpha V')
///   Adam      g = norm X + G; V' = alpha V + (1 - alpha) g; H' = beta H + (1 - beta) g^2;
///             r = T > 0 ? R sqrt(1 - beta^T) / (1 - alpha^T) : R;
///             X' = (1 - post) (X - r V' / (sqrt(H') + epsilon))
#include <algorithm>
#include <climits>

#include "ops/util/shape_util.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct AdagradParam : OpParam<AdagradParam> {
  double decay_factor, epsilon, norm_coefficient;
  int64_t num_results;
  WEFT_OP_PARAM(AdagradParam) {
    WEFT_FIELD(num_results).set_lower_bound(1).describe("outputs; import counts them");
    WEFT_FIELD(decay_factor).set_default(0).describe("of the rate");
    WEFT_FIELD(epsilon).set_default(1e-6).describe("added to the root");
    WEFT_FIELD(norm_coefficient).set_default(0).describe("of the L2 penalty");
  }
};
WEFT_REGISTER_OP_PARAM(AdagradParam);

struct MomentumParam : OpParam<MomentumParam> {
  double alpha, beta, norm_coefficient;
  std::string mode;
  int64_t num_results;
  WEFT_OP_PARAM(MomentumParam) {
    WEFT_FIELD(num_results).set_lower_bound(1).describe("outputs; import counts them");
    WEFT_FIELD(alpha).describe("of the old velocity");
    WEFT_FIELD(beta).describe("of the gradient, but for the first step");
    WEFT_FIELD(norm_coefficient).describe("of the L2 penalty");
    WEFT_FIELD(mode).describe("\"standard\" or \"nesterov\"");
  }
};
WEFT_REGISTER_OP_PARAM(MomentumParam);

struct AdamParam : OpParam<AdamParam> {
  double alpha, beta, epsilon, norm_coefficient, norm_coefficient_post;
  int64_t num_results;
  WEFT_OP_PARAM(AdamParam) {
    WEFT_FIELD(num_results).set_lower_bound(1).describe("outputs; import counts them");
    WEFT_FIELD(alpha).set_default(0.9).describe("of the mean");
    WEFT_FIELD(beta).set_default(0.999).describe("of the mean square");
    WEFT_FIELD(epsilon).set_default(1e-6).describe("added to the root");
    WEFT_FIELD(norm_coefficient).set_default(0).describe("of the L2 penalty");
    WEFT_FIELD(norm_coefficient_post).set_default(0).describe("of the decay after the step");
  }
};
WEFT_REGISTER_OP_PARAM(AdamParam);

constexpr DTypeSet kStepTypes{DType::kF32, DType::kF64};

/// Parameters of a node with `states` state tensors each.
int CountOf(const NodePtr& n, int inputs, int states) {
  const int each = 2 + states;
  WEFT_CHECK(inputs > 2 && (inputs - 2) % each == 0, kArity,
             "{}: {} operands after R and T, expected a multiple of {}", n->Describe(), inputs - 2,
             each);
  return (inputs - 2) / each;
}
FInferType StepType(int states) {
  return [states](InferTypeContext& ctx) {
    CountOf(ctx.node(), ctx.num_inputs(), states);
    CheckInputType(ctx, 0, kStepTypes);
    CheckInputType(ctx, 1, kI64Only);
    const Type t = CommonInputType(ctx, kStepTypes, 2);
    for (int k = 0; t.known() && k < ctx.num_outputs(); ++k) ctx.set_out(k, t);
  };
}
FInferShape StepShape(int states) {
  return [states](InferShapeContext& ctx) {
    const int count = CountOf(ctx.node(), ctx.num_inputs(), states);
    WEFT_CHECK(ctx.num_outputs() == count * (1 + states), kArity,
               "{}: {} parameters have {} results, not {}", ctx.node()->Describe(), count,
               count * (1 + states), ctx.num_outputs());
    for (int i : {0, 1}) {
      WEFT_CHECK(!ctx.in(i).has_rank() || ctx.in(i).rank() == 0, kShapeMismatch,
                 "{}: input {} has shape {}, expected a scalar", ctx.node()->Describe(), i,
                 ctx.in(i).ToString());
    }
    for (int k = 0; k < count; ++k) {
      const Shape& x = ctx.in(2 + k);
      for (int s = 1; s < 2 + states; ++s) {
        const Shape& other = ctx.in(2 + s * count + k);
        if (!x.has_rank() || !other.has_rank()) continue;
        WEFT_CHECK(x.rank() == other.rank(), kShapeMismatch, "{}: parameter {} and {}",
                   ctx.node()->Describe(), x.ToString(), other.ToString());
        for (int d = 0; d < x.rank(); ++d) UnifyDims(ctx, x[d], other[d], "parameter and state");
      }
      for (int s = 0; s < 1 + states; ++s) ctx.set_out(s * count + k, x);
    }
  };
}

/// Operands of one parameter at one position, in the parameter's dtype.
struct At {
  Expr rate, steps, x, g;
  std::vector<Expr> state;
  Expr Number(double v) const { return Expr::Const(x->dtype(), v); }
};
/// `step(at)` gives the new x and the new state.
FCodeGen StepCode(int states, std::function<Exprs(const NodePtr&, const At&)> step) {
  return [=](const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) -> Exprs {
    const int count = CountOf(n, int(in.size()), states);
    Exprs out(size_t(count * (1 + states)));
    for (int k = 0; k < count; ++k) {
      // Every output is asked for at an index of its own.
      for (int s = 0; s < 1 + states; ++s) {
        const Indices& where = at(s * count + k);
        At a;
        const DType t = in[size_t(2 + k)].dtype;
        a.rate = Expr::Cast(t, in[0]({}));
        a.steps = Expr::Cast(t, in[1]({}));
        a.x = in[size_t(2 + k)](where);
        a.g = in[size_t(2 + count + k)](where);
        for (int j = 0; j < states; ++j)
          a.state.push_back(in[size_t(2 + (2 + j) * count + k)](where));
        out[size_t(s * count + k)] = step(n, a)[size_t(s)];
      }
    }
    return out;
  };
}

Expr Root(const Expr& e) { return Expr::Unary(UnOp::kSqrt, e); }
Expr Power(const Expr& base, const Expr& exponent) {
  return Expr::Call(CallOp::kPow, {base, exponent});
}

Exprs AdagradStep(const NodePtr& n, const At& a) {
  const auto& p = ParamOf<AdagradParam>(n);
  const Expr rate = a.rate / (a.Number(1) + a.steps * a.Number(p.decay_factor));
  const Expr g = a.Number(p.norm_coefficient) * a.x + a.g;
  const Expr h = a.state[0] + g * g;
  return {a.x - rate * g / (Root(h) + a.Number(p.epsilon)), h};
}
Exprs MomentumStep(const NodePtr& n, const At& a) {
  const auto& p = ParamOf<MomentumParam>(n);
  WEFT_CHECK(p.mode == "standard" || p.mode == "nesterov", kBadAttribute, "{}: mode \"{}\"",
             n->Describe(), p.mode);
  const Expr g = a.Number(p.norm_coefficient) * a.x + a.g;
  const Expr beta = Expr::Select(Lt(a.Number(0), a.steps), a.Number(p.beta), a.Number(1));
  const Expr v = a.Number(p.alpha) * a.state[0] + beta * g;
  const Expr step = p.mode == "nesterov" ? g + a.Number(p.alpha) * v : v;
  return {a.x - a.rate * step, v};
}
Exprs AdamStep(const NodePtr& n, const At& a) {
  const auto& p = ParamOf<AdamParam>(n);
  const Expr alpha = a.Number(p.alpha), beta = a.Number(p.beta), one = a.Number(1);
  const Expr g = a.Number(p.norm_coefficient) * a.x + a.g;
  const Expr v = alpha * a.state[0] + (one - alpha) * g;
  const Expr h = beta * a.state[1] + (one - beta) * g * g;
  const Expr corrected = a.rate * Root(one - Power(beta, a.steps)) / (one - Power(alpha, a.steps));
  const Expr rate = Expr::Select(Lt(a.Number(0), a.steps), corrected, a.rate);
  const Expr x = a.x - rate * v / (Root(h) + a.Number(p.epsilon));
  return {(one - a.Number(p.norm_coefficient_post)) * x, v, h};
}

uint32_t Results(const NodeAttrs& attrs) {
  const AttrValue* v = attrs.dict.find("num_results");
  return v && v->is<int64_t>() ? uint32_t(std::clamp<int64_t>(v->get<int64_t>(), 1, 1 << 20)) : 1;
}

}  // namespace

#define WEFT_REGISTER_STEP(Name, Doc, States, Step, ...)                                      \
  WEFT_REGISTER_OP_IN(ai.onnx.preview.training, Name)                                         \
      .describe(Doc " Gradient: none. Source: ONNX ai.onnx.preview.training " #Name "-1.")    \
      .input("R", TypeDoc(kStepTypes, "T1"), "the rate, a scalar")                            \
      .input("T", "i64", "steps done, a scalar")                                              \
      .variadic_input("inputs", TypeDoc(kStepTypes), "all X, all G, then each kind of state") \
      .output("outputs", "T", "all new X, then each kind of new state")                       \
      .set_num_inputs(3, INT_MAX)                                                             \
      .set_num_outputs(Results)                                                               \
      .example(__VA_ARGS__)                                                                   \
      .param<Name##Param>()                                                                   \
      .set_attr<FInferType>("FInferType", StepType(States))                                   \
      .set_attr<FInferShape>("FInferShape", StepShape(States))                                \
      .set_attr<FCodeGen>("FCodeGen", StepCode(States, Step))                                 \
      .set_attr<FGradient>("FGradient", NoGradient)

WEFT_REGISTER_STEP(Adagrad, "One step of Adagrad.", 1, AdagradStep,
                   {"f32[]", "i64[] = [3]", "f32[2, n]", "f32[2, n]", "f32[2, n]"},
                   "num_results = 2, decay_factor = 0.1");
WEFT_REGISTER_STEP(
    Momentum, "One step of gradient descent with momentum.", 1, MomentumStep,
    {"f32[]", "i64[] = [3]", "f32[2, n]", "f32[2, n]", "f32[2, n]"},
    "num_results = 2, alpha = 0.9, beta = 1.0, mode = \"nesterov\", norm_coefficient = 0.01");
WEFT_REGISTER_STEP(Adam, "One step of Adam.", 2, AdamStep,
                   {"f32[]", "i64[] = [3]", "f32[4]", "f32[4]", "f32[4]", "f32[4]"},
                   "num_results = 3");

}  // namespace weft::ops
