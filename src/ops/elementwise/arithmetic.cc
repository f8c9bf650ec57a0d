/// arithmetic.cc: Add, Sub, Mul, Div, Mod.
///
/// x / 0 = 0 and x mod 0 = 0 for integers: the standard leaves both open.
/// Integer values are followed through, so that shape arithmetic stays symbolic.
#include "ops/util/op_util.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

using Entry = const NodeEntry&;

// ---- values ----

SymInt AddValue(const std::vector<SymInt>& x, const ValueArgs&) { return x[0] + x[1]; }
SymInt SubValue(const std::vector<SymInt>& x, const ValueArgs&) { return x[0] - x[1]; }
SymInt MulValue(const std::vector<SymInt>& x, const ValueArgs& args) {
  // 0 * -2 is -0 in floating point, which no integer can say.
  if (IsFloat(args.out_dtype) && !(args.NonNegative(x[0]) && args.NonNegative(x[1]))) return {};
  return x[0] * x[1];
}
SymInt DivValue(const std::vector<SymInt>& x, const ValueArgs& args) {
  const SymInt a = x[0], b = x[1];
  if (args.NonNegative(a) && args.Positive(b)) {
    if (!IsFloat(args.out_dtype)) return FloorDiv(a, b);
    if (args.facts.ProvedEqual(a, b)) return 1;
    if (b.is_const() && args.facts.Divides(b.value(), a) == Proof::kYes) return ExactDiv(a, b);
    return {};
  }
  if (IsFloat(args.out_dtype) || !a.known() || !b.known() || !a.is_const() || !b.is_const())
    return {};
  if (b.is(0)) return 0;
  return b.is(-1) ? -a : SymInt(a.value() / b.value());
}
SymInt ModValue(const std::vector<SymInt>& x, const ValueArgs& args);

// ---- identities ----

/// x + 0 = x: for floats only with -0, since -0 + 0 is +0.
std::vector<NodeEntry> SimplifyAdd(RewriteContext& ctx, const NodePtr& n) {
  const double zero = IsFloat(ctx.dtype({n, 0})) ? -0.0 : 0.0;
  for (int i = 0; i < 2; ++i) {
    if (!IsUniform(ctx, n->inputs[i], zero)) continue;
    if (auto r = ReplaceIfSame(ctx, n, n->inputs[1 - i]); !r.empty()) return r;
  }
  return {};
}
/// x - 0 = x, for -0 too.
std::vector<NodeEntry> SimplifySub(RewriteContext& ctx, const NodePtr& n) {
  return IsUniform(ctx, n->inputs[1], 0.0) ? ReplaceIfSame(ctx, n, n->inputs[0])
                                           : std::vector<NodeEntry>();
}
/// x * 1 = x.
std::vector<NodeEntry> SimplifyMul(RewriteContext& ctx, const NodePtr& n) {
  for (int i = 0; i < 2; ++i) {
    if (!IsUniform(ctx, n->inputs[i], 1)) continue;
    if (auto r = ReplaceIfSame(ctx, n, n->inputs[1 - i]); !r.empty()) return r;
  }
  return {};
}

}  // namespace

WEFT_REGISTER_BINARY_OP(
    Add, kNumeric,
    "y = a + b; integers wrap. Gradient: da = SumTo(dy, a), db = SumTo(dy, b); retains nothing. "
    "Source: ONNX Add-14.")
    .set_attr<FInferShape>("FInferShape", BroadcastShapeAndValue(AddValue))
    .set_attr<FCodeGen>("FCodeGen", BinaryCodeGen(BinOp::kAdd))
    .set_attr<FGradient>("FGradient", BinaryGradient([](Entry, Entry, Entry, Entry dy) {
                           return std::pair(dy, dy);
                         }))
    .set_attr<FSimplify>("FSimplify", SimplifyAdd)
    .example({"f32[2, n, 3]", "f32[2, n, 3]"})
    .example({"f32[m, 1, 3]", "f32[4, 1]"})
    .example({"f64[]", "f64[2, 3]"})
    .example({"i32[3]", "i32[2, 3]"});

WEFT_REGISTER_BINARY_OP(
    Sub, kNumeric,
    "y = a - b; integers wrap. Gradient: da = SumTo(dy, a), db = SumTo(-dy, b); retains nothing. "
    "Source: ONNX Sub-14.")
    .set_attr<FInferShape>("FInferShape", BroadcastShapeAndValue(SubValue))
    .set_attr<FCodeGen>("FCodeGen", BinaryCodeGen(BinOp::kSub))
    .set_attr<FGradient>("FGradient", BinaryGradient([](Entry, Entry, Entry, Entry dy) {
                           return std::pair(dy, -dy);
                         }))
    .set_attr<FSimplify>("FSimplify", SimplifySub)
    .example({"f32[2, n, 3]", "f32[2, n, 3]"})
    .example({"f32[m, 1, 3]", "f32[4, 1]"})
    .example({"u8[3]", "u8[]"});

WEFT_REGISTER_BINARY_OP(Mul, kNumeric,
                        "y = a * b; integers wrap. Gradient: da = SumTo(dy * b, a), db = SumTo(dy "
                        "* a, b); retains a and b. "
                        "Source: ONNX Mul-14.")
    .set_attr<FInferShape>("FInferShape", BroadcastShapeAndValue(MulValue))
    .set_attr<FCodeGen>("FCodeGen", BinaryCodeGen(BinOp::kMul))
    .set_attr<FGradient>("FGradient", BinaryGradient([](Entry a, Entry b, Entry, Entry dy) {
                           return std::pair(dy * b, dy * a);
                         }))
    .set_attr<FSimplify>("FSimplify", SimplifyMul)
    .example({"f32[2, n, 3]", "f32[2, n, 3]"})
    .example({"f32[m, 1, 3]", "f32[4, 1]"})
    .example({"f16[]", "f16[5]"})
    .example({"i64[3]", "i64[2, 3]"});

// db = -dy * a / b^2 is written with y, which is there anyway.
WEFT_REGISTER_BINARY_OP(
    Div, kNumeric,
    "y = a / b; integers truncate towards zero, a / 0 = 0. Gradient: da = SumTo(dy / b, a), "
    "db = SumTo(-(dy / b) * y, b); retains b and y. Source: ONNX Div-14.")
    .set_attr<FInferShape>("FInferShape", BroadcastShapeAndValue(DivValue))
    .set_attr<FCodeGen>("FCodeGen", BinaryCodeGen(BinOp::kDiv))
    .set_attr<FGradient>("FGradient", BinaryGradient([](Entry, Entry b, Entry y, Entry dy) {
                           const NodeEntry da = dy / b;
                           return std::pair(da, -(da * y));
                         }))
    .set_attr<FSimplify>("FSimplify", SimplifyByOne)
    .set_attr<FInputDomains>("FInputDomains", Domains({Any(), NonZero()}))
    .example({"f32[2, n, 3]", "f32[2, n, 3]"})
    .example({"f32[m, 1, 3]", "f32[4, 1]"})
    .example({"i32[3]", "i32[2, 3]"});

// ---- Mod ----

struct ModParam : OpParam<ModParam> {
  int64_t fmod;
  WEFT_OP_PARAM(ModParam) {
    WEFT_FIELD(fmod).set_default(0).set_range(0, 1).describe(
        "0: the result has the sign of b (integers only); 1: the sign of a, as C's fmod; floats "
        "need 1");
  }
};
WEFT_REGISTER_OP_PARAM(ModParam);

namespace {

SymInt ModValue(const std::vector<SymInt>& x, const ValueArgs& args) {
  const SymInt a = x[0], b = x[1];
  const bool sign_of_a = ParamOf<ModParam>(args.node).fmod != 0;
  if (args.Positive(b) && (!sign_of_a || args.NonNegative(a))) return Mod(a, b);
  if (IsFloat(args.out_dtype) || !a.known() || !b.known() || !a.is_const() || !b.is_const())
    return {};
  if (b.is(0) || b.is(-1)) return 0;
  const int64_t r = a.value() % b.value();
  return !sign_of_a && r != 0 && (r < 0) != (b.value() < 0) ? r + b.value() : r;
}

void ModType(InferTypeContext& ctx) {
  const Type t = CommonInputType(ctx, kNumeric);
  if (!t.known()) return;
  WEFT_CHECK(!IsFloat(t.dtype) || ParamOf<ModParam>(ctx.node()).fmod == 1, kBadAttribute,
             "{}: fmod = 0 takes integers, but the inputs are {}; floats need fmod = 1",
             ctx.node()->Describe(), t.ToString());
  ctx.set_out(0, t);
}
Exprs ModCode(const NodePtr& n, const Exprs& x) {
  const BinOp op = ParamOf<ModParam>(n).fmod ? BinOp::kMod : BinOp::kFloorMod;
  return {WithCompute(x, [op](const Exprs& v) { return Expr::Binary(op, v[0], v[1]); })};
}
/// y = a - b * trunc(a / b), and trunc has gradient zero; trunc(a / b) = (a - y) / b up to
/// rounding.
std::vector<NodeEntry> ModGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy.at(0) || ParamOf<ModParam>(n).fmod == 0) return NoGradient(n, dy);
  const NodeEntry a = n->inputs[0], b = n->inputs[1], y(n, 0);
  const NodeEntry quotient = ApplyOp("Round", {(a - y) / b});
  return {ReduceLike(dy[0], a), ReduceLike(-(dy[0] * quotient), b)};
}

}  // namespace

WEFT_REGISTER_BINARY_OP(
    Mod, kNumeric,
    "Remainder of a / b. fmod = 0: a - b * floor(a / b), with the sign of b, for integers. fmod = "
    "1: "
    "a - b * trunc(a / b), with the sign of a. Integer a mod 0 = 0. Gradient (floats): da = "
    "SumTo(dy, a), "
    "db = SumTo(-dy * trunc(a / b), b); retains a, b and y. Source: ONNX Mod-13.")
    .param<ModParam>()
    .set_attr<FInferType>("FInferType", ModType)
    .set_attr<FInferShape>("FInferShape", BroadcastShapeAndValue(ModValue))
    .set_attr<FCodeGen>("FCodeGen", ModCode)
    .set_attr<FGradient>("FGradient", ModGradient)
    .set_attr<FInputDomains>("FInputDomains", Domains({Any(), NonZero()}))
    .example({"i32[2, n]", "i32[2, n]"})
    .example({"i64[m, 3]", "i64[3]"}, "fmod = 1")
    .example({"f32[m, 3]", "f32[]"}, "fmod = 1")
    .example({"u8[3]", "u8[3]"});

}  // namespace weft::ops
