/// math.cc: ExpandMath, the table of functions and their bounds.
///
/// needs nothing; replaces every kCall of an expression, inside reductions too, by basic
/// operations. What is not below a call keeps its node. Linear in distinct nodes.
#include "weft/codegen/expr/math.h"

#include <unordered_map>
#include <utility>

#include "expr_pool.h"
#include "math_expand.h"

namespace weft {

namespace math {
namespace {

struct HalfAngle {
  Expr large;  // a > 9/16
  Expr asin;   // of s
};
HalfAngle AsinOfHalf(const AsinForm& form, const Expr& a) {
  const Expr large = Greater(a, 0.5625);
  const Expr u = Select(large, Fma(a, -0.5, 0.5), a * a);
  const Expr s = Select(large, Sqrt(u), a);
  return {large, Fma(s * u, Polynomial(u, form.p), s)};
}

}  // namespace

Expr ExpandAsin(const AsinForm& form, const Expr& x) {
  const HalfAngle h = AsinOfHalf(form, Abs(x));
  const Expr above = form.half_pi_high - Fma(h.asin, 2, -form.half_pi_low);
  return WithSignOf(Select(h.large, above, h.asin), x);
}
Expr ExpandAcos(const AsinForm& form, const Expr& x) {
  const HalfAngle h = AsinOfHalf(form, Abs(x));
  const Expr negative = Less(x, 0);
  const Expr near_one = h.asin * 2.0;
  const Expr near_minus_one = 2 * form.half_pi_high - (near_one - 2 * form.half_pi_low);
  const Expr middle = form.half_pi_high - (Select(negative, -h.asin, h.asin) - form.half_pi_low);
  return Select(h.large, Select(negative, near_minus_one, near_one), middle);
}

}  // namespace math

const std::vector<MathFunction>& MathFunctions() {
  static const std::vector<MathFunction> functions = {
      {CallOp::kExp, "exp", 2.0, 1.5, "results below 2^-126.5 (f64: 2^-1022.5) are 0"},
      {CallOp::kLog, "log", 1.1, 1.5, ""},
      {CallOp::kSin, "sin", 1.6, 1.5, "every finite argument"},
      {CallOp::kCos, "cos", 1.6, 1.5, "as sin"},
      {CallOp::kTan, "tan", 0.6, 2.5, "as sin"},
      {CallOp::kAsin, "asin", 1.5, 2.0, ""},
      {CallOp::kAcos, "acos", 1.5, 1.5, ""},
      {CallOp::kAtan, "atan", 1.5, 2.0, ""},
      {CallOp::kSinh, "sinh", 0.6, 3.0, ""},
      {CallOp::kCosh, "cosh", 0.6, 2.0, ""},
      {CallOp::kTanh, "tanh", 1.9, 3.0, ""},
      {CallOp::kAsinh, "asinh", 0.6, 3.0, ""},
      {CallOp::kAcosh, "acosh", 0.6, 3.0, ""},
      {CallOp::kAtanh, "atanh", 0.6, 3.0, ""},
      {CallOp::kErf, "erf", 1.2, 1.5, ""},
      {CallOp::kSigmoid, "sigmoid", 2.0, 2.5, "results below 2^-126.9 (f64: 2^-1024) are 0"},
      {CallOp::kRsqrt, "rsqrt", 1.5, 1.5, "rsqrt(-0) = -inf, as 1 / sqrt(-0)"},
      {CallOp::kExpm1, "expm1", 0.6, 2.0, ""},
      {CallOp::kLog1p, "log1p", 0.6, 2.0, ""},
      {CallOp::kPow, "pow", 0.6, 1.0, "special values as C99; f64: results below 2^-1022.5 are 0"},
  };
  return functions;
}

Expr ExpandMath(const Expr& e) {
  const std::vector<const ExprNode*> order = PostOrder({e});
  std::unordered_map<const ExprNode*, Expr> result;
  for (const ExprNode* n : order) {
    Exprs operands;
    operands.reserve(n->operands().size());
    for (const Expr& o : n->operands()) operands.push_back(result.at(o.get()));
    Expr expanded;
    if (n->kind() == ExprKind::kCall) {
      expanded = n->dtype() == DType::kF64 ? math::ExpandF64(n->call(), operands)
                                           : math::ExpandF32(n->call(), operands);
    } else if (operands == n->operands()) {
      expanded = ExprPool::FromNode(n);
    } else if (n->kind() == ExprKind::kReduce) {
      // An expansion brings no reduction and no variable along, so the levels stay what they are.
      expanded = ExprPool::RawReduce(n->reduce_op(), n->extents(), n->level(), operands[0],
                                     !n->is_invariant());
    } else {
      expanded = ExprPool::Remake(*n, std::move(operands));
    }
    result.emplace(n, std::move(expanded));
  }
  return result.at(e.get());
}

}  // namespace weft
