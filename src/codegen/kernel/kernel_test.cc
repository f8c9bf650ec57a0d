#include "weft/codegen/kernel/kernel.h"

#include <doctest/doctest.h>

#include "weft/support/error.h"

namespace weft {
namespace {

SymInt S(const char* name) { return SymInt::Symbol(name); }
Expr I(int k) { return Expr::Index(k); }
Expr X(int k, Indices at) { return Expr::Load(k, DType::kF32, std::move(at)); }

TEST_CASE("the verifier refuses malformed kernels") {
  Kernel k;
  k.buffers = {{DType::kF32, false, 4}, {DType::kF32, true, 4}};
  k.num_inputs = 1;
  k.dims = {SymInt(4)};
  k.num_outer = 1;
  k.vector_loop = 0;
  const auto with = [&](const Expr& value, const Expr& offset) {
    Kernel c = k;
    c.stores = {{1, offset, value, false}};
    c.Finish();
  };
  with(X(0, {I(0)}), I(0));
  CHECK_THROWS_AS(with(X(0, {I(0), I(0)}), I(0)), InternalError);
  CHECK_THROWS_AS(with(X(1, {I(0)}), I(0)), InternalError);
  CHECK_THROWS_AS(with(X(0, {I(1)}), I(0)), InternalError);
  CHECK_THROWS_AS(with(Expr::Load(0, DType::kF64, {I(0)}), I(0)), InternalError);
  CHECK_THROWS_AS(with(Expr::Variable("a"), I(0)), InternalError);
  CHECK_THROWS_AS(with(Expr::Literal(1), I(0)), InternalError);
  CHECK_THROWS_AS(with(Expr::Cast(DType::kF32, Expr::Dim(S("n"))), I(0)), InternalError);
}

TEST_CASE("cost counts what a reduction repeats") {
  const auto cost = [](const Expr& value) {
    Kernel c;
    c.buffers = {{DType::kF32, false, 64}, {DType::kF32, true, 4}};
    c.num_inputs = 1;
    c.dims = {SymInt(4)};
    c.num_outer = 1;
    c.vector_loop = 0;
    c.stores = {{1, I(0), value, false}};
    c.Finish();
    return OpsPerElement(c);
  };
  const Expr x = X(0, {I(0)});
  CHECK(cost(Expr::Call(CallOp::kExp, {x})) > cost(x + x));
  CHECK(cost(Expr::Reduce(ReduceOp::kSum, {SymInt(16)}, [](const Indices& r) {
          return X(0, {I(0) * 16.0 + r[0]}) * 2.0;
        })) >= 16);
}

}  // namespace
}  // namespace weft
