/// index_tables_test.cc: what depends on one loop alone is read out of tables; against the oracle.
#include "codegen/llvm/compiler/test_kernels.h"

namespace weft::llvmgen {
namespace {

Expr I(int k) { return Expr::Index(k); }
Expr F64(const Expr& e) { return Expr::Cast(DType::kF64, e); }
Expr Floor(const Expr& e) { return Expr::Unary(UnOp::kFloor, e); }

/// Coordinate of position i where `scale` output positions are one input position.
Expr Coordinate(const Expr& i, double scale) { return (F64(i) + 0.5) / scale - 0.5; }
Expr Clamp(const Expr& i, SymInt extent) {
  return Max(Expr::Int(0), Min(i, Expr::Dim(extent - 1)));
}

/// Linear interpolation along loops `rows` and `columns` of a tensor [.., h, .., w,
/// ..] of `dims` extents.
KernelPtr Resized(DType t, std::vector<SymInt> dims, int rows, int columns, double scale) {
  std::vector<SymInt> out = dims;
  out[size_t(rows)] = dims[size_t(rows)] * 2;
  out[size_t(columns)] = dims[size_t(columns)] * 2;
  const DType acc = t == DType::kF64 ? DType::kF64 : DType::kF32;
  Expr sum;
  for (int k = 0; k < 4; ++k) {
    Indices at;
    for (int d = 0; d < int(dims.size()); ++d) at.push_back(I(d));
    Expr weight;
    for (const auto& [loop, second] : {std::pair(rows, k / 2), std::pair(columns, k % 2)}) {
      const Expr x = Coordinate(I(loop), scale), base = Floor(x), part = x - base;
      at[size_t(loop)] =
          Clamp(Expr::Cast(DType::kI64, base) + Expr::Int(second), dims[size_t(loop)]);
      const Expr w = Expr::Cast(acc, second ? part : 1.0 - part);
      weight = weight ? weight * w : w;
    }
    const Expr term = Expr::Cast(acc, Expr::Load(0, t, at)) * weight;
    sum = sum ? sum + term : term;
  }
  return Lower({{t, dims}}, {{t, out}}, {Expr::Cast(t, sum)});
}

int64_t ScratchBytes(const KernelPtr& k, const std::vector<int64_t>& symbols = {}) {
  const CpuKernel code = LoadCpuKernel(*k, CompileOne(Compiler(0), k));
  return Evaluate(code.scratch_bytes, Extents(symbols, code));
}

TEST_CASE("tables: interpolation with its columns in lanes, with its channels in lanes") {
  for (DType t : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16})
    for (const double scale : {2.0, 1.7, 0.3}) {
      const KernelPtr plain = Resized(t, {3, 5, 17}, 1, 2, scale);
      CHECK(ScratchBytes(plain) > 0);
      CheckKernel(plain, RandomInputs(*plain, {}, 61));
      const KernelPtr last = Resized(t, {5, 7, 40}, 0, 1, scale);
      CHECK(ScratchBytes(last) > 0);
      CheckKernel(last, RandomInputs(*last, {}, 62));
    }
}

TEST_CASE("tables: extents that come with the run, of no and of one element too") {
  const SymInt h = SymInt::Symbol("h"), w = SymInt::Symbol("w");
  const KernelPtr k = Resized(DType::kF32, {3, h, w}, 1, 2, 1.9);
  CHECK(ScratchBytes(k, {40, 50}) > 0);
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{1, 1}, {4, 1}, {1, 33}, {0, 5}, {5, 0}, {9, 24}})
    CheckKernel(k, RandomInputs(*k, {rows, columns}, 63), {rows, columns});
}

TEST_CASE("tables: a sum over a window whose weights know the column alone") {
  const Expr sum = Expr::Reduce(ReduceOp::kSum, {SymInt(20)}, [](const Indices& r) {
    return Expr::Call(CallOp::kExp, {-Expr::Cast(DType::kF32, r[0] + I(1)) * 0.01});
  });
  const KernelPtr k = Lower({{DType::kF32, {30, 50}}}, {{DType::kF32, {30, 50}}},
                            {Expr::Load(0, DType::kF32, {I(0), I(1)}) * sum});
  CheckKernel(k, RandomInputs(*k, {}, 64), {}, 8);
}

TEST_CASE("near misses of tables: few points, light work, what is read, one loop") {
  const auto angle = [](int loop) {
    return Expr::Call(CallOp::kSin, {Expr::Cast(DType::kF32, I(loop)) * 0.01});
  };
  const auto kernel = [](const std::vector<SymInt>& dims, const Expr& factor) {
    Indices at;
    for (int d = 0; d < int(dims.size()); ++d) at.push_back(I(d));
    return Lower({{DType::kF32, dims}}, {{DType::kF32, dims}},
                 {Expr::Load(0, DType::kF32, at) * factor});
  };
  const auto check = [](const KernelPtr& k, bool tables) {
    CHECK((ScratchBytes(k) > 0) == tables);
    CheckKernel(k, RandomInputs(*k, {}, 65), {}, 8);
  };
  check(kernel({40, 50}, angle(1)), true);
  check(kernel({40, 50}, angle(0)), true);
  check(kernel({3, 50}, angle(1)), false);
  check(kernel({50}, angle(0)), false);
  check(kernel({40, 50}, Expr::Cast(DType::kF32, I(1)) + 1.0), false);
  check(kernel({40, 50}, Expr::Call(CallOp::kSin, {Expr::Cast(DType::kF32, I(0) + I(1))})), false);
  check(kernel({40, 50},
               Expr::Call(CallOp::kSin, {Expr::Load(0, DType::kF32, {Expr::Int(0), I(1)})})),
        false);
}

}  // namespace
}  // namespace weft::llvmgen
