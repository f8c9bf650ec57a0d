#include "contraction.h"

#include <string>

#include "codegen/llvm/compiler/test_kernels.h"
#include "weft/codegen/expr/math.h"

namespace weft::llvmgen {
namespace {

Expr I(int k) { return Expr::Index(k); }

/// sum_k a[row, k] b[k, first + column]; without rows a[k].
Expr Product(DType t, int64_t terms, const Expr& row, const Expr& column, int64_t first) {
  return Expr::Reduce(ReduceOp::kSum, {SymInt(terms)}, [&](const Indices& r) {
    const Expr a = row ? Expr::Load(0, t, {row, r[0]}) : Expr::Load(0, t, {r[0]});
    return a * Expr::Load(1, t, {r[0], column + Expr::Int(first)});
  });
}

/// `gates` products over one matrix of [terms, gates * columns], added to columns of the third
/// operand and multiplied with each other; the first one apart too.
KernelPtr Cell(DType t, SymInt rows, int64_t terms, int64_t columns, int gates) {
  const bool one = rows.is(1);
  const auto dims = [&](int64_t n) {
    return one ? std::vector<SymInt>{n} : std::vector<SymInt>{rows, n};
  };
  const Expr row = one ? Expr() : I(0), column = I(one ? 0 : 1);
  Expr all, first;
  for (int g = 0; g < gates; ++g) {
    const Expr at = column + Expr::Int(g * columns);
    const Expr gate = Product(t, terms, row, column, g * columns) +
                      Expr::Load(2, t, one ? Indices{at} : Indices{row, at});
    all = all ? all * gate : gate;
    if (!first) first = Expr::Call(CallOp::kTanh, {gate});
  }
  return Lower({{t, dims(terms)}, {t, {terms, gates * columns}}, {t, dims(gates * columns)}},
               {{t, dims(columns)}, {t, dims(columns)}}, {all, first});
}

TEST_CASE("contractions: rows by a matrix, gates over it, all widths, in any pieces") {
  for (DType t : {DType::kF32, DType::kF64})
    for (int gates : {1, 2, 3, 4})
      for (int64_t rows : {1, 2, 5, 9, 13})
        for (int64_t columns : {2, 8, 16, 19, 40})
          for (int64_t terms : {2, 3, 17}) {
            if ((rows + columns + terms + gates) % 3 != 0 && t == DType::kF64) continue;
            const KernelPtr k = Cell(t, rows, terms, columns, gates);
            INFO(k->CanonicalText());
            CHECK(AsContraction(*k));
            CheckKernel(k, RandomInputs(*k, {}, unsigned(terms), -1, 1), {}, 400);
          }
}

TEST_CASE("contractions: as many rows as come, none too") {
  const KernelPtr k = Cell(DType::kF32, KernelSymbol(0), 20, 24, 4);
  CHECK(AsContraction(*k));
  for (int64_t rows : {0, 1, 2, 4, 5, 11, 64})
    CheckKernel(k, RandomInputs(*k, {rows}, 3, -1, 1), {rows}, 400);
}

TEST_CASE("contractions: NaN and infinities stay in their rows and columns") {
  const KernelPtr k = Cell(DType::kF32, 6, 8, 20, 2);
  std::vector<Bytes> in = RandomInputs(*k, {}, 4, -1, 1);
  const auto put = [&](size_t operand, size_t at, double v) {
    WriteElement(DType::kF32, {v, 0}, &in[operand][4 * at]);
  };
  put(0, 8 * 2 + 3, NAN), put(0, 8 * 5, INFINITY), put(1, 40 * 7 + 39, -INFINITY);
  put(2, 40 * 3 + 19, INFINITY), put(2, 40 * 3 + 39, -INFINITY);
  CheckKernel(k, in, {}, 400);
}

TEST_CASE("near misses of contractions") {
  const auto f = [](int b, Indices at) { return Expr::Load(b, DType::kF32, std::move(at)); };
  const auto sum = [](int64_t n, const std::function<Expr(const Indices&)>& body) {
    return Expr::Reduce(ReduceOp::kSum, {SymInt(n)}, body);
  };
  const TensorSpec a{DType::kF32, {7, 9}}, b{DType::kF32, {9, 11}}, y{DType::kF32, {7, 11}};
  const auto is = [&](std::vector<TensorSpec> in, TensorSpec out, const Expr& value) {
    const KernelPtr k = Lower(std::move(in), {std::move(out)}, {value});
    CheckKernel(k, RandomInputs(*k, {}, 5, -1, 1), {}, 400);
    return AsContraction(*k).has_value();
  };
  const Expr plain = sum(9, [&](const Indices& r) {
    return f(0, {I(0), r[0]}) * f(1, {r[0], I(1)});
  });
  CHECK(is({a, b}, y, plain));
  // Not side by side in lanes.
  CHECK_FALSE(is({a, {DType::kF32, {11, 9}}}, y, sum(9, [&](const Indices& r) {
                   return f(0, {I(0), r[0]}) * f(1, {I(1), r[0]});
                 })));
  // No product; a maximum; sums over other terms; one in another.
  CHECK_FALSE(is({a, b}, y, sum(9, [&](const Indices& r) {
                   return f(0, {I(0), r[0]}) - f(1, {r[0], I(1)});
                 })));
  CHECK_FALSE(is({a, b}, y, Expr::Reduce(ReduceOp::kMax, {SymInt(9)}, [&](const Indices& r) {
                   return f(0, {I(0), r[0]}) * f(1, {r[0], I(1)});
                 })));
  CHECK_FALSE(is({a, b}, y, plain + sum(4, [&](const Indices& r) {
                              return f(0, {I(0), r[0]}) * f(1, {r[0], I(1)});
                            })));
  CHECK_FALSE(is({a, b}, y, sum(9, [&](const Indices& r) {
                   return f(0, {I(0), r[0]}) * sum(3, [&](const Indices& q) {
                            return f(1, {r[0], I(1)}) * f(0, {q[0], r[0]});
                          });
                 })));
}

}  // namespace
}  // namespace weft::llvmgen
