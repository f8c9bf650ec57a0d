/// Tests of what CUDA bounds: parameters of a launch, shared memory of a block, extents of
/// a grid, 32-bit indices.
#include <limits>

#include "codegen/cuda/emulator/cases_test_util.h"
#include "codegen/cuda/nvrtc/cubin_info.h"
#include "codegen/cuda/nvrtc/nvrtc.h"
#include "tests/support/kernels/kernel_case_builder.h"
#include "text.h"
#include "weft/support/error.h"

namespace weft {
namespace {

using cuda::BuildEmulated;
using cuda::CheckEmulated;
using kernel_cases::Builder;
using kernel_cases::Case;
using kernel_cases::I;
using kernel_cases::Map;
using kernel_cases::N;
using kernel_cases::Values;

void Run(const std::vector<Case>& cases, const CudaTuning& tuning = {}) {
  std::map<std::string, int64_t> entries;
  const auto library = BuildEmulated(kernel_cases::DistinctKernels(cases), tuning);
  if (library == nullptr) return;
  for (const Case& c : cases) CheckEmulated(*library, c, tuning, &entries);
}
/// One for sm_90; empty where there is no NVRTC.
std::string CompileCuda(const Case& c, int64_t* spill_bytes) {
  NvrtcCompiler compiler(90);
  std::vector<std::string> errors;
  const std::string binary = compiler.Compile({c.kernel}, &errors)[0];
  CHECK_MESSAGE(errors[0] == "", c.name);
  *spill_bytes = compiler.Stats(*c.kernel, binary).spill_bytes;
  return binary;
}

// ---- parameters ----

/// out = x0 op x1 op .. over n points, from the left; values that sums of any order hold exactly.
Case ManyOperands(BinOp op, DType t, int operands, int64_t n, bool dynamic) {
  const SymInt points = dynamic ? KernelSymbol(0) : SymInt(n);
  Builder b(fmt::format("{}_{}_of_{}{}", op == BinOp::kAdd ? "sum" : "max", DTypeName(t), operands,
                        dynamic ? "_dynamic" : ""),
            {points});
  b.c.kernel->small_index = !dynamic;
  Expr y;
  const DType compute = AccumulatorOf(t);
  Values want(size_t(n), op == BinOp::kAdd ? 0 : -1000);
  for (int k = 0; k < operands; ++k) {
    const Values x = Map(n, [&](int64_t i) { return double((i * 7 + k * 13) % 31 - 15) / 8; });
    for (int64_t i = 0; i < n; ++i)
      want[size_t(i)] = op == BinOp::kAdd ? want[size_t(i)] + x[size_t(i)]
                                          : std::max(want[size_t(i)], x[size_t(i)]);
    const Expr v = Expr::Cast(compute, b.Input(t, x, points)(I(0)));
    y = k == 0 ? v : Expr::Binary(op, y, v);
  }
  b.Output(t, I(0), Expr::Cast(t, y), want, false, points);
  return b.Finish(dynamic ? std::vector<int64_t>{n} : std::vector<int64_t>{});
}

/// Nothing to be put into a loop: outputs of their own, a shared factor that is also a summand, and
/// a long sum that begins with another one, of a single element.
Case Mixed(int operands, int64_t n) {
  Builder b("mixed_operands", {n});
  const Values one = {3}, factor = Map(n, [](int64_t i) { return double(i % 5 - 2); });
  const auto r1 = b.Input(DType::kF32, one), rf = b.Input(DType::kF32, factor);
  Expr y = r1(N(0)) * rf(I(0));
  Values want = Map(n, [&](int64_t i) { return 3 * factor[size_t(i)]; });
  for (int k = 0; k < operands; ++k) {
    const Values x = Map(n, [&](int64_t i) { return double((i + k * 3) % 17 - 8); });
    y = y + b.Input(DType::kF32, x)(I(0));
    for (int64_t i = 0; i < n; ++i) want[size_t(i)] += x[size_t(i)];
    if (k == operands / 2) y = y + rf(I(0)) * rf(I(0));
  }
  for (int64_t i = 0; i < n; ++i) want[size_t(i)] += factor[size_t(i)] * factor[size_t(i)];
  b.Output(DType::kF32, I(0), y * rf(I(0)),
           Map(n, [&](int64_t i) { return want[size_t(i)] * factor[size_t(i)]; }));
  b.Output(DType::kF32, I(0), -y, Map(n, [&](int64_t i) { return -want[size_t(i)]; }));
  return b.Finish();
}

/// A row-wise kernel whose rows are sums of as many tensors.
Case ManyRows(int operands, int64_t p, int64_t r) {
  Builder b("row_of_many_operands", {p, r}, true, 1);
  Values want(size_t(p), 0);
  Expr sum;
  const Expr at = I(0) * N(r);
  std::vector<std::function<Expr(Expr)>> read;
  for (int k = 0; k < operands; ++k) {
    const Values x = Map(p * r, [&](int64_t i) { return double((i + k) % 9 - 4); });
    for (int64_t i = 0; i < p * r; ++i) want[size_t(i / r)] += x[size_t(i)];
    read.push_back(b.Input(DType::kF32, x));
  }
  b.Output(DType::kF32, I(0),
           Expr::Reduce(ReduceOp::kSum, {r},
                        [&](const Indices& v) {
                          Expr s = read[0](at + v[0]);
                          for (int k = 1; k < operands; ++k) s = s + read[size_t(k)](at + v[0]);
                          return s;
                        }),
           want, true);
  return b.Finish();
}

TEST_CASE("operands beyond what parameters hold come through a table") {
  std::vector<Case> cases;
  for (const bool dynamic : {false, true}) {
    cases.push_back(ManyOperands(BinOp::kAdd, DType::kF32, 5000, 5, dynamic));
    cases.push_back(ManyOperands(BinOp::kAdd, DType::kF16, 700, 301, dynamic));
    cases.push_back(ManyOperands(BinOp::kMax, DType::kI32, 600, 3, dynamic));
  }
  cases.push_back(ManyOperands(BinOp::kMax, DType::kI8, 520, 0, true));
  cases.push_back(Mixed(600, 40));
  cases.push_back(ManyRows(520, 3, 70));
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const CudaSchedule schedule = ScheduleCuda(*c.kernel);
    CHECK(schedule.has_table());
    CHECK_FALSE(schedule.has_multi());
    const std::string text = PrintCuda(*c.kernel);
    CHECK(text.find("const u64* __restrict__ table, i64 total") != std::string::npos);
    // A chain of one operation is a loop.
    if (c.name.find("_of_5000") != std::string::npos) CHECK(text.size() < 6000);
  }
  // As before while they fit.
  const Case few = ManyOperands(BinOp::kAdd, DType::kF32, 500, 5, false);
  CHECK_FALSE(ScheduleCuda(*few.kernel).has_table());
  CHECK(PrintCuda(*few.kernel).find("table") == std::string::npos);
  Run(cases);
  if (!NvrtcAvailable()) return;
  for (const Case& c : cases) {
    CAPTURE(c.name);
    int64_t spill_bytes = -1;
    CHECK(CompileCuda(c, &spill_bytes) != "");
    CHECK(spill_bytes == 0);
  }
}

// ---- shared memory ----

/// `count` sums over a row, of powers of the row number; rows of known extent, or columns.
Case ManyReductions(int count, int64_t p, int64_t r, bool columns) {
  Builder b(fmt::format("{}_reductions_{}", count, columns ? "columns" : "rows"), {p, r}, true, 1);
  b.c.kernel->vector_loop = columns ? 0 : 1;
  const Values x = Map(p * r, [](int64_t i) { return double(i * 5 % 13 - 6); });
  const auto rx = b.Input(DType::kF32, x);
  Expr y;
  Values want(size_t(p), 0);
  for (int k = 0; k < count; ++k) {
    const auto term = [&](const Expr& v) { return Max(v, Expr::Const(DType::kF32, k - 300)); };
    const Expr sum = Expr::Reduce(ReduceOp::kSum, {r}, [&](const Indices& v) {
      return term(rx(columns ? v[0] * N(p) + I(0) : I(0) * N(r) + v[0]));
    });
    y = k == 0 ? sum : y + sum;
    for (int64_t i = 0; i < p; ++i)
      for (int64_t v = 0; v < r; ++v)
        want[size_t(i)] += std::max(x[size_t(columns ? v * p + i : i * r + v)], double(k - 300));
  }
  b.Output(DType::kF32, I(0), y, want, true);
  return b.Finish();
}

TEST_CASE("a block asks for no more than 48 KiB of shared memory, whatever it reduces") {
  std::vector<Case> cases = {ManyReductions(3, 40, 50, true), ManyReductions(150, 33, 40, true),
                             ManyReductions(400, 33, 20, true), ManyReductions(500, 2, 700, false)};
  for (const Case& c : cases) {
    // The text says so itself, and the compilers check it.
    CHECK(PrintCuda(*c.kernel).find("static_assert(sizeof meeting <= 49152") != std::string::npos);
    for (const CudaLaunch& l : ScheduleCuda(*c.kernel).Plan({}, 132).launches)
      CHECK(l.shared_bytes == 0);
  }
  Run(cases);
  if (!NvrtcAvailable()) return;
  int64_t spill_bytes = 0;
  CHECK(CompileCuda(cases[1], &spill_bytes) != "");
}

// ---- extents beyond 2^31 ----

constexpr int64_t kTwo31 = int64_t{1} << 31;

void CheckGrids(const CudaPlan& plan) {
  for (const CudaLaunch& l : plan.launches) {
    CHECK(l.grid_x >= 1);
    CHECK(l.grid_x <= uint32_t(INT32_MAX));
    CHECK(l.grid_y >= 1);
    CHECK(l.grid_y <= 65535);
    CHECK(l.block <= 1024);
  }
}
std::string FirstEntry(const Kernel& k, const std::vector<int64_t>& dims) {
  const CudaPlan plan = ScheduleCuda(k).Plan(dims, 132);
  CheckGrids(plan);
  return plan.launches.empty() ? "none" : plan.launches[0].entry.substr(k.Name().size());
}

/// Kernels of run-time extents: values do not matter here.
std::shared_ptr<Kernel> Dynamic(KernelTemplate tmpl, int dims, int outer, int vector_loop,
                                const std::function<Expr(Kernel*)>& value, SymInt size) {
  auto k = std::make_shared<Kernel>();
  k->tmpl = tmpl;
  for (int d = 0; d < dims; ++d) k->dims.push_back(KernelSymbol(d));
  k->num_outer = outer;
  k->vector_loop = vector_loop;
  k->num_symbols = dims;
  k->num_inputs = 1;
  k->buffers = {{DType::kF32, false, size}, {DType::kF32, true, size}};
  const Expr v = value(k.get());
  Expr at = I(0);
  for (int d = 1; d < outer; ++d) at = at * Expr::Dim(KernelSymbol(d)) + I(d);
  k->stores = {{1, at, v, tmpl == KernelTemplate::kRow}};
  k->Finish();
  return k;
}
Expr D(int k) { return Expr::Dim(KernelSymbol(k)); }
Expr Read(const Expr& at) { return Expr::Load(0, DType::kF32, {at}); }
/// Of [d0, d1], the sums over d1: of rows (vector_loop = 1), or of columns of what lies transposed.
auto SumOf(int vector_loop) {
  return Dynamic(
      KernelTemplate::kRow, 2, 1, vector_loop,
      [&](Kernel*) {
        return Expr::Reduce(ReduceOp::kSum, {KernelSymbol(1)}, [&](const Indices& v) {
          return Read(vector_loop == 1 ? I(0) * D(1) + v[0] : v[0] * D(0) + I(0));
        });
      },
      KernelSymbol(0) * KernelSymbol(1));
}

TEST_CASE("extents beyond 2^31 are launched with 64-bit indices and grids that CUDA takes") {
  const SymInt d0 = KernelSymbol(0), d1 = KernelSymbol(1), d2 = KernelSymbol(2);
  // EW over several loops: a row of n elements times a column.
  const auto ew = Dynamic(
      KernelTemplate::kElementwise, 2, 2, 1, [](Kernel*) { return Read(I(1)) * Read(I(0)); },
      d0 * d1);
  CHECK(FirstEntry(*ew, {1000, 1000}) == "_n");
  CHECK(FirstEntry(*ew, {1, kTwo31 - 1}) == "_n");
  CHECK(FirstEntry(*ew, {1, kTwo31}) == "");
  CHECK(FirstEntry(*ew, {kTwo31, 1}) == "");
  CHECK(FirstEntry(*ew, {70000, 70000}) == "");
  CHECK(FirstEntry(*ew, {kTwo31 * 2, kTwo31 / 16}) == "");
  // One loop: nothing is divided, 64 bits throughout.
  const auto flat = Dynamic(
      KernelTemplate::kElementwise, 1, 1, 0, [](Kernel*) { return -Read(I(0)); }, d0);
  CHECK(FirstEntry(*flat, {kTwo31 * 8}) == "");
  CHECK(FirstEntry(*flat, {5}) == "");
  // ROW and COL.
  for (const int vector_loop : {1, 0}) {
    const auto row = SumOf(vector_loop);
    CHECK(FirstEntry(*row, {50000, 3000}) == "_n");
    CHECK(FirstEntry(*row, {4, 1 << 24}) == "_s0");
    CHECK(FirstEntry(*row, {2, kTwo31}) == "");
    CHECK(FirstEntry(*row, {kTwo31, 2}) == "");
    // Rows and positions in them are counted in 32 bits, offsets of elements are not.
    CHECK(FirstEntry(*row, {100000, 100000}) == "_n");
  }
  // POOL: windows are loops inside a point.
  const auto pool = Dynamic(
      KernelTemplate::kElementwise, 1, 1, 0,
      [&](Kernel*) {
        return Expr::Reduce(ReduceOp::kMax, {3},
                            [&](const Indices& v) { return Read(I(0) * N(2) + v[0]); });
      },
      d0 * 2 + 1);
  CHECK(FirstEntry(*pool, {1000}) == "_n");
  CHECK(FirstEntry(*pool, {kTwo31 * 2}) == "");
  // Transposing.
  const auto transpose = Dynamic(
      KernelTemplate::kElementwise, 3, 3, 2,
      [](Kernel*) { return Read((I(0) * D(2) + I(2)) * D(1) + I(1)); }, d0 * d1 * d2);
  CHECK(PrintCuda(*transpose).find("__shared__") != std::string::npos);
  CHECK(FirstEntry(*transpose, {8, 100, 100}) == "_n");
  CHECK(FirstEntry(*transpose, {8, 1 << 20, 1 << 10}) == "");
  CHECK(FirstEntry(*transpose, {1, 40, kTwo31}) == "");
  // MULTI: the table has 64-bit extents; a part may be as large.
  const CudaSchedule multi = ScheduleCuda(*flat);
  REQUIRE(multi.has_multi());
  std::vector<CudaPart> parts;
  for (int i = 0; i < 300; ++i) parts.push_back({{0, 0}, {i % 3 == 0 ? kTwo31 * 4 : i}});
  int64_t launched = 0;
  for (const CudaMultiLaunch& l : multi.PlanMulti(parts, 132)) {
    CHECK(l.grid_x >= 1);
    CHECK(l.grid_x <= uint32_t(INT32_MAX));
    uint32_t count = 0;
    std::memcpy(&count, l.table.data(), sizeof count);
    launched += count;
  }
  CHECK(launched == 300);
  // A driver that takes 4 KB of parameters gets more launches, of the entry for that.
  CHECK(multi.PlanMulti(parts, 132).size() == 1);
  const std::vector<CudaMultiLaunch> small = multi.PlanMulti(parts, 132, kLeastParameterBytes);
  CHECK(small.size() > 1);
  launched = 0;
  for (const CudaMultiLaunch& l : small) {
    CHECK(l.table.size() <= 4096);
    CHECK(l.entry == flat->Name() + "_m4k");
    uint32_t count = 0;
    std::memcpy(&count, l.table.data(), sizeof count);
    launched += count;
  }
  CHECK(launched == 300);
  // A product that 64 bits do not hold is told.
  CHECK_THROWS_AS(ScheduleCuda(*ew).Plan({kTwo31 * 4, kTwo31 * 4}, 132), Error);
}

TEST_CASE("nothing is launched for nothing") {
  const SymInt d0 = KernelSymbol(0), d1 = KernelSymbol(1);
  const auto ew = Dynamic(
      KernelTemplate::kElementwise, 2, 2, 1, [](Kernel*) { return Read(I(1)) * Read(I(0)); },
      d0 * d1);
  const auto transpose = Dynamic(
      KernelTemplate::kElementwise, 2, 2, 1, [](Kernel*) { return Read(I(1) * D(0) + I(0)); },
      d0 * d1);
  const auto pool = Dynamic(
      KernelTemplate::kElementwise, 2, 2, 1,
      [&](Kernel*) {
        return Expr::Reduce(ReduceOp::kMax, {3},
                            [&](const Indices& v) { return Read(I(0) * D(1) + I(1) + v[0]); });
      },
      d0 * d1 + 2);
  for (const auto& k : {ew, transpose, pool}) {
    CHECK(FirstEntry(*k, {0, 7}) == "none");
    CHECK(FirstEntry(*k, {7, 0}) == "none");
    CHECK(FirstEntry(*k, {0, kTwo31 * 1000}) == "none");
  }
  for (const int vector_loop : {1, 0}) {
    const auto row = SumOf(vector_loop);
    CHECK(FirstEntry(*row, {0, 100}) == "none");
    CHECK(FirstEntry(*row, {0, 1 << 24}) == "none");
    // Rows without elements have values.
    CHECK(FirstEntry(*row, {5, 0}) == "_n");
  }
  const auto flat = Dynamic(
      KernelTemplate::kElementwise, 1, 1, 0, [](Kernel*) { return -Read(I(0)); }, d0);
  CHECK(FirstEntry(*flat, {0}) == "none");
  CHECK(ScheduleCuda(*flat).PlanMulti({{{0, 0}, {0}}, {{0, 0}, {0}}}, 132).empty());
  const std::vector<CudaMultiLaunch> one =
      ScheduleCuda(*flat).PlanMulti({{{0, 0}, {0}}, {{0, 0}, {3}}}, 132);
  REQUIRE(one.size() == 1);
  CHECK(one[0].grid_x == 1);
  CHECK(FirstEntry(*ManyOperands(BinOp::kAdd, DType::kF32, 600, 3, true).kernel, {0}) == "none");
}

}  // namespace
}  // namespace weft
