/// pow.cc: Pow, with operands of two dtypes.
///
/// Gradients are safe at 0 in higher order too: the unused branch never sees log(0).
/// Float results are computed in the wider float of both operands; with an exponent of 32 or 64 bit
/// integers in f64, which alone keeps its parity. Integer by integer is exact and wraps; a negative
/// exponent gives the truncated quotient (0 unless x is 1 or -1). Integer by float: in f64, cut.
#include "ops/util/op_util.h"

namespace weft::ops {
namespace {

/// Square and multiply over all bits of the exponent. Of a constant exponent only the needed
/// products remain.
Expr IntPower(const Expr& x, const Expr& e) {
  const DType t = x->dtype(), te = e->dtype();
  const int bits = DTypeBits(te) - (IsSigned(te) ? 1 : 0);
  const Expr zero = Expr::ConstInt(te, 0), one = Expr::ConstInt(t, 1);
  Expr result = one, square = x;
  for (int i = 0; i < bits; ++i) {
    const Expr bit =
        Ne(Expr::Binary(BinOp::kAnd, e, Expr::ConstInt(te, int64_t(uint64_t{1} << i))), zero);
    result = Expr::Select(bit, result * square, result);
    square = square * square;
  }
  if (!IsSigned(te)) return result;
  const Expr odd = Ne(Expr::Binary(BinOp::kAnd, e, Expr::ConstInt(te, 1)), zero);
  const Expr minus_one = Expr::ConstInt(t, -1);
  const Expr reciprocal = Expr::Select(
      Eq(x, one), one,
      Expr::Select(Eq(x, minus_one), Expr::Select(odd, minus_one, one), Expr::ConstInt(t, 0)));
  return Expr::Select(Lt(e, zero), reciprocal, result);
}

Expr FloatPower(const Expr& x, const Expr& e) {
  if (e->kind() == ExprKind::kConst) {
    const double v = e->const_value();
    if (v == 0) return ConstOf(x, 1);
    if (v == 1) return x;
    if (v == 2) return x * x;
    if (v == 3) return x * x * x;
    if (v == -1) return ConstOf(x, 1) / x;
  }
  return Expr::Call(CallOp::kPow, {x, e});
}

Exprs PowCode(const NodePtr&, const Exprs& in) {
  const Expr &x = in[0], &e = in[1];
  const DType t = x->dtype(), te = e->dtype();
  if (IsInt(t) && IsInt(te)) return {IntPower(x, e)};
  DType compute = AccumulatorOf(t);
  if (IsInt(t) || te == DType::kF64) compute = DType::kF64;
  if (IsInt(te) && DTypeBits(te) >= 32 && e->kind() != ExprKind::kConst) compute = DType::kF64;
  return {Expr::Cast(t, FloatPower(Expr::Cast(compute, x), Expr::Cast(compute, e)))};
}

SymInt PowValue(const std::vector<SymInt>& x, const ValueArgs& args) {
  constexpr int64_t kMaxExponent = 8;  // beyond it the polynomial costs more than it tells
  const SymInt e = x[1];
  if (!x[0].known() || !e.known() || !e.is_const() || e.value() < 0 || e.value() > kMaxExponent)
    return {};
  if (IsFloat(args.out_dtype) && !args.NonNegative(x[0])) return {};
  SymInt y = 1;
  for (int64_t i = 0; i < e.value(); ++i) y = y * x[0];
  return y;
}

void PowType(InferTypeContext& ctx) {
  constexpr DTypeSet kBase = kFloats | kIndexTypes;
  CheckInputType(ctx, 0, kBase);
  CheckInputType(ctx, 1, kNumeric);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}

/// The value of an op Constant that is the same in all its elements; false for anything else. Not
/// parameters: those may be asked for a gradient.
bool UniformConstant(const NodeEntry& e, double* v) {
  if (!IsOp(e.node, builtin::kConstant)) return false;
  const TensorPtr t = Graph::ConstantOf(e);
  if (!t || t->num_elements() != 1) return false;
  *v = t->at(0);
  return true;
}

std::vector<NodeEntry> PowGradient(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  if (!dys.at(0)) return NoGradient(n, dys);
  const NodeEntry x = n->inputs[0], e = n->inputs[1], y(n, 0), dy = dys[0];
  double c;
  if (UniformConstant(e, &c)) {
    if (c == 0) return NoGradient(n, dys);
    if (c == 1) return {ReduceLike(dy, x), NodeEntry()};
    const NodeEntry scaled = dy * ScalarOf(x, c);
    const NodeEntry power = c == 2 ? x : ApplyOp("Pow", {x, ScalarOf(x, c - 1)});
    return {ReduceLike(scaled * power, x), NodeEntry()};
  }
  const NodeEntry zero = ScalarOf(e, 0), one = ScalarOf(x, 1);
  // Where e = 0: e * x^e = 0 * 1.
  const NodeEntry lower = ApplyOp("Where", {ApplyOp("Equal", {e, zero}), e, e - ScalarOf(e, 1)});
  const NodeEntry dx = dy * (ApplyOp("CastLike", {e, x}) * ApplyOp("Pow", {x, lower}));
  // Where x = 0 and e >= 0: y * log(1) = 0.
  const NodeEntry flat =
      ApplyOp("And", {ApplyOp("Equal", {x, ScalarOf(x, 0)}), ApplyOp("GreaterOrEqual", {e, zero})});
  const NodeEntry log = ApplyOp("Log", {ApplyOp("Where", {flat, one, x})});
  const NodeEntry de = ApplyOp("CastLike", {dy * (y * log), e});
  return {ReduceLike(dx, x), ReduceLike(de, e)};
}

}  // namespace

WEFT_REGISTER_OP(Pow)
    .describe(
        "y = x ^ exponent in the dtype of x. Integer by integer is exact and wraps; a negative "
        "exponent gives the "
        "truncated quotient. Gradient: dx = SumTo(dy * e * x^(e-1), x), 0 where e = 0; de = "
        "SumTo(dy * y * log(x), e), "
        "0 where x = 0 and e >= 0; retains x, e and y (x alone for a constant e). Source: ONNX "
        "Pow-15.")
    .input("x", TypeDoc(kFloats | kIndexTypes))
    .input("exponent", TypeDoc(kNumeric, "T1"), "numpy broadcasting against x")
    .output("y", "T", "the broadcast shape")
    .param<NoParam>()
    .include("ElementwiseBinary")
    .set_attr<FInferType>("FInferType", PowType)
    .set_attr<FInferShape>("FInferShape", BroadcastShapeAndValue(PowValue))
    .set_attr<FInplace>("FInplace", InplaceOf({0}))
    .set_attr<FCodeGen>("FCodeGen", PowCode)
    .set_attr<FGradient>("FGradient", PowGradient)
    .set_attr<FSimplify>("FSimplify", SimplifyByOne)
    .set_attr<FInputDomains>("FInputDomains", Domains({Positive(), Any()}))
    .example({"f32[2, n]", "f32[2, n]"})
    .example({"f32[m, 1, 3]", "f32[4, 1]"})
    .example({"f32[2, n]", "f32[] = [3]"})
    .example({"f32[4]", "i64[4]"})
    .example({"i64[2, 3]", "i32[3] = [0, 2, 5]"});

}  // namespace weft::ops
