/// differentiate_test.cc: derivatives of expressions against central differences of their values.
/// Values come from constant folding: slots become numbers.
#include "weft/codegen/expr/differentiate.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "weft/codegen/expr/math.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/op/op.h"
#include "weft/support/error.h"

namespace weft {
namespace {

using Doubles = std::vector<double>;

Expr Slot(int k) { return Expr::Slot(k, DType::kF64); }
Expr Number(double v) { return Expr::Const(DType::kF64, v); }

double ValueAt(const Expr& e, const Doubles& at) {
  const Expr value = RewriteExpr(e, [&](const Expr& leaf) {
    return leaf->slot() >= 0 ? Expr::Const(leaf->dtype(), at[size_t(leaf->slot())]) : Expr();
  });
  REQUIRE(value->kind() == ExprKind::kConst);
  return value->const_value();
}

double DerivativeAt(const Expr& e, int slot, const Doubles& at) {
  const Expr d = Differentiate(e, slot);
  return d ? ValueAt(d, at) : 0;
}

/// By every slot, first and second order.
void CheckDerivatives(const Expr& e, const Doubles& at, int order = 2) {
  for (int k = 0; k < int(at.size()); ++k) {
    const double h = 1e-6;
    Doubles lower = at, upper = at;
    lower[size_t(k)] -= h;
    upper[size_t(k)] += h;
    const double want = (ValueAt(e, upper) - ValueAt(e, lower)) / (2 * h);
    CAPTURE(e->CodeGen());
    CAPTURE(k);
    CHECK(DerivativeAt(e, k, at) == doctest::Approx(want).epsilon(1e-6).scale(1e-2));
    const Expr d = Differentiate(e, k);
    if (d && order > 1) CheckDerivatives(d, at, order - 1);
  }
}

TEST_CASE("derivatives of every math function") {
  for (const MathFunction& f : MathFunctions()) {
    if (f.op == CallOp::kPow) continue;
    CAPTURE(f.name);
    const Expr e = Expr::Call(f.op, {Slot(0)});
    const bool above = f.op == CallOp::kAcosh;
    const bool positive = f.op == CallOp::kLog || f.op == CallOp::kRsqrt;
    for (double x : {0.3, 0.7, -0.45})
      CheckDerivatives(e, {above ? 1.5 + x : positive ? std::fabs(x) : x});
  }
  CheckDerivatives(Expr::Call(CallOp::kPow, {Slot(0), Slot(1)}), {1.7, 2.3});
  CheckDerivatives(Expr::Call(CallOp::kPow, {Slot(0), Slot(1)}), {0.4, -1.5});
  for (double c : {0.0, 1.0, 2.0, 3.0, -2.0, 0.5})
    CheckDerivatives(Expr::Call(CallOp::kPow, {Slot(0), Number(c)}), {1.3});
}

TEST_CASE("derivatives of operations and of what is made of them") {
  const Expr x = Slot(0), y = Slot(1);
  for (BinOp op : {BinOp::kAdd, BinOp::kSub, BinOp::kMul, BinOp::kDiv, BinOp::kMod, BinOp::kMin,
                   BinOp::kMax}) {
    CheckDerivatives(Expr::Binary(op, x, y), {5.3, 1.7});
    CheckDerivatives(Expr::Binary(op, x, y), {-1.2, 0.7});
    CheckDerivatives(Expr::Binary(op, x * x, Number(1.5)), {-1.1});
    CheckDerivatives(Expr::Binary(op, Number(2.5), x * x), {0.8});
  }
  for (UnOp op : {UnOp::kNeg, UnOp::kAbs, UnOp::kFloor, UnOp::kCeil, UnOp::kRound, UnOp::kTrunc}) {
    CheckDerivatives(Expr::Unary(op, x * x * x), {1.3});
    CheckDerivatives(Expr::Unary(op, x * x * x), {-1.3});
  }
  CheckDerivatives(Expr::Unary(UnOp::kSqrt, x * y), {1.3, 2.1});
  CheckDerivatives(Expr::Fma(x, y, x * x), {1.3, 2.1});
  CheckDerivatives(Expr::Select(Lt(x, y), x * y, x / y), {1.3, 2.1});
  CheckDerivatives(Expr::Select(Lt(y, x), x * y, x / y), {1.3, 2.1});
  const Expr shared = Expr::Call(CallOp::kTanh, {x * y});
  CheckDerivatives(shared * shared + Expr::Call(CallOp::kExp, {shared}) / (shared + 2.0),
                   {0.4, 1.1});
}

TEST_CASE("derivatives at kinks are the mean of both sides; a smooth sum of kinks keeps its own") {
  const Expr x = Slot(0), zero = Number(0);
  CHECK(DerivativeAt(Expr::Unary(UnOp::kAbs, x), 0, {0}) == 0);
  CHECK(DerivativeAt(Max(x, zero), 0, {0}) == 0.5);
  CHECK(DerivativeAt(Min(x, zero), 0, {0}) == 0.5);
  CHECK(DerivativeAt(Max(x, x * 3.0), 0, {0}) == 2);
  CHECK(DerivativeAt(Max(x, zero), 0, {std::nan("")}) == 0);
  const Expr softplus =
      Max(x, zero) +
      Expr::Call(CallOp::kLog1p, {Expr::Call(CallOp::kExp, {-Expr::Unary(UnOp::kAbs, x)})});
  CHECK(DerivativeAt(softplus, 0, {0}) == 0.5);
}

TEST_CASE("what a select does not choose brings no NaN along") {
  const Expr x = Slot(0);
  const Expr root = Expr::Select(Lt(x, Number(0)), Number(0), Expr::Unary(UnOp::kSqrt, x));
  CHECK(DerivativeAt(root, 0, {-4}) == 0);
  CHECK(DerivativeAt(root, 0, {4}) == 0.25);
  const Expr power = Expr::Call(CallOp::kPow, {x, Slot(1)});
  CHECK(DerivativeAt(power, 0, {0, 0}) == 0);
  CHECK(DerivativeAt(power, 1, {0, 2}) == 0);
}

TEST_CASE("structural zeros: other slots, integers, comparisons, steps") {
  const Expr x = Slot(0);
  CHECK(!Differentiate(Slot(1) * 2.0, 0));
  CHECK(!Differentiate(Number(3), 0));
  CHECK(!Differentiate(Expr::Unary(UnOp::kFloor, x), 0));
  CHECK(!Differentiate(Expr::Cast(DType::kF64, Expr::Cast(DType::kI64, x)), 0));
  CHECK(!Differentiate(Expr::Cast(DType::kF64, Lt(x, Number(1))), 0));
  CHECK(!Differentiate(Lt(x, Number(1)), 0));
}

TEST_CASE("a narrow float has its derivative in f32") {
  const Expr h = Expr::Slot(0, DType::kF16);
  const Expr d = Differentiate(
      Expr::Cast(DType::kF16, Expr::Call(CallOp::kExp, {Expr::Cast(DType::kF32, h)})), 0);
  REQUIRE(d);
  CHECK(d->dtype() == DType::kF32);
  CHECK(ValueAt(d, {1}) == doctest::Approx(std::exp(1.0)).epsilon(1e-6));
  const Expr wide = Differentiate(Expr::Cast(DType::kF64, h) * 3.0, 0);
  REQUIRE(wide);
  CHECK(wide->dtype() == DType::kF64);
}

TEST_CASE("sums over an axis are differentiated below the sum; products and bits are not") {
  const Expr x = Slot(0);
  const auto reduce = [&](ReduceOp op) {
    return Expr::Reduce(op, {4},
                        [&](const Indices& at) { return x * x * Expr::Cast(DType::kF64, at[0]); });
  };
  const Expr d = Differentiate(reduce(ReduceOp::kSum), 0);
  REQUIRE(d);
  REQUIRE(d->kind() == ExprKind::kReduce);
  double sum = 0;
  for (int64_t i = 0; i < 4; ++i) sum += ValueAt(ReduceBody(d, {Expr::Int(i)}), {1.5});
  CHECK(sum == doctest::Approx(2 * 1.5 * (0 + 1 + 2 + 3)));
  for (const Expr& e :
       {reduce(ReduceOp::kMax), Expr::Bitcast(DType::kF64, Expr::Bitcast(DType::kI64, x) + 1.0)}) {
    try {
      Differentiate(Expr::Cast(DType::kF64, Expr::Bitcast(DType::kI64, e)), 0);
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kUnsupported);
    }
  }
}

TEST_CASE("a chain of many operations is differentiated without recursion") {
  Expr e = Slot(0);
  for (int k = 0; k < 20000; ++k) e = e * 0.9999 + Expr::Unary(UnOp::kSqrt, Slot(1));
  CHECK(DerivativeAt(e, 0, {1, 4}) == doctest::Approx(std::pow(0.9999, 20000)).epsilon(1e-9));
}

WEFT_REGISTER_OP_IN(differentiatetest, SumDiff)
    .set_num_inputs(2)
    .set_num_outputs(2)
    .set_attr<FCodeGen>("FCodeGen", [](const NodePtr&, const Exprs& x) -> Exprs {
      return {x[0] * x[1], x[0] - x[1]};
    });

TEST_CASE("the gradient of a node sums over its outputs; null gradients are zeros") {
  Graph g;
  const NodePtr n = g.AddNode("differentiatetest::SumDiff",
                              {NodeEntry(g.AddInput("a")), NodeEntry(g.AddInput("b"))});
  // Operands that hold slots themselves.
  const Exprs x = {Slot(1) + 1.0, Slot(0)};
  const auto grad = [&](const Exprs& dy, int wrt) { return DifferentiateNode(n, x, dy, wrt); };
  CHECK(ValueAt(grad({Slot(2), Slot(3)}, 0), {5, 7, 11, 13}) == 11 * 5 + 13);
  CHECK(ValueAt(grad({Slot(2), Slot(3)}, 1), {5, 7, 11, 13}) == 11 * 8 - 13);
  CHECK(ValueAt(grad({Expr(), Slot(3)}, 1), {5, 7, 11, 13}) == -13);
  CHECK(!grad({Expr(), Expr()}, 0));
}

}  // namespace
}  // namespace weft
