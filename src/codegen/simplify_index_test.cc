#include <doctest/doctest.h>

#include "weft/codegen/lower.h"

namespace weft {
namespace {

SymInt S(const char* name) { return SymInt::Symbol(name); }
Expr I(int k) { return Expr::Index(k); }

TEST_CASE("simplification needs proof") {
  const Facts facts;
  const auto div = [](const Expr& a, const Expr& b) {
    return Expr::Binary(BinOp::kFloorDiv, a, b);
  };
  const auto mod = [](const Expr& a, const Expr& b) {
    return Expr::Binary(BinOp::kFloorMod, a, b);
  };
  const auto simplify = [&](const Expr& e, std::vector<SymInt> dims) {
    return SimplifyIndex(e, dims, facts);
  };
  const Expr i = I(0), j = I(1), c8 = Expr::Int(8);
  CHECK(simplify(div(i * 8.0 + j, c8), {5, 8}) == i);
  CHECK(simplify(div(i * 8.0 + j, c8), {5, 9}) != i);
  CHECK(simplify(mod(i * 8.0 + j, c8), {5, 8}) == j);
  CHECK(simplify(mod(i * 8.0 + j, c8), {5, 9}) != j);
  CHECK(simplify(div(i, c8) * 8.0 + mod(i, c8), {50}) == i);
  CHECK(simplify(div(i, c8) * 4.0 + mod(i, c8), {50}) != i);
  CHECK(simplify(div(div(i, Expr::Int(2)), Expr::Int(3)), {50}) == div(i, Expr::Int(6)));
  CHECK(simplify(mod(i - 3.0, c8), {8}) != i - 3.0);  // may be negative
  const Expr n = Expr::Dim(S("n"));
  CHECK(simplify(div(i * n + j, n), {5, S("n")}) == i);
  CHECK(simplify(div(i * n, n), {5}) != i);  // n may be 0
  CHECK(simplify(Expr::Select(Lt(i, c8), i, j), {8, 3}) == i);
  CHECK(simplify(Expr::Select(Lt(i, c8), i, j), {9, 3}) != i);
  CHECK(simplify(Max(i, Expr::Int(0)), {9}) == i);
  CHECK(simplify(Eq(i, j), {9, 9})->kind() == ExprKind::kBinary);
  // Huge constants of data arithmetic neither overflow nor change.
  const Expr data = Expr::Load(0, DType::kI64, {i});
  CHECK(simplify(data * 9e18 * 9.0 + data, {9})->dtype() == DType::kI64);
}

TEST_CASE("affine coefficients") {
  CHECK(AffineCoefficient(I(0) * 6.0 + I(1), 0) == Expr::Int(6));
  CHECK(AffineCoefficient(I(0) * Expr::Dim(S("n")), 0) == Expr::Dim(S("n")));
  CHECK(AffineCoefficient(I(1), 0) == Expr::Int(0));
  CHECK_FALSE(AffineCoefficient(I(0) * I(1), 0));
  CHECK_FALSE(AffineCoefficient(Expr::Binary(BinOp::kFloorDiv, I(0), Expr::Int(2)), 0));
}

}  // namespace
}  // namespace weft
