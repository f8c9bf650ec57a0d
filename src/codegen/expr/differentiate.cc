/// differentiate.cc: the derivative of an expression, node by node, operands before users.
#include "weft/codegen/expr/differentiate.h"

#include <unordered_map>

#include "expr_pool.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/op/op.h"
#include "weft/support/check.h"

namespace weft {
namespace {

constexpr double kTwoOverSqrtPi = 1.1283791670955125739;

Expr ConstLike(const Expr& e, double v) { return Expr::Const(e->dtype(), v); }
Expr Sqrt(const Expr& e) { return Expr::Unary(UnOp::kSqrt, e); }
Expr CallOf(CallOp op, const Expr& x) { return Expr::Call(op, {x}); }
Expr Greater(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kGt, a, b); }
/// In the type that a derivative has.
Expr Wide(const Expr& e) { return Expr::Cast(AccumulatorOf(e->dtype()), e); }
Expr FromNode(const ExprNode& n) { return Wide(ExprPool::FromNode(&n)); }

// Sums and products of which null operands are 0.
Expr Plus(const Expr& a, const Expr& b) { return !a ? b : !b ? a : a + b; }
Expr Minus(const Expr& a, const Expr& b) { return !b ? a : !a ? -b : a - b; }
Expr Times(const Expr& a, const Expr& b) { return a && b ? a * b : Expr(); }

Expr SelectOrNone(const Expr& condition, const Expr& a, const Expr& b) {
  if (!a && !b) return {};
  const Expr zero = ConstLike(a ? a : b, 0);
  return Expr::Select(condition, a ? a : zero, b ? b : zero);
}

[[noreturn]] void ThrowNone(const std::string& what) {
  ThrowError(ErrorCode::kUnsupported, "no derivative of " + what, "",
             "register FGradient for the operator");
}

class Differentiator {
 public:
  explicit Differentiator(int slot) : slot_(slot) {}

  Expr Run(const Expr& root) {
    for (const ExprNode* n : PostOrder({root}))
      if (IsFloat(n->dtype()) || n->kind() == ExprKind::kBitcast) Visit(*n);
    return Of(root);
  }

 private:
  Expr Of(const Expr& e) const {
    const auto it = derivatives_.find(e.get());
    return it == derivatives_.end() ? Expr() : it->second;
  }
  Expr Of(const ExprNode& n, int operand) const { return Of(n.operand(operand)); }

  void Visit(const ExprNode& n) {
    if (Expr d = Derivative(n)) derivatives_.emplace(&n, std::move(d));
  }

  Expr Derivative(const ExprNode& n) const {
    switch (n.kind()) {
      case ExprKind::kVariable:
        return n.slot() == slot_ ? Expr::Const(AccumulatorOf(n.dtype()), 1) : Expr();
      case ExprKind::kUnary:
        return OfUnary(n);
      case ExprKind::kBinary:
        return OfBinary(n);
      case ExprKind::kSelect:
        return SelectOrNone(n.operand(0), Of(n, 1), Of(n, 2));
      case ExprKind::kCast: {
        const Expr d = Of(n, 0);
        return d ? Expr::Cast(AccumulatorOf(n.dtype()), d) : d;
      }
      case ExprKind::kBitcast:
        if (Of(n, 0)) ThrowNone("the bits of a number");
        return {};
      case ExprKind::kFma:
        return Plus(Plus(Times(Of(n, 0), n.operand(1)), Times(n.operand(0), Of(n, 1))), Of(n, 2));
      case ExprKind::kCall:
        return n.call() == CallOp::kPow ? OfPow(n) : OfCall(n);
      case ExprKind::kReduce:
        return OfReduce(n);
      default:
        return {};
    }
  }

  Expr OfUnary(const ExprNode& n) const {
    const Expr d = Of(n, 0);
    if (!d) return {};
    const Expr x = Wide(n.operand(0));
    switch (n.un_op()) {
      case UnOp::kNeg:
        return -d;
      case UnOp::kAbs: {
        const Expr zero = ConstLike(x, 0);
        return Expr::Select(Greater(x, zero), d, SelectOrNone(Lt(x, zero), -d, {}));
      }
      case UnOp::kSqrt:
        return d / (FromNode(n) * 2.0);
      default:
        return {};
    }
  }

  Expr OfBinary(const ExprNode& n) const {
    const Expr da = Of(n, 0), db = Of(n, 1);
    if (!da && !db) return {};
    const Expr a = Wide(n.operand(0)), b = Wide(n.operand(1));
    switch (n.bin_op()) {
      case BinOp::kAdd:
        return Plus(da, db);
      case BinOp::kSub:
        return Minus(da, db);
      case BinOp::kMul:
        return Plus(Times(da, b), Times(a, db));
      case BinOp::kDiv:
        return Minus(da, Times(FromNode(n), db)) / b;
      case BinOp::kMod: {
        // a - b * trunc(a / b)
        if (!db) return da;
        return Minus(da, Expr::Unary(UnOp::kRound, (a - FromNode(n)) / b) * db);
      }
      case BinOp::kMin:
      case BinOp::kMax: {
        const bool max = n.bin_op() == BinOp::kMax;
        const Expr half = Plus(da, db) * 0.5;
        const Expr rest = SelectOrNone(Eq(a, b), half, {});
        return SelectOrNone(Greater(a, b), max ? da : db,
                            SelectOrNone(Lt(a, b), max ? db : da, rest));
      }
      default:
        return {};
    }
  }

  Expr OfCall(const ExprNode& n) const {
    const Expr d = Of(n, 0);
    if (!d) return {};
    const Expr& x = n.operand(0);
    const Expr y = FromNode(n), one = ConstLike(x, 1);
    switch (n.call()) {
      case CallOp::kExp:
        return d * y;
      case CallOp::kLog:
        return d / x;
      case CallOp::kSin:
        return d * CallOf(CallOp::kCos, x);
      case CallOp::kCos:
        return -(d * CallOf(CallOp::kSin, x));
      case CallOp::kTan:
        return d * (y * y + one);
      case CallOp::kAsin:
        return d / Sqrt((one - x) * (one + x));
      case CallOp::kAcos:
        return -(d / Sqrt((one - x) * (one + x)));
      case CallOp::kAtan:
        return d / (x * x + one);
      case CallOp::kSinh:
        return d * CallOf(CallOp::kCosh, x);
      case CallOp::kCosh:
        return d * CallOf(CallOp::kSinh, x);
      case CallOp::kTanh:
        return d * (one - y * y);
      case CallOp::kAsinh:
        return d / Sqrt(x * x + one);
      case CallOp::kAcosh:
        return d / Sqrt((x - one) * (x + one));
      case CallOp::kAtanh:
        return d / ((one - x) * (one + x));
      case CallOp::kErf:
        return d * (CallOf(CallOp::kExp, -(x * x)) * kTwoOverSqrtPi);
      case CallOp::kSigmoid:
        return d * (y * (one - y));
      case CallOp::kRsqrt:
        return d * (y * y * y * -0.5);
      case CallOp::kExpm1:
        return d * (y + one);
      case CallOp::kLog1p:
        return d / (one + x);
      case CallOp::kPow:
        break;
    }
    return {};
  }

  /// As the operator Pow: 0 where e = 0 with respect to x, where x = 0 and e >= 0 with respect to
  /// e.
  Expr OfPow(const ExprNode& n) const {
    const Expr dx = Of(n, 0), de = Of(n, 1);
    const Expr &x = n.operand(0), &e = n.operand(1);
    const Expr zero = ConstLike(x, 0), one = ConstLike(x, 1);
    Expr by_x, by_e;
    if (dx) {
      const Expr lower = Expr::Select(Eq(e, zero), one, e - one);
      by_x = dx * (e * Power(x, lower));
    }
    if (de) {
      const Expr flat = And(Eq(x, zero), Le(zero, e));
      by_e = de * (FromNode(n) * CallOf(CallOp::kLog, Expr::Select(flat, one, x)));
    }
    return Plus(by_x, by_e);
  }
  static Expr Power(const Expr& x, const Expr& e) {
    if (e->is_const(0)) return ConstLike(x, 1);
    if (e->is_const(1)) return x;
    if (e->is_const(2)) return x * x;
    return Expr::Call(CallOp::kPow, {x, e});
  }

  Expr OfReduce(const ExprNode& n) const {
    // What PostOrder saw of the body was over variables that only the reduction binds.
    if (!Of(n, 0)) return {};
    if (n.reduce_op() != ReduceOp::kSum) ThrowNone("a product or an extremum over an axis");
    const Expr reduce = ExprPool::FromNode(&n);
    const int slot = slot_;
    return Expr::Reduce(ReduceOp::kSum, n.extents(), [&](const Indices& at) {
      const Expr body = ReduceBody(reduce, at);
      const Expr d = Differentiator(slot).Run(body);
      return d ? d : ConstLike(Wide(body), 0);
    });
  }

  const int slot_;
  std::unordered_map<const ExprNode*, Expr> derivatives_;
};

}  // namespace

Expr Differentiate(const Expr& e, int slot) {
  WEFT_ICHECK(bool(e), "null expression");
  return Differentiator(slot).Run(e);
}

Expr DifferentiateNode(const NodePtr& node, const Exprs& x, const Exprs& dy, int wrt) {
  static const OpMap<FCodeGen>& codes = Op::GetAttr<FCodeGen>("FCodeGen");
  const FCodeGen& code = codes[node->op()];
  WEFT_ICHECK(code.elementwise, "{}: its FCodeGen is not element-wise", node->Describe());
  WEFT_ICHECK(wrt >= 0 && size_t(wrt) < x.size() && x[size_t(wrt)], "{}: no operand {}",
              node->Describe(), wrt);
  // What an FCodeGen makes of a constant may be simpler; everything else is put in behind.
  Exprs slots = x;
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] && (int(i) == wrt || x[i]->kind() != ExprKind::kConst))
      slots[i] = Expr::Slot(int(i), x[i]->dtype());
  const Exprs values = code.elementwise(node, slots);
  const auto put_in = [&](const Expr& e) {
    return RewriteExpr(e, [&](const Expr& leaf) {
      const int slot = leaf->slot();
      return slot >= 0 && size_t(slot) < x.size() ? x[size_t(slot)] : Expr();
    });
  };
  Expr sum;
  for (size_t k = 0; k < values.size() && k < dy.size(); ++k) {
    if (!dy[k]) continue;
    const Expr d = Differentiate(values[k], wrt);
    if (!d) continue;
    const bool is_double = d->dtype() == DType::kF64 || dy[k]->dtype() == DType::kF64 ||
                           (sum && sum->dtype() == DType::kF64);
    const DType t = is_double ? DType::kF64 : DType::kF32;
    const Expr term = Expr::Cast(t, dy[k]) * Expr::Cast(t, put_in(d));
    sum = sum ? Expr::Cast(t, sum) + term : term;
  }
  return sum ? Expr::Cast(x[size_t(wrt)]->dtype(), sum) : sum;
}

}  // namespace weft
