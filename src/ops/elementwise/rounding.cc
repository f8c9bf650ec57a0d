/// rounding.cc: Abs, Neg, Sign, Floor, Ceil, Round, IsNaN, IsInf: exact functions of one value.
///
/// Abs of the smallest signed integer is that integer.
#include <limits>

#include "ops/util/op_util.h"

namespace weft::ops {

struct IsInfParam : OpParam<IsInfParam> {
  int64_t detect_negative, detect_positive;
  WEFT_OP_PARAM(IsInfParam) {
    WEFT_FIELD(detect_negative).set_default(1).set_range(0, 1).describe("1: -inf gives true");
    WEFT_FIELD(detect_positive).set_default(1).set_range(0, 1).describe("1: +inf gives true");
  }
};
WEFT_REGISTER_OP_PARAM(IsInfParam);

namespace {

using Entry = const NodeEntry&;
using Values = const std::vector<SymInt>&;

SymInt AbsValue(Values x, const ValueArgs& args) {
  if (args.NonNegative(x[0])) return x[0];
  return x[0].known() && args.facts.RangeOf(x[0]).hi <= 0 ? -x[0] : SymInt();
}
SymInt NegValue(Values x, const ValueArgs& args) {
  // The float -0 is no integer.
  if (IsFloat(args.out_dtype) && !args.Positive(x[0])) return {};
  return -x[0];
}
SymInt SignValue(Values x, const ValueArgs& args) {
  if (args.Positive(x[0])) return 1;
  if (!x[0].known() || !x[0].is_const()) return {};
  return x[0].value() < 0 ? -1 : 0;
}
/// A followed value is an integer: rounding keeps it.
SymInt SameValue(Values x, const ValueArgs&) { return x[0]; }

Expr SignOf(const Expr& x) {
  const Expr zero = ConstOf(x, 0), one = ConstOf(x, 1);
  const Expr positive =
      Expr::Select(Gt(x, zero), one, IsFloat(x->dtype()) ? x : zero);  // leaves NaN and zeros
  return IsUnsigned(x->dtype()) ? positive : Expr::Select(Lt(x, zero), ConstOf(x, -1), positive);
}

Exprs IsInfCode(const NodePtr& n, const Exprs& x) {
  const IsInfParam& p = ParamOf<IsInfParam>(n);
  return {WithCompute(x[0], [&p](const Expr& v) {
    const double inf = std::numeric_limits<double>::infinity();
    if (p.detect_negative && p.detect_positive) return Expr::Unary(UnOp::kIsInf, v);
    if (p.detect_positive) return Eq(v, ConstOf(v, inf));
    return p.detect_negative ? Eq(v, ConstOf(v, -inf)) : Expr::Bool(false);
  })};
}

}  // namespace

WEFT_REGISTER_UNARY_OP(
    Abs, kNumeric, "y = |x|. Gradient: dx = dy * Sign(x), 0 at 0; retains x. Source: ONNX Abs-13.")
    .set_attr<FInferShape>("FInferShape", UnaryShapeAndValue(AbsValue))
    .set_attr<FCodeGen>("FCodeGen", UnaryCodeGen(UnOp::kAbs))
    .set_attr<FGradient>("FGradient", UnaryGradient([](Entry x, Entry, Entry dy) {
                           return dy * ApplyOp("Sign", {x});
                         }))
    .set_attr<FSimplify>("FSimplify", SimplifyIdempotent)
    .example({"f32[2, n, 3]"})
    .example({"i32[]"});

WEFT_REGISTER_UNARY_OP(
    Neg, kSignedNumeric,
    "y = -x; the smallest integer wraps to itself. Gradient: dx = -dy. Source: ONNX Neg-13.")
    .set_attr<FInferShape>("FInferShape", UnaryShapeAndValue(NegValue))
    .set_attr<FCodeGen>("FCodeGen", UnaryCodeGen(UnOp::kNeg))
    .set_attr<FGradient>("FGradient", UnaryGradient([](Entry, Entry, Entry dy) { return -dy; }))
    .set_attr<FSimplify>("FSimplify", SimplifyInvolution)
    .example({"f32[2, n, 3]"})
    .example({"i64[]"});

WEFT_REGISTER_UNARY_OP(
    Sign, kNumeric,
    "y = 1, 0 or -1 with the sign of x; NaN stays NaN. Gradient: zero. Source: ONNX Sign-13.")
    .set_attr<FInferShape>("FInferShape", UnaryShapeAndValue(SignValue))
    .set_attr<FCodeGen>("FCodeGen", UnaryCodeGen(SignOf))
    .set_attr<FGradient>("FGradient", NoGradient)
    .set_attr<FSimplify>("FSimplify", SimplifyIdempotent)
    .example({"f32[2, n, 3]"})
    .example({"u8[4]"})
    .example({"i32[]"});

#define WEFT_REGISTER_ROUNDING_OP(Name, Version, Doc, Op)                                     \
  WEFT_REGISTER_UNARY_OP(Name, kFloats,                                                       \
                         "y = " Doc ". Gradient: zero. Source: ONNX " #Name "-" #Version ".") \
      .set_attr<FInferShape>("FInferShape", UnaryShapeAndValue(SameValue))                    \
      .set_attr<FCodeGen>("FCodeGen", UnaryCodeGen(UnOp::Op))                                 \
      .set_attr<FGradient>("FGradient", NoGradient)                                           \
      .set_attr<FSimplify>("FSimplify", SimplifyIdempotent)                                   \
      .example({"f32[2, n, 3]"})                                                              \
      .example({"f16[]"})

WEFT_REGISTER_ROUNDING_OP(Floor, 13, "the largest integer <= x", kFloor);
WEFT_REGISTER_ROUNDING_OP(Ceil, 13, "the smallest integer >= x", kCeil);
WEFT_REGISTER_ROUNDING_OP(Round, 22, "the nearest integer, the even one at halves", kRound);

WEFT_REGISTER_OP(IsNaN)
    .describe("y = whether x is NaN. No gradient. Source: ONNX IsNaN-20.")
    .input("x", TypeDoc(kFloats | kFloat8))
    .output("y", "bool", "the shape of x")
    .param<NoParam>()
    .include("ElementwiseUnaryBool")
    .set_attr<FInferType>("FInferType", BoolResult(kFloats | kFloat8))
    .set_attr<FCodeGen>("FCodeGen", UnaryCodeGen(UnOp::kIsNan))
    .set_attr<FGradient>("FGradient", NoGradient)
    .example({"f32[2, n, 3]"})
    .example({"f16[]"});

WEFT_REGISTER_OP(IsInf)
    .describe(
        "y = whether x is infinite, of the signs asked for. No gradient. Errors: flags other than "
        "0 and 1 (kBadAttribute). Source: ONNX IsInf-20.")
    .input("x", TypeDoc(kFloats | kFloat8))
    .output("y", "bool", "the shape of x")
    .param<IsInfParam>()
    .include("ElementwiseUnaryBool")
    .set_attr<FInferType>("FInferType", BoolResult(kFloats | kFloat8))
    .set_attr<FCodeGen>("FCodeGen", IsInfCode)
    .set_attr<FGradient>("FGradient", NoGradient)
    .example({"f32[2, n, 3]"})
    .example({"f64[]"}, "detect_negative = 0")
    .example({"bf16[4]"}, "detect_positive = 0");

}  // namespace weft::ops
