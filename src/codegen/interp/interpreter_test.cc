#include "weft/codegen/interp/interpreter.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>

#include "weft/support/error.h"

namespace weft {
namespace {

SymInt N() { return SymInt::Symbol("n"); }
TensorPtr F32(std::vector<int64_t> dims, const std::vector<double>& v) {
  return Tensor::FromDoubles(DType::kF32, std::move(dims), v);
}
TensorPtr Ramp(std::vector<int64_t> dims, double scale = 1, DType t = DType::kF32) {
  std::vector<double> v(size_t(NumElements(dims)));
  for (size_t i = 0; i < v.size(); ++i) v[i] = scale * (double(i % 97) - 40);
  return Tensor::FromDoubles(t, std::move(dims), v);
}
Indices Is(int rank) {
  Indices at;
  for (int i = 0; i < rank; ++i) at.push_back(Expr::Index(i));
  return at;
}
ComputeSpec Spec(std::vector<TensorSpec> in, std::vector<TensorSpec> out, Exprs values) {
  return {std::move(in), std::move(out), std::move(values)};
}
TensorSpec F(std::vector<SymInt> dims) { return {DType::kF32, std::move(dims)}; }

Expr Softmax(int rank, int axis, SymInt extent) {
  const auto x = [&](const Expr& r) {
    Indices at = Is(rank);
    at[size_t(axis)] = r;
    return Expr::Load(0, DType::kF32, at);
  };
  const Expr max =
      Expr::Reduce(ReduceOp::kMax, {extent}, [&](const Indices& r) { return x(r[0]); });
  const auto e = [&](const Expr& r) { return Expr::Call(CallOp::kExp, {x(r) - max}); };
  return e(Expr::Index(axis)) /
         Expr::Reduce(ReduceOp::kSum, {extent}, [&](const Indices& r) { return e(r[0]); });
}

TEST_CASE("element-wise with broadcasting and symbolic extents") {
  const Expr v =
      Expr::Load(0, DType::kF32, Is(2)) * 2.0 + Expr::Load(1, DType::kF32, {Expr::Index(1)});
  const auto spec = Spec({F({N(), 3}), F({3})}, {F({N(), 3})}, {v});
  const auto out =
      Interpret(spec, {F32({2, 3}, {1, 2, 3, 4, 5, 6}), F32({3}, {10, 20, 30})}, {{"n", 2}});
  const double want[] = {12, 24, 36, 18, 30, 42};
  for (int i = 0; i < 6; ++i) CHECK(out[0]->at(i) == want[i]);
  CHECK_THROWS_AS(
      Interpret(spec, {F32({2, 3}, {1, 2, 3, 4, 5, 6}), F32({3}, {10, 20, 30})}, {{"n", 5}}),
      UserError);
  const auto none = Interpret(spec, {F32({0, 3}, {}), F32({3}, {1, 2, 3})}, {{"n", 0}});
  CHECK(none[0]->num_elements() == 0);
}

TEST_CASE("an index that leaves 64 bits between two lanes is computed as every other one") {
  // i 2^62 is 0 again at i = 4: the ends of the line are inside, what lies between is not.
  const Expr far = Expr::Index(0) * Expr::Int(int64_t{1} << 62);
  const TensorPtr x = F32({2}, {5, 6});
  const auto read = [&](int64_t n, const Expr& at, const Expr& guard) {
    return Interpret(Spec({F({2})}, {F({n})}, {Expr::Load(0, DType::kF32, {at}, guard)}), {x}, {});
  };
  for (const int64_t n : {2, 5, 9}) CHECK_THROWS_AS(read(n, far, {}), UserError);
  const Expr fourth =
      Eq(Expr::Binary(BinOp::kFloorMod, Expr::Index(0), Expr::Int(4)), Expr::Int(0));
  const auto out = read(9, far + Expr::Int(1), fourth);
  for (int i = 0; i < 9; ++i) CHECK(out[0]->at(i) == (i % 4 == 0 ? 6 : 0));
  // The same where the loop is not the one in lanes, and where a value that was read is multiplied.
  const Expr row = Expr::Load(0, DType::kF32, {far + Expr::Index(1)}, fourth);
  const auto rows = Interpret(Spec({F({2})}, {F({5, 2})}, {row}), {x}, {});
  CHECK(rows[0]->at(0) == 5);
  CHECK(rows[0]->at(9) == 6);
  const TensorPtr four = Tensor::FromDoubles(DType::kI64, {1}, {4});
  const Expr read_index = Expr::Load(1, DType::kI64, {Expr::Int(0)}) * Expr::Int(int64_t{1} << 62);
  const auto spec = Spec({F({2}), {DType::kI64, {1}}}, {F({2})},
                         {Expr::Load(0, DType::kF32, {read_index + Expr::Index(0)})});
  CHECK(Interpret(spec, {x, four}, {})[0]->at(1) == 6);
}

TEST_CASE("soft-max along any axis sums to one") {
  for (int axis = 0; axis < 3; ++axis) {
    const std::vector<int64_t> dims{3, 5, 7};
    const auto spec = Spec({F({3, 5, 7})}, {F({3, 5, 7})}, {Softmax(3, axis, dims[size_t(axis)])});
    const TensorPtr x = Ramp(dims, 0.05);
    const TensorPtr y = Interpret(spec, {x}, {}, InterpretMode::kDouble)[0];
    int64_t stride = 1;
    for (int d = 2; d > axis; --d) stride *= dims[size_t(d)];
    for (int64_t i = 0; i < 105; ++i) {
      const int64_t pos = i / stride % dims[size_t(axis)], base = i - pos * stride;
      double sum = 0;
      for (int64_t r = 0; r < dims[size_t(axis)]; ++r) sum += std::exp(x->at(base + r * stride));
      CHECK(y->at(i) == doctest::Approx(std::exp(x->at(i)) / sum).epsilon(1e-6));
    }
  }
}

TEST_CASE("soft-max costs a constant number of passes") {
  // 4 M elements in rows of 4096: quadratic work would take minutes.
  const auto spec = Spec({F({1024, 4096})}, {F({1024, 4096})}, {Softmax(2, 1, 4096)});
  const TensorPtr x = Ramp({1024, 4096}, 0.01);
  const auto start = std::chrono::steady_clock::now();
  const TensorPtr y = Interpret(spec, {x}, {})[0];
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < 20);
  double sum = 0;
  for (int64_t i = 0; i < 4096; ++i) sum += y->at(i);
  CHECK(sum == doctest::Approx(1).epsilon(1e-4));
}

TEST_CASE("matmul") {
  const Expr v = Expr::Reduce(ReduceOp::kSum, {SymInt(5)}, [](const Indices& r) {
    return Expr::Load(0, DType::kF32, {Expr::Index(0), r[0]}) *
           Expr::Load(1, DType::kF32, {r[0], Expr::Index(1)});
  });
  const TensorPtr a = Ramp({4, 5}), b = Ramp({5, 33}, 0.5);
  const TensorPtr c = Interpret(Spec({F({4, 5}), F({5, 33})}, {F({4, 33})}, {v}), {a, b}, {})[0];
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 33; ++j) {
      double sum = 0;
      for (int k = 0; k < 5; ++k) sum += a->at(i * 5 + k) * b->at(k * 33 + j);
      CHECK(c->at(i * 33 + j) == sum);
    }
  }
}

TEST_CASE("guards, gathers and range errors") {
  const Expr i = Expr::Index(0);
  // Pad: two on the left, one on the right.
  const Expr inside = And(Expr::Binary(BinOp::kGe, i, Expr::Int(2)), Lt(i, Expr::Int(5)));
  const TensorPtr p =
      Interpret(Spec({F({3})}, {F({6})}, {Expr::Load(0, DType::kF32, {i - 2.0}, inside)}),
                {F32({3}, {7, 8, 9})}, {})[0];
  const double want[] = {0, 0, 7, 8, 9, 0};
  for (int k = 0; k < 6; ++k) CHECK(p->at(k) == want[k]);
  const auto gather = Spec({F({3}), {DType::kI64, {2}}}, {F({2})},
                           {Expr::Load(0, DType::kF32, {Expr::Load(1, DType::kI64, {i})})});
  const TensorPtr x = F32({3}, {7, 8, 9});
  CHECK(Interpret(gather, {x, Tensor::Ints({2, 0})}, {})[0]->at(0) == 9);
  try {
    Interpret(gather, {x, Tensor::Ints({0, 3})}, {});
    CHECK(false);
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kIndexRange);
  }
  CHECK_THROWS_AS(Interpret(Spec({F({3})}, {F({4})}, {Expr::Load(0, DType::kF32, {i})}), {x}, {}),
                  Error);
}

TEST_CASE("reductions of every kind") {
  const auto reduce = [](ReduceOp op, DType t, std::vector<int64_t> dims,
                         const std::vector<double>& v) {
    std::vector<SymInt> extents(dims.begin(), dims.end());
    const Expr e = Expr::Reduce(op, extents, [&](const Indices& r) { return Expr::Load(0, t, r); });
    return Interpret(Spec({{t, extents}}, {{e->dtype(), {}}}, {e}),
                     {Tensor::FromDoubles(t, dims, v)}, {})[0];
  };
  const double nan = std::nan("");
  CHECK(reduce(ReduceOp::kSum, DType::kI8, {3}, {100, 100, 100})->at(0) == 44);  // wraps
  CHECK(reduce(ReduceOp::kProd, DType::kF32, {3}, {2, 3, 4})->at(0) == 24);
  CHECK(reduce(ReduceOp::kMax, DType::kU64, {2}, {1, 18446744073709549568.0})->at_int(0) ==
        int64_t(18446744073709549568u));
  CHECK(std::isnan(reduce(ReduceOp::kMin, DType::kF32, {3}, {2, nan, 4})->at(0)));
  CHECK(reduce(ReduceOp::kArgMax, DType::kF32, {2, 3}, {1, 5, 2, 5, 0, 0})->at_int(0) == 1);
  CHECK(reduce(ReduceOp::kArgMin, DType::kI32, {2, 3}, {1, 5, 2, 5, 0, 0})->at_int(0) == 4);
  CHECK(reduce(ReduceOp::kArgMax, DType::kF32, {4}, {1, nan, 9, nan})->at_int(0) == 1);
  CHECK(reduce(ReduceOp::kAny, DType::kBool, {3}, {0, 0, 1})->at_int(0) == 1);
  CHECK(reduce(ReduceOp::kAll, DType::kBool, {3}, {1, 0, 1})->at_int(0) == 0);
  // Sums of f16 accumulate beyond f16.
  CHECK(reduce(ReduceOp::kSum, DType::kF16, {4}, {2048, 1, 1, 1})->at(0) ==
        2052);  // 2051 rounds to even
  // Symbolic extents that turn out to be 0.
  const Expr e = Expr::Reduce(ReduceOp::kMax, {N()},
                              [](const Indices& r) { return Expr::Load(0, DType::kF32, r); });
  CHECK(Interpret(Spec({F({N()})}, {F({})}, {e}), {F32({0}, {})}, {{"n", 0}})[0]->at(0) ==
        -INFINITY);
}

TEST_CASE("double mode keeps what typed mode rounds") {
  const Expr x = Expr::Load(0, DType::kF32, {Expr::Index(0)});
  const Expr v = (x + 1.0) - x;
  const auto spec = Spec({F({1})}, {F({1})}, {v});
  CHECK(Interpret(spec, {F32({1}, {16777216 * 4})}, {}, InterpretMode::kTyped)[0]->at(0) == 0);
  CHECK(Interpret(spec, {F32({1}, {16777216 * 4})}, {}, InterpretMode::kDouble)[0]->at(0) == 1);
}

TEST_CASE("integers and conversions follow the semantics of expr.h") {
  const auto binary = [](BinOp op, DType t, double a, double b) {
    const Expr e = Expr::Binary(op, Expr::Load(0, t, {}), Expr::Load(1, t, {}));
    return Interpret(Spec({{t, {}}, {t, {}}}, {{e->dtype(), {}}}, {e}),
                     {Tensor::Scalar(t, a), Tensor::Scalar(t, b)}, {})[0]
        ->at_int(0);
  };
  CHECK(binary(BinOp::kDiv, DType::kI32, -7, 2) == -3);
  CHECK(binary(BinOp::kDiv, DType::kI32, -7, 0) == 0);
  CHECK(binary(BinOp::kMod, DType::kI64, 7, 0) == 0);
  CHECK(binary(BinOp::kAdd, DType::kU8, 250, 10) == 4);
  CHECK(binary(BinOp::kLt, DType::kU8, 250, 10) == 0);
  CHECK(binary(BinOp::kShl, DType::kI32, 1, 40) == 0);
  const auto cast = [](DType from, DType to, double v) {
    const Expr e = Expr::Cast(to, Expr::Load(0, from, {}));
    return Interpret(Spec({{from, {}}}, {{to, {}}}, {e}), {Tensor::Scalar(from, v)}, {})[0]->at(0);
  };
  CHECK(cast(DType::kF32, DType::kI8, 1000) == 127);
  CHECK(cast(DType::kF32, DType::kU8, -3) == 0);
  CHECK(cast(DType::kI32, DType::kI8, 200) == -56);
  CHECK(cast(DType::kF32, DType::kF16, 1.0009765625 + 0.00048828125) == 1.001953125);
  CHECK(cast(DType::kF32, DType::kBool, 0.5) == 1);
}

TEST_CASE("nested reductions and blocks longer than the lanes") {
  // sum over r of x[i, r] * max over q of y[r, q]: the inner table is over r alone.
  const Expr v = Expr::Reduce(ReduceOp::kSum, {SymInt(300)}, [](const Indices& r) {
    return Expr::Load(0, DType::kF32, {Expr::Index(0), r[0]}) *
           Expr::Reduce(ReduceOp::kMax, {SymInt(6)}, [&](const Indices& q) {
             return Expr::Load(1, DType::kF32, {r[0], q[0]});
           });
  });
  const TensorPtr x = Ramp({700, 300}), y = Ramp({300, 6}, 0.5);
  const TensorPtr z = Interpret(Spec({F({700, 300}), F({300, 6})}, {F({700})}, {v}), {x, y}, {},
                                InterpretMode::kDouble)[0];
  for (int i : {0, 255, 256, 699}) {
    double sum = 0;
    for (int r = 0; r < 300; ++r) {
      double best = -1e30;
      for (int q = 0; q < 6; ++q) best = std::max(best, y->at(r * 6 + q));
      sum += x->at(i * 300 + r) * best;
    }
    CHECK(z->at(i) == doctest::Approx(sum));
  }
}

}  // namespace
}  // namespace weft
