/// expr_fold.cc: values of operations on constants, and identities that hold for every value.
///
/// Folding computes exactly what a device computes. Untyped literals fold in double and stay
/// untyped. Arithmetic of f16 and bf16 is not folded: its result lives in f32 until a Cast rounds
/// it, and no constant can say that.
#include "expr_pool.h"
#include "scalar.h"
#include "weft/support/error.h"

namespace weft {
namespace {

bool IsConst(const Expr& e) { return e->kind() == ExprKind::kConst; }

}  // namespace

Expr FoldUnary(UnOp op, const Expr& a) {
  if (!IsConst(a)) return {};
  const DType t = a->dtype();
  const bool to_bool = op == UnOp::kIsNan || op == UnOp::kIsInf;
  if (a->is_literal()) {
    const double v = scalar::FloatUnary(op, a->const_value());
    return to_bool ? Expr::Bool(v != 0) : Expr::Literal(v);
  }
  if (!IsFloat(t)) {
    const int64_t v = scalar::IntUnary(op, t, a->const_int());
    return to_bool ? Expr::Bool(v != 0) : Expr::ConstInt(t, v);
  }
  const double v = scalar::FloatUnary(op, a->const_value());
  if (to_bool) return Expr::Bool(v != 0);
  // Signs and roundings of an f16 are f16 values again; a square root is not.
  if (IsNarrowFloat(t) && op == UnOp::kSqrt) return {};
  return Expr::Const(t, v);
}

Expr FoldBinary(BinOp op, const Expr& a, const Expr& b) {
  if (!IsConst(a) || !IsConst(b)) return {};
  const DType t = a->dtype();
  if (a->is_literal() || IsFloat(t)) {
    if (op == BinOp::kFloorDiv || op == BinOp::kFloorMod ||
        (op >= BinOp::kAnd && op <= BinOp::kShr))
      return {};
    const double x = a->const_value(), y = b->const_value();
    if (scalar::IsCompare(op)) return Expr::Bool(scalar::FloatCompare(op, x, y));
    const double v = scalar::FloatBinary(op, x, y);
    if (a->is_literal()) return Expr::Literal(v);
    if (IsNarrowFloat(t) && op != BinOp::kMin && op != BinOp::kMax) return {};
    return Expr::Const(t, v);
  }
  const int64_t v = scalar::IntBinary(op, t, a->const_int(), b->const_int());
  return scalar::IsCompare(op) ? Expr::Bool(v != 0) : Expr::ConstInt(t, v);
}

Expr FoldCast(DType t, const Expr& a) {
  if (!IsConst(a)) return {};
  if (a->is_literal() || IsFloat(a->dtype())) {
    const double v = a->const_value();
    return IsFloat(t) ? Expr::Const(t, v) : Expr::ConstInt(t, scalar::DoubleToInt(t, v));
  }
  if (!IsFloat(t)) return Expr::ConstInt(t, a->const_int());
  return Expr::Const(t, scalar::IntToFloat(a->dtype(), a->const_int(), t));
}

Expr FoldCall(CallOp op, const Exprs& args) {
  for (const Expr& a : args) {
    if (!IsConst(a)) return {};
  }
  const double v =
      scalar::FloatCall(op, args[0]->const_value(), args.size() > 1 ? args[1]->const_value() : 0);
  return args[0]->is_literal() ? Expr::Literal(v) : Expr::Const(args[0]->dtype(), v);
}

Expr ReduceNeutral(ReduceOp op, DType t) {
  const double inf = std::numeric_limits<double>::infinity();
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAny:
      return Expr::ConstInt(t, 0);
    case ReduceOp::kProd:
    case ReduceOp::kAll:
      return Expr::ConstInt(t, 1);
    case ReduceOp::kMin:
      return IsFloat(t) ? Expr::Const(t, inf) : Expr::ConstInt(t, scalar::MaxInt(t));
    case ReduceOp::kMax:
      return IsFloat(t) ? Expr::Const(t, -inf) : Expr::ConstInt(t, scalar::MinInt(t));
    default:
      return Expr::Int(0);
  }
}

namespace {

bool IsIntConst(const Expr& e, int64_t v) {
  return IsConst(e) && !e->is_literal() && !IsFloat(e->dtype()) && e->const_int() == v;
}
/// The value of a typed constant (of any type) equals v; signed zeros are told apart by the caller.
bool IsTyped(const Expr& e, double v) { return IsConst(e) && e->const_value() == v; }

bool IsSymbolic(const Expr& e) {
  return e->kind() == ExprKind::kDim ||
         (IsConst(e) && !e->is_literal() && e->dtype() == DType::kI64);
}
SymInt AsSym(const Expr& e) { return IsConst(e) ? SymInt(e->const_int()) : e->dim(); }

/// Arithmetic of dims stays one kDim, so that strides have one form.
Expr FoldDims(BinOp op, const Expr& a, const Expr& b) {
  if (!IsSymbolic(a) || !IsSymbolic(b) || (IsConst(a) && IsConst(b))) return {};
  const SymInt x = AsSym(a), y = AsSym(b);
  // It may be data, which wraps: nothing is concluded from what may.
  const auto dim = [](SymInt d) { return NeverWraps(d) ? Expr::Dim(d) : Expr(); };
  switch (op) {
    case BinOp::kAdd:
      return dim(x + y);
    case BinOp::kSub:
      return dim(x - y);
    case BinOp::kMul:
      return dim(x * y);
    case BinOp::kFloorDiv:
      return IsConst(b) && b->const_int() > 0 ? dim(FloorDiv(x, y)) : Expr();
    case BinOp::kFloorMod:
      return IsConst(b) && b->const_int() > 0 ? dim(Mod(x, y)) : Expr();
    default:
      return {};
  }
}

}  // namespace

Expr SimplifyBinary(BinOp op, const Expr& a, const Expr& b) {
  const DType t = a->dtype();
  const bool integer = !IsFloat(t);
  // f16 arithmetic yields unrounded f32 values, so even x * 1 may be kept: it is x, and x it
  // becomes.
  switch (op) {
    case BinOp::kAdd:
      if (integer && IsIntConst(b, 0)) return a;
      break;
    case BinOp::kSub:
      if (integer && a == b) return Expr::ConstInt(t, 0);
      if (IsTyped(b, 0) && !std::signbit(b->const_value())) return a;
      if (integer && IsConst(b)) return Expr::Binary(BinOp::kAdd, a, Expr::Unary(UnOp::kNeg, b));
      break;
    case BinOp::kMul:
      if (IsTyped(b, 1)) return a;
      if (integer && IsIntConst(b, 0)) return b;
      break;
    case BinOp::kDiv:
      if (IsTyped(b, 1)) return a;
      break;
    case BinOp::kFloorDiv:
      if (IsIntConst(b, 1) || IsIntConst(a, 0)) return a;
      break;
    case BinOp::kFloorMod:
      if (IsIntConst(b, 1)) return Expr::ConstInt(t, 0);
      if (IsIntConst(a, 0)) return a;
      break;
    case BinOp::kMin:
    case BinOp::kMax:
      if (a == b) return a;
      break;
    case BinOp::kAnd:
      if (a == b || IsIntConst(b, 0)) return b;
      if (t == DType::kBool && IsIntConst(b, 1)) return a;
      break;
    case BinOp::kOr:
      if (a == b || IsIntConst(b, 0)) return a;
      if (t == DType::kBool && IsIntConst(b, 1)) return b;
      break;
    case BinOp::kXor:
      if (IsIntConst(b, 0)) return a;
      if (a == b) return Expr::ConstInt(t, 0);
      break;
    case BinOp::kShl:
    case BinOp::kShr:
      if (IsIntConst(b, 0)) return a;
      break;
    case BinOp::kEq:
    case BinOp::kLe:
    case BinOp::kGe:
      if (integer && a == b) return Expr::Bool(true);
      if (op == BinOp::kEq && t == DType::kBool && IsIntConst(b, 1)) return a;
      break;
    case BinOp::kNe:
    case BinOp::kLt:
    case BinOp::kGt:
      if (integer && a == b) return Expr::Bool(false);
      if (op == BinOp::kNe && t == DType::kBool && IsIntConst(b, 0)) return a;
      break;
    default:
      break;
  }
  // (x + c1) + c2 and (x * c1) * c2 of integers, where wrapping makes it exact.
  if (integer && IsConst(b) && (op == BinOp::kAdd || op == BinOp::kMul) &&
      a->kind() == ExprKind::kBinary && a->bin_op() == op && IsConst(a->operand(1)))
    return Expr::Binary(op, a->operand(0), FoldBinary(op, a->operand(1), b));
  try {
    return FoldDims(op, a, b);
  } catch (const Error& error) {
    // Values wrap at run time; symbolic arithmetic does not.
    if (error.code() != ErrorCode::kOverflow) throw;
    return {};
  }
}

}  // namespace weft
