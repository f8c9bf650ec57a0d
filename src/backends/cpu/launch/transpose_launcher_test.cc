/// transpose_launcher_test.cc: transpositions of every size against loops, and what is none.
#include "transpose_launcher.h"

#include <doctest/doctest.h>

#include <vector>

#include "weft/codegen/lower/lower.h"

namespace weft::cpu {
namespace {

/// y[b, j, i] = x[b, i, j]
KernelPtr Transposition(DType t, SymInt batch, SymInt rows, SymInt columns) {
  const Expr x = Expr::Load(0, t, {Expr::Index(0), Expr::Index(2), Expr::Index(1)});
  return LowerKernel({{{t, {batch, rows, columns}}}, {{t, {batch, columns, rows}}}, {x}}, Facts())
      .kernel;
}

void Check(const KernelLauncher& launcher, int64_t batch, int64_t rows, int64_t columns,
           const std::vector<int64_t>& dims) {
  std::vector<int32_t> x(size_t(batch * rows * columns)), y(x.size() + 1, -1);
  for (size_t i = 0; i < x.size(); ++i) x[i] = int32_t(i * 2654435761u);  // any bits, NaN too
  void* buffers[] = {x.data(), y.data()};
  launcher.Launch(buffers, dims.data());
  bool same = true;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        same = same &&
               y[size_t((b * columns + j) * rows + i)] == x[size_t((b * rows + i) * columns + j)];
  CHECK(same);
  CHECK(y.back() == -1);
}

TEST_CASE("matrices of any extents, known and of the run") {
  const auto team = std::make_shared<Team>(2);
  const auto any = MakeTransposeLauncher(
      *Transposition(DType::kI32, SymInt::Symbol("b"), SymInt::Symbol("r"), SymInt::Symbol("c")),
      team);
  REQUIRE(bool(any));
  for (int64_t batch : {1, 3})
    for (int64_t rows : {2, 3, 17, 300})
      for (int64_t columns : {2, 3, 5, 64, 85}) {
        CAPTURE(rows);
        CAPTURE(columns);
        const auto known =
            MakeTransposeLauncher(*Transposition(DType::kF32, batch, rows, columns), team);
        REQUIRE(bool(known));
        Check(*known, batch, rows, columns, {});
      }
  Check(*any, 2, 70, 3, {2, 3, 70});
}

TEST_CASE("other kernels are none: other widths, a sum, a step, the same order") {
  const auto team = std::make_shared<Team>(1);
  CHECK_FALSE(bool(MakeTransposeLauncher(*Transposition(DType::kI64, 1, 20, 30), team)));
  CHECK_FALSE(bool(MakeTransposeLauncher(*Transposition(DType::kU8, 1, 20, 30), team)));
  const auto of = [&](std::vector<SymInt> in, const Expr& value) {
    return bool(MakeTransposeLauncher(
        *LowerKernel({{{DType::kF32, in}}, {{DType::kF32, {20, 30}}}, {value}}, Facts()).kernel,
        team));
  };
  const Expr i = Expr::Index(0), j = Expr::Index(1);
  const auto x = [](const Expr& a, const Expr& b) { return Expr::Load(0, DType::kF32, {a, b}); };
  CHECK(of({30, 20}, x(j, i)));
  CHECK_FALSE(of({30, 20}, x(j, i) + 1.0));
  CHECK_FALSE(of({30, 40}, x(j, i)));
  CHECK_FALSE(of({30, 21}, x(j, i + Expr::Int(1))));
  CHECK_FALSE(of({20, 30}, x(i, j)));
}

}  // namespace
}  // namespace weft::cpu
