/// deep_expr_test.cc: expressions as deep as a plugin's FCodeGen may make them: nothing recurses
/// over them, and the time grows with their size.
#include <doctest/doctest.h>

#include "weft/codegen/lower/lower.h"

namespace weft {
namespace {

Expr Quotient(const Expr& a, int64_t b) { return Expr::Binary(BinOp::kFloorDiv, a, Expr::Int(b)); }

/// `value` over one input of `elements` and 64 points.
LoweredKernel Lowered(const Expr& value, int64_t elements) {
  ComputeSpec spec;
  spec.inputs = {{DType::kF32, {elements}}};
  spec.outputs = {{value->dtype(), {64}}};
  spec.values = {value};
  return LowerKernel(spec, Facts());
}
constexpr int kDeep = 100000;

TEST_CASE("lowering: a chain of a hundred thousand operations") {
  Expr x = Expr::Load(0, DType::kF32, {Expr::Index(0)});
  for (int k = 0; k < kDeep; ++k) x = Expr::Call(CallOp::kTanh, {x * x});
  CHECK(Lowered(x, 64).kernel->stores.size() == 1);
}

TEST_CASE("lowering: an index of a hundred thousand operations, deep and wide") {
  const Expr i = Expr::Index(0);
  Expr nested = i, sum = i;
  for (int k = 0; k < kDeep; ++k) {
    nested =
        Expr::Binary(BinOp::kFloorMod, nested * Expr::Int(3) + Expr::Int(k % 5), Expr::Int(64));
    sum = sum + Quotient(i + Expr::Int(k), 65);
  }
  CHECK(Lowered(Expr::Load(0, DType::kF32, {nested}), 64).kernel->stores.size() == 1);
  const Expr cut = Expr::Binary(BinOp::kFloorMod, sum, Expr::Int(64));
  CHECK(Lowered(Expr::Load(0, DType::kF32, {cut}), 64).kernel->stores.size() == 1);
}

}  // namespace
}  // namespace weft
