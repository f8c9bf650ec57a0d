/// Tests of 16-bit floats in CUDA kernels: eight of them an access of 16 bytes, values in f32, and
/// right results at odd sizes and for pointers that are aligned to one element only.
#include "codegen/cuda/emulator/cases_test_util.h"
#include "printer.h"
#include "tests/support/kernels/kernel_case_builder.h"

namespace weft {
namespace {

using cuda::BuildEmulated;
using cuda::CheckEmulated;
using kernel_cases::Builder;
using kernel_cases::Case;
using kernel_cases::I;
using kernel_cases::Map;
using kernel_cases::N;
using kernel_cases::Ramp;
using kernel_cases::Values;

Expr Wide(const Expr& v) { return Expr::Cast(DType::kF32, v); }

/// y = x * 3 + z, in f32, rounded once.
Case Elementwise(DType t, int64_t n, bool dynamic) {
  const SymInt points = dynamic ? KernelSymbol(0) : SymInt(n);
  Builder b(fmt::format("{}_elements_{}{}", DTypeName(t), n, dynamic ? "_dynamic" : ""), {points});
  b.c.kernel->small_index = !dynamic;
  const Values x = Ramp(n), z = Ramp(n, 3);
  const auto rx = b.Input(t, x, points), rz = b.Input(t, z, points);
  b.Output(t, I(0), Expr::Cast(t, Wide(rx(I(0))) * 3 + Wide(rz(I(0)))),
           Map(n, [&](int64_t i) { return x[size_t(i)] * 3 + z[size_t(i)]; }), false, points);
  return b.Finish(dynamic ? std::vector<int64_t>{n} : std::vector<int64_t>{});
}

/// y = x - sum of the row; x lies along the rows, or along the columns.
Case Rows(DType t, int64_t p, int64_t r, bool columns, bool dynamic) {
  const SymInt sp = dynamic ? KernelSymbol(0) : SymInt(p),
               sr = dynamic ? KernelSymbol(1) : SymInt(r);
  Builder b(fmt::format("{}_{}_{}x{}{}", DTypeName(t), columns ? "columns" : "rows", p, r,
                        dynamic ? "_dynamic" : ""),
            {sp, sr}, true, 1);
  b.c.kernel->small_index = !dynamic;
  b.c.kernel->vector_loop = columns ? 0 : 1;
  const Values x = Ramp(p * r);
  const auto rx = b.Input(t, x, sp * sr);
  const auto at = [&](const Expr& k) {
    return columns ? k * Expr::Dim(sp) + I(0) : I(0) * Expr::Dim(sr) + k;
  };
  const auto from = [&](int64_t row, int64_t k) {
    return x[size_t(columns ? k * p + row : row * r + k)];
  };
  const Expr sum =
      Expr::Reduce(ReduceOp::kSum, {sr}, [&](const Indices& v) { return Wide(rx(at(v[0]))); });
  std::vector<double> sums(size_t(p), 0);
  for (int64_t i = 0; i < p; ++i)
    for (int64_t k = 0; k < r; ++k) sums[size_t(i)] += from(i, k);
  b.Output(t, at(I(1)), Expr::Cast(t, Wide(rx(at(I(1)))) - sum),
           Map(p * r,
               [&](int64_t e) {
                 const int64_t i = columns ? e % p : e / r;
                 return x[size_t(e)] - sums[size_t(i)];
               }),
           false, sp * sr);
  b.Output(DType::kF32, I(0), sum, sums, true, sp);
  return b.Finish(dynamic ? std::vector<int64_t>{p, r} : std::vector<int64_t>{});
}

TEST_CASE("16-bit floats: eight an access, right at any size and place") {
  std::vector<Case> cases;
  const auto add = [&](Case c, bool vectors) {
    CAPTURE(c.name);
    const std::string text = PrintCuda(*c.kernel);
    CHECK((text.find("Vec<u16, 8>") != std::string::npos) == vectors);
    // Sums and products are of f32.
    CHECK(text.find("const f32 ") != std::string::npos);
    cases.push_back(std::move(c));
  };
  for (const DType t : {DType::kF16, DType::kBF16}) {
    for (const int64_t n : {0, 1, 7, 8, 2047, 2048, 6151}) add(Elementwise(t, n, true), true);
    for (const int64_t n : {5, 4096, 4099}) add(Elementwise(t, n, false), true);
    // Known rows that vectors divide.
    add(Rows(t, 5, 256, false, false), true);
    add(Rows(t, 3, 2048, false, false), true);
    add(Rows(t, 2, 8 * 1029, false, false), true);
    // Others element by element, 32 neighbours a warp.
    for (const bool dynamic : {false, true}) {
      add(Rows(t, 3, 1023, false, true), false);
      add(Rows(t, 70, 45, true, dynamic), false);
      add(Rows(t, 33, 7, true, dynamic), false);
    }
  }
  std::map<std::string, int64_t> entries;
  for (const bool steps : {false, true}) {
    CudaTuning tuning;
    if (steps) tuning.slice_elements = 64, tuning.slice_depth = 4, tuning.blocks = 40;
    const auto library = BuildEmulated(kernel_cases::DistinctKernels(cases), tuning);
    if (library == nullptr) return;
    for (const Case& c : cases) CheckEmulated(*library, c, tuning, &entries);
  }
  CHECK(entries["_s0"] > 0);
}

}  // namespace
}  // namespace weft
