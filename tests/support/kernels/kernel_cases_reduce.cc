/// kernel_cases_reduce.cc: kernels of kernel_cases.h that reduce: inside of a point, and
/// over rows and columns.
#include "tests/support/kernels/kernel_case_builder.h"

namespace weft::kernel_cases {
namespace {

void InlineReductions(std::vector<Case>* all) {
  {
    Builder b("window_max", {30});
    const Values x = Ramp(32);
    auto rx = b.Input(DType::kF32, x);
    b.Output(DType::kF32, I(0),
             Expr::Reduce(ReduceOp::kMax, {3}, [&](const Indices& k) { return rx(I(0) + k[0]); }),
             Map(30, [&](int64_t i) {
               return std::max({x[i], x[i + 1], x[i + 2]});
             }));
    all->push_back(b.Finish());
  }
  {
    // A contraction over a run-time extent, scaled by a reduction that does not depend on the
    // column.
    const SymInt kk = KernelSymbol(0);
    for (int64_t depth : {17, 0}) {
      Builder b(fmt::format("matmul_{}", depth), {7, 5});
      const Values x = Ramp(7 * depth), y = Ramp(5 * depth, 2);
      auto rx = b.Input(DType::kF32, x, kk * 7), ry = b.Input(DType::kF32, y, kk * 5);
      const Expr dim = Expr::Dim(kk);
      const Expr dot = Expr::Reduce(ReduceOp::kSum, {kk}, [&](const Indices& k) {
        const Expr most = Expr::Reduce(ReduceOp::kMax, {kk},
                                       [&](const Indices& j) { return rx(I(0) * dim + j[0]); });
        return (rx(I(0) * dim + k[0]) - most) * ry(k[0] * N(5) + I(1)) * rx(N(0));
      });
      Values want;
      for (int64_t i = 0; i < 35; ++i) {
        double sum = 0, most = -kInf;
        for (int64_t k = 0; k < depth; ++k) most = std::max(most, x[i / 5 * depth + k]);
        for (int64_t k = 0; k < depth; ++k)
          sum += (x[i / 5 * depth + k] - most) * y[k * 5 + i % 5] * x[0];
        want.push_back(sum);
      }
      b.Output(DType::kF32, I(0) * N(5) + I(1), dot, want);
      all->push_back(b.Finish({depth}, 1e-5));
    }
  }
  {
    Builder b("window_2d", {4, 6});
    const Values x = Ramp(6 * 8);
    auto rx = b.Input(DType::kF32, x);
    const auto window = [&](ReduceOp op) {
      return Expr::Reduce(op, {3, 3},
                          [&](const Indices& k) { return rx((I(0) + k[0]) * N(8) + I(1) + k[1]); });
    };
    Values at, most, sum;
    for (int64_t i = 0; i < 24; ++i) {
      double m = -kInf, a = 0, s = 0;
      for (int64_t k = 0; k < 9; ++k) {
        const double v = x[(i / 6 + k / 3) * 8 + i % 6 + k % 3];
        s += v;
        if (v > m) m = v, a = double(k);
      }
      at.push_back(a), most.push_back(m), sum.push_back(s / 9);
    }
    const Expr to = I(0) * N(6) + I(1);
    b.Output(DType::kI64, to, window(ReduceOp::kArgMax), at);
    b.Output(DType::kF32, to, window(ReduceOp::kMax), most);
    b.Output(DType::kF32, to, window(ReduceOp::kSum) / 9, sum);
    all->push_back(b.Finish({}, 1e-6));
  }
  {
    Builder b("empty", {3});
    const SymInt z = KernelSymbol(0);
    auto rx = b.Input(DType::kF32, {}, z), ri = b.Input(DType::kI32, {}, z);
    const auto out = [&](DType t, ReduceOp op, bool ints, double v) {
      b.Output(t, I(0),
               Expr::Reduce(op, {z}, [&](const Indices& k) { return ints ? ri(k[0]) : rx(k[0]); }),
               {v, v, v});
    };
    out(DType::kF32, ReduceOp::kSum, false, 0);
    out(DType::kF32, ReduceOp::kProd, false, 1);
    out(DType::kF32, ReduceOp::kMin, false, kInf);
    out(DType::kI32, ReduceOp::kMax, true, -2147483648.0);
    out(DType::kI64, ReduceOp::kArgMin, false, 0);
    all->push_back(b.Finish({0}));
  }
}

/// soft-max, its row maximum's position and the row's mean, over P x R in `t`.
Case Softmax(DType t, int64_t p, int64_t r, int dynamic) {
  const SymInt rows = dynamic ? KernelSymbol(0) : SymInt(p),
               row = dynamic ? KernelSymbol(1) : SymInt(r);
  Builder b(fmt::format("softmax_{}_{}x{}{}", DTypeName(t), p, r, dynamic ? "_dynamic" : ""),
            {rows, row}, true, 1);
  const Values x = Ramp(p * r);
  auto rx = b.Input(t, x, rows * row);
  const Expr dim = Expr::Dim(row);
  const auto at = [&](const Expr& k) { return Expr::Cast(DType::kF32, rx(I(0) * dim + k)); };
  const auto over = [&](ReduceOp op, const std::function<Expr(Expr)>& f) {
    return Expr::Reduce(op, {row}, [&](const Indices& k) { return f(k[0]); });
  };
  const Expr most = over(ReduceOp::kMax, at);
  const auto e = [&](const Expr& k) { return Expr::Call(CallOp::kExp, {at(k) - most}); };
  const Expr sum = over(ReduceOp::kSum, e);
  Values soft, where, mean;
  for (int64_t i = 0; i < p; ++i) {
    double m = -kInf, s = 0, total = 0, a = 0;
    for (int64_t k = 0; k < r; ++k)
      if (x[i * r + k] > m) m = x[i * r + k], a = double(k);
    for (int64_t k = 0; k < r; ++k) s += std::exp(x[i * r + k] - m), total += x[i * r + k];
    for (int64_t k = 0; k < r; ++k) soft.push_back(std::exp(x[i * r + k] - m) / s);
    where.push_back(a), mean.push_back(total);
  }
  b.Output(t, I(0) * dim + I(1), Expr::Cast(t, e(I(1)) / sum), soft, false, rows * row);
  b.Output(DType::kI64, I(0), over(ReduceOp::kArgMax, at), where, true, rows);
  b.Output(DType::kF32, I(0), over(ReduceOp::kSum, at) * 1.0, mean, true, rows);
  return b.Finish(dynamic ? std::vector<int64_t>{p, r} : std::vector<int64_t>{},
                  t == DType::kF32   ? 2e-5
                  : t == DType::kF16 ? 1e-3
                                     : 8e-3);
}

Case LayerNorm(int64_t p, int64_t r) {
  Builder b(fmt::format("layernorm_{}x{}", p, r), {p, r}, true, 1);
  const Values x = Ramp(p * r), gamma = Ramp(r, 2), beta = Ramp(r, 3);
  auto rx = b.Input(DType::kF16, x), rg = b.Input(DType::kF32, gamma),
       rb = b.Input(DType::kF32, beta);
  const auto at = [&](const Expr& k) { return Expr::Cast(DType::kF32, rx(I(0) * N(r) + k)); };
  const Expr mean =
      Expr::Reduce(ReduceOp::kSum, {r}, [&](const Indices& k) { return at(k[0]); }) / double(r);
  const Expr var = Expr::Reduce(ReduceOp::kSum, {r},
                                [&](const Indices& k) {
                                  const Expr d = at(k[0]) - mean;
                                  return d * d;
                                }) /
                   double(r);
  const Expr inv = Expr::Call(CallOp::kRsqrt, {var + 1e-5});
  Values out, means, invs;
  for (int64_t i = 0; i < p; ++i) {
    double m = 0, v = 0;
    for (int64_t k = 0; k < r; ++k) m += x[i * r + k] / double(r);
    for (int64_t k = 0; k < r; ++k) v += (x[i * r + k] - m) * (x[i * r + k] - m) / double(r);
    for (int64_t k = 0; k < r; ++k)
      out.push_back((x[i * r + k] - m) / std::sqrt(v + 1e-5) * gamma[k] + beta[k]);
    means.push_back(m), invs.push_back(1 / std::sqrt(v + 1e-5));
  }
  b.Output(DType::kF16, I(0) * N(r) + I(1),
           Expr::Cast(DType::kF16, (at(I(1)) - mean) * inv * rg(I(1)) + rb(I(1))), out);
  b.Output(DType::kF32, I(0), mean, means, true);
  b.Output(DType::kF32, I(0), inv, invs, true);
  return b.Finish({}, 2e-3);
}

void Rows(std::vector<Case>* all) {
  const int64_t lengths[] = {1, 2, 3, 10, 32, 33, 64, 100, 128, 1000, 1024, 1030, 4096, 9001};
  for (int64_t r : lengths) all->push_back(Softmax(DType::kF32, 11, r, false));
  for (int64_t r : {24, 768, 2048}) all->push_back(Softmax(DType::kBF16, 5, r, false));
  all->push_back(Softmax(DType::kF16, 3, 40, false));
  for (int64_t r : {0, 5, 700, 3000}) all->push_back(Softmax(DType::kF32, 9, r, true));
  all->push_back(LayerNorm(6, 768));
  all->push_back(LayerNorm(2, 1600));
  {
    // Everything in one row, in two loops; integers that wrap; NaN is an extreme, and the first of
    // them counts.
    Builder b("all_reduce", {50, 12}, true, 0);
    Values x = Ramp(600);
    x[77] = x[300] = kNan;
    auto rx = b.Input(DType::kF32, x),
         ri = b.Input(DType::kI32,
                      Map(600, [](int64_t i) { return double(i * 10000000 % 2147483647); }));
    const auto over = [&](ReduceOp op, const std::function<Expr(Expr)>& f) {
      return Expr::Reduce(op, {50, 12}, [&](const Indices& k) { return f(k[0] * N(12) + k[1]); });
    };
    int32_t wrapped = 0;
    for (int64_t i = 0; i < 600; ++i)
      wrapped = int32_t(uint32_t(wrapped) + uint32_t(i * 10000000 % 2147483647));
    b.Output(DType::kI64, N(0), over(ReduceOp::kArgMin, rx), {77}, true);
    b.Output(DType::kI64, N(0), over(ReduceOp::kArgMax, rx), {77}, true);
    b.Output(DType::kF32, N(0), over(ReduceOp::kMax, rx), {kNan}, true);
    b.Output(DType::kI32, N(0), over(ReduceOp::kSum, ri) + Expr::ConstInt(DType::kI32, 1),
             {double(wrapped) + 1}, true);
    b.Output(DType::kBool, N(0),
             over(ReduceOp::kAny, [&](const Expr& k) { return Expr::Unary(UnOp::kIsNan, rx(k)); }),
             {1}, true);
    b.Output(
        DType::kBool, N(0),
        over(ReduceOp::kAll, [&](const Expr& k) { return Lt(rx(k), Expr::Const(DType::kF32, 9)); }),
        {0}, true);
    b.Output(DType::kI64, N(0),
             over(ReduceOp::kArgMax, [&](const Expr&) { return Expr::Const(DType::kF32, -kInf); }),
             {0}, true);
    all->push_back(b.Finish());
  }
  for (bool dynamic : {false, true}) {
    // Memory contiguous along the rows: x[r][p].
    const int64_t p = 70, r = 333;
    const SymInt rows = dynamic ? KernelSymbol(0) : SymInt(p),
                 row = dynamic ? KernelSymbol(1) : SymInt(r);
    Builder b(dynamic ? "columns_dynamic" : "columns", {rows, row}, true, 1);
    b.c.kernel->vector_loop = 0;
    Values x = Ramp(p * r);
    auto rx = b.Input(DType::kF32, x, rows * row);
    const auto at = [&](const Expr& k) { return rx(k * Expr::Dim(rows) + I(0)); };
    const Expr sum =
        Expr::Reduce(ReduceOp::kSum, {row}, [&](const Indices& k) { return at(k[0]); });
    Values total, least, centered(size_t(p * r));
    for (int64_t i = 0; i < p; ++i) {
      double s = 0, m = kInf, a = 0;
      for (int64_t k = 0; k < r; ++k) {
        s += x[k * p + i];
        if (x[k * p + i] < m) m = x[k * p + i], a = double(k);
      }
      total.push_back(s), least.push_back(a);
      for (int64_t k = 0; k < r; ++k) centered[size_t(k * p + i)] = x[k * p + i] - s;
    }
    b.Output(DType::kF32, I(1) * Expr::Dim(rows) + I(0), at(I(1)) - sum, centered, false,
             rows * row);
    b.Output(DType::kF32, I(0), sum, total, true, rows);
    b.Output(DType::kI64, I(0),
             Expr::Reduce(ReduceOp::kArgMin, {row}, [&](const Indices& k) { return at(k[0]); }),
             least, true, rows);
    all->push_back(b.Finish(dynamic ? std::vector<int64_t>{p, r} : std::vector<int64_t>{}, 1e-4));
  }
}

}  // namespace

void ReductionCases(std::vector<Case>* all) {
  InlineReductions(all);
  Rows(all);
}

}  // namespace weft::kernel_cases
