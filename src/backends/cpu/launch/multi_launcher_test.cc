/// multi_launcher_test.cc: which ranges of which part a launch over several parts runs.
#include "multi_launcher.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <numeric>

#include "kernel_launcher.h"

namespace weft::cpu {
namespace {

struct Call {
  void* in;
  void* out;
  int64_t dim, begin, end;
};
std::mutex mutex;
std::vector<Call> calls;
bool scratch_is_there = false;
void Record(void* const* b, const int64_t* dims, int64_t begin, int64_t end, void* scratch) {
  std::lock_guard lock(mutex);
  calls.push_back({b[0], b[1], dims[0], begin, end});
  if (scratch) scratch_is_there = reinterpret_cast<uintptr_t>(scratch) % 64 == 0;
}

/// out[i] = in[i] over d0 points, or over rows of `row` elements.
KernelPtr Copy(DType t, int64_t row = 1) {
  auto k = std::make_shared<Kernel>();
  k->tmpl = row > 1 ? KernelTemplate::kRow : KernelTemplate::kElementwise;
  k->dims = {KernelSymbol(0)};
  Expr offset = Expr::Index(0);
  if (row > 1) {
    k->dims.emplace_back(row);
    offset = offset * Expr::Int(row) + Expr::Index(1);
  }
  k->num_outer = k->num_inputs = k->num_symbols = 1;
  k->vector_loop = int(k->dims.size()) - 1;
  const SymInt n = Product(k->dims);
  k->buffers = {{t, false, n}, {t, true, n}};
  k->stores = {{1, offset, Expr::Load(0, t, {offset}), false}};
  k->Finish();
  return k;
}
CpuKernel Code(CpuKernelFn fn) {
  CpuKernel code;
  code.fn = fn;
  return code;
}

/// A launch over `kernels`, part i with input i and output n + i, as operands of a launch stand.
LoweredKernel Launch(const std::vector<KernelPtr>& kernels) {
  LoweredKernel l;
  const int n = int(kernels.size());
  for (int i = 0; i < n; ++i) {
    l.symbols.push_back(SymInt::Symbol("n" + std::to_string(i)));
    l.parts.push_back({kernels[size_t(i)], {i, n + i}, i});
  }
  l.kernel = kernels[0];
  return l;
}
std::vector<void*> Addresses(int n) {
  static char memory[64];
  std::vector<void*> all;
  for (int i = 0; i < n; ++i) all.push_back(memory + i);
  return all;
}

TEST_CASE("a launch over parts: every item of every part once, with its own operands and extents") {
  const KernelPtr floats = Copy(DType::kF32), doubles = Copy(DType::kF64);
  const LoweredKernel lowered = Launch({floats, doubles, Copy(DType::kF32, 64), floats});
  REQUIRE(lowered.Kernels().size() == 3);
  CpuKernel rows = Code(Record);
  rows.scratch_bytes = 100;
  const std::vector<int64_t> sizes[] = {{1, 1, 1, 1},
                                        {0, 0, 0, 0},
                                        {1000000, 3, 100, 70},
                                        {5, 2000000, 0, 1},
                                        {999999, 777777, 9999, 65},
                                        {64, 64, 64, 64},
                                        {10, 10, 40000, 1000001}};
  for (const int threads : {1, 2, 3, 7}) {
    const auto launcher = MakeCpuMultiLauncher(lowered, {Code(Record), Code(Record), rows},
                                               std::make_shared<Team>(threads));
    for (const std::vector<int64_t>& dims : sizes) {
      CAPTURE(threads);
      CAPTURE(dims[0]);
      calls.clear();
      scratch_is_there = false;
      const std::vector<void*> buffers = Addresses(8);
      launcher->Launch(buffers.data(), dims.data());
      CHECK(scratch_is_there == (dims[2] > 0));
      for (size_t p = 0; p < 4; ++p) {
        std::vector<std::pair<int64_t, int64_t>> ranges;
        for (const Call& c : calls) {
          if (c.in != buffers[p]) continue;
          CHECK(c.out == buffers[4 + p]);
          CHECK(c.dim == dims[p]);
          CHECK(c.begin < c.end);
          ranges.emplace_back(c.begin, c.end);
        }
        std::sort(ranges.begin(), ranges.end());
        int64_t at = 0;
        for (const auto& [begin, end] : ranges) {
          CHECK(begin == at);
          at = end;
        }
        CHECK(at == dims[p]);
        CHECK(ranges.size() <= size_t(threads));
      }
    }
  }
}

TEST_CASE("a launch over parts: small ones stay on the caller, large ones are cut by their bytes") {
  const LoweredKernel lowered = Launch({Copy(DType::kF32), Copy(DType::kF64)});
  const auto launcher =
      MakeCpuMultiLauncher(lowered, {Code(Record), Code(Record)}, std::make_shared<Team>(2));
  const std::vector<void*> buffers = Addresses(4);
  const auto run = [&](std::vector<int64_t> dims) {
    calls.clear();
    launcher->Launch(buffers.data(), dims.data());
    std::sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) {
      return std::make_pair(a.in, a.begin) < std::make_pair(b.in, b.begin);
    });
    return calls.size();
  };
  CHECK(run({1000, 1000}) == 2);
#ifdef _OPENMP
  // The first part moves twice as many bytes as the second: half of the line ends at
  // three quarters of it.
  REQUIRE(run({1 << 20, 1 << 18}) == 3);
  CHECK(calls[0].end == (1 << 20) * 3 / 4);
  CHECK(calls[2].begin == 0);
  // One for each thread.
  REQUIRE(run({1 << 20, 1 << 19}) == 2);
  CHECK(calls[0].end == 1 << 20);
#endif
}

TEST_CASE("a launch over parts: one that works in phases runs by itself, complete") {
  CpuKernel phased;
  phased.phases = {
      {[](void* const*, const int64_t*, int64_t begin, int64_t end, void* shared) {
         for (int64_t i = begin; i < end; ++i) static_cast<uint8_t*>(shared)[i] = 1;
       },
       KernelSymbol(0)},
      {[](void* const* b, const int64_t* dims, int64_t begin, int64_t end, void* shared) {
         const auto* marks = static_cast<uint8_t*>(shared);
         for (int64_t i = begin; i < end; ++i)
           static_cast<float*>(b[1])[i] = float(std::accumulate(marks, marks + dims[0], 0));
       },
       4}};
  phased.shared_bytes = KernelSymbol(0);
  phased.phase_gain = 1;
  const LoweredKernel lowered = Launch({Copy(DType::kF64), Copy(DType::kF32)});
  const auto launcher =
      MakeCpuMultiLauncher(lowered, {Code(Record), phased}, std::make_shared<Team>(2));
  double x = 0, y = 0;
  float a = 0, sums[5] = {};
  void* buffers[] = {&x, &a, &y, sums};
  const int64_t dims[] = {1, 200};
  calls.clear();
  launcher->Launch(buffers, dims);
  REQUIRE(calls.size() == 1);
  CHECK(calls[0].out == &y);
  for (int i = 0; i < 4; ++i) CHECK(sums[i] == 200);
  CHECK(sums[4] == 0);
}

}  // namespace
}  // namespace weft::cpu
