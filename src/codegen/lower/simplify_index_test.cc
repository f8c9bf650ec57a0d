#include <doctest/doctest.h>

#include "weft/codegen/lower/lower.h"

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

Expr FloorDiv(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kFloorDiv, a, b); }
Expr FloorMod(const Expr& a, const Expr& b) { return Expr::Binary(BinOp::kFloorMod, a, b); }

TEST_CASE("division that truncates rounds down only where no operand is negative") {
  const Facts facts;
  const auto simplify = [&](const Expr& e) { return SimplifyIndex(e, {9, 7}, facts); };
  const Expr data = Expr::Load(0, DType::kI64, {I(0)}), five = Expr::Int(5);
  for (const auto& [op, floor] :
       {std::pair(BinOp::kDiv, BinOp::kFloorDiv), {BinOp::kMod, BinOp::kFloorMod}}) {
    const auto truncated = [op = op](const Expr& a, const Expr& b) {
      return Expr::Binary(op, a, b);
    };
    for (const Expr& divisor : {data, I(1) - Expr::Int(3), Expr::Int(-2)}) {
      CHECK(simplify(truncated(I(0), divisor)) == truncated(I(0), divisor));
      CHECK(simplify(truncated(five, divisor)) == truncated(five, divisor));
    }
    CHECK(simplify(truncated(data, five)) == truncated(data, five));
    // By 0 both give 0.
    CHECK(simplify(truncated(I(0), I(1))) == Expr::Binary(floor, I(0), I(1)));
    CHECK(simplify(truncated(I(0), five)) == Expr::Binary(floor, I(0), five));
    const Expr narrow = Expr::Cast(DType::kI64, Expr::Load(0, DType::kU8, {I(0)}));
    CHECK(simplify(truncated(narrow, five)) == Expr::Binary(floor, narrow, five));
  }
}

TEST_CASE("data wraps: sums of it are neither divided nor ordered") {
  const Facts facts;
  const auto simplify = [&](const Expr& e) { return SimplifyIndex(e, {9, 64}, facts); };
  const Expr x = Expr::Load(0, DType::kI64, {I(0)}), one = Expr::Int(1), j = I(1);
  const auto stays = [&](const Expr& e) { return simplify(e) == e; };
  CHECK(stays(FloorMod(x + Expr::Int(-1), Expr::Int(15))));
  CHECK(stays(FloorMod(x * Expr::Int(3), Expr::Int(3))));
  CHECK(stays(FloorDiv(x * Expr::Int(3), Expr::Int(3))));
  CHECK(stays(FloorDiv(x * Expr::Int(64) + j, Expr::Int(64))));
  CHECK(stays(FloorMod(x * Expr::Int(60) + j, Expr::Int(60))));
  CHECK(stays(Lt(x, x + one)));
  CHECK(stays(Max(x + one, x)));
  CHECK(stays(Min(x + one, x)));
  // What holds modulo 2^64 holds for data.
  CHECK(simplify(Eq(x + one, x)) == Expr::Bool(false));
  CHECK(simplify(Le(x + one, one + x)) == Expr::Bool(true));
  CHECK(simplify(x + j - x) == j);
  CHECK(simplify(FloorMod(x * Expr::Int(64) + j, Expr::Int(64))) == j);
  CHECK(simplify(FloorDiv(x, Expr::Int(3)) * Expr::Int(3) + FloorMod(x, Expr::Int(3))) == x);
  CHECK(simplify(FloorDiv(FloorDiv(x, Expr::Int(2)), Expr::Int(3))) == FloorDiv(x, Expr::Int(6)));
  // By 0 everything is 0, which 5 does not divide.
  CHECK(stays(FloorMod(FloorMod(x, Expr::Int(0)), Expr::Int(5))));
  // Of a narrow type, or cut to an axis, it has bounds.
  const Expr narrow = Expr::Cast(DType::kI64, Expr::Load(0, DType::kI32, {I(0)}));
  CHECK(simplify(FloorDiv(narrow * Expr::Int(64) + j, Expr::Int(64))) == narrow);
  CHECK(simplify(Lt(narrow, narrow + one)) == Expr::Bool(true));
  const Expr cut = Max(Expr::Int(0), Min(x, Expr::Int(99)));
  CHECK(simplify(FloorDiv(cut * Expr::Int(64) + j, Expr::Int(64))) == cut);
}

TEST_CASE("sums of symbols do not wrap where a size bounds them") {
  const Facts facts;
  const SymInt n = S("n"), m = S("m"), k = S("k");
  const auto simplify = [&](const Expr& e, std::vector<SymInt> dims) {
    return SimplifyIndex(e, dims, facts);
  };
  CHECK(simplify(FloorDiv(I(0) * Expr::Dim(m) + I(1), Expr::Dim(m)), {n, m}) == I(0));
  CHECK(simplify(FloorDiv((I(0) * Expr::Dim(m) + I(1)) * Expr::Dim(k) + I(2), Expr::Dim(k)),
                 {n, m, k}) == I(0) * Expr::Dim(m) + I(1));
  CHECK(simplify(FloorDiv(I(0) * Expr::Int(1 << 20) + I(1), Expr::Int(1 << 20)), {n, 1 << 20}) ==
        I(0));
  // No loop or tensor has so many elements.
  for (const Expr& factor : {Expr::Int((int64_t{1} << 62) + 1), Expr::Dim(m * m * m)}) {
    const Expr e = FloorDiv(I(0) * factor, factor);
    CHECK(simplify(e, {n}) == e);
    CHECK(simplify(Lt(I(0) * factor + Expr::Int(1), I(0) * factor), {n})->kind() ==
          ExprKind::kBinary);
  }
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
