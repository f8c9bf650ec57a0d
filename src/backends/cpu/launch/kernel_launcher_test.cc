/// kernel_launcher_test.cc: how a launch is cut, and what the kernel is called with.
#include "kernel_launcher.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "backends/cpu/util/transpose.h"

namespace weft::cpu {
namespace {

TEST_CASE("ranges cover the items once, in order, on aligned boundaries") {
  for (const int64_t items :
       {int64_t{1}, int64_t{63}, int64_t{64}, int64_t{65}, int64_t{1000}, int64_t{4096}, INT64_MAX})
    for (const int tasks : {1, 2, 3, 7, 64})
      for (const int64_t align : {1, 16, 64}) {
        int64_t at = 0, longest = 0, shortest = INT64_MAX;
        for (int t = 0; t < tasks; ++t) {
          const auto [begin, end] = TaskRange(items, tasks, align, t);
          CHECK(begin == at);
          CHECK(end >= begin);
          CHECK((end == items || end % align == 0));
          if (t + 1 < tasks) {
            longest = std::max(longest, end - begin);
            shortest = std::min(shortest, end - begin);
          }
          at = end;
        }
        CHECK(at == items);
        if (tasks > 1 && items > align * tasks) CHECK(longest - shortest <= align);
      }
}

TEST_CASE("small work stays on the caller") {
  CHECK(TaskCount(1 << 20, 0, 0, 8) == 1);
  CHECK(TaskCount(1 << 20, kBytesPerTask, 0, 8) == 1);
  CHECK(TaskCount(1 << 20, 2 * kBytesPerTask, 0, 8) == 2);
  CHECK(TaskCount(1 << 20, 1 << 30, 0, 8) == 8);
  CHECK(TaskCount(3, 1 << 30, 0, 8) == 3);
  CHECK(TaskCount(1, 1 << 30, 1e12, 8) == 1);
  CHECK(TaskCount(100, 64, kOpsPerMicrosecond * kMicrosecondsPerTask * 4, 8) == 4);
  CHECK(TaskCount(1 << 20, 1 << 30, 1e12, 1) == 1);
  CHECK(TaskAlign(1 << 20, 2) == 64);
  CHECK(TaskAlign(8, 2) == 1);
}

// A kernel that counts, instead of generated code.
std::mutex mutex;
std::vector<std::pair<int64_t, int64_t>> calls;
std::atomic<int> misaligned{0};
int64_t seen_dim = -1;
void Record(void* const*, const int64_t* dims, int64_t begin, int64_t end, void* scratch) {
  if (scratch && reinterpret_cast<uintptr_t>(scratch) % 64 != 0) ++misaligned;
  if (scratch) static_cast<char*>(scratch)[dims[0] - 1] = 1;
  std::lock_guard lock(mutex);
  calls.emplace_back(begin, end);
  seen_dim = dims[0];
}
std::vector<std::pair<int64_t, int64_t>> Launch(const KernelLauncher& l, int64_t d0) {
  calls.clear();
  void* buffers[2] = {nullptr, nullptr};
  l.Launch(buffers, &d0);
  std::sort(calls.begin(), calls.end());
  return calls;
}

Kernel Copy(std::vector<SymInt> dims, KernelTemplate tmpl, int num_outer) {
  Kernel k;
  k.tmpl = tmpl;
  k.dims = std::move(dims);
  k.num_outer = num_outer;
  k.num_inputs = 1;
  k.num_symbols = 1;
  k.vector_loop = int(k.dims.size()) - 1;
  const SymInt n = Product(k.dims);
  k.buffers = {{DType::kF32, false, n}, {DType::kF32, true, n}};
  Expr offset = Expr::Index(0);
  for (size_t i = 1; i < k.dims.size(); ++i)
    offset = offset * Expr::Dim(k.dims[i]) + Expr::Index(int(i));
  k.stores = {{1, offset, Expr::Load(0, DType::kF32, {offset}), false}};
  k.Finish();
  return k;
}

TEST_CASE("a launch splits points or rows, with scratch of the extents at hand") {
  auto team = std::make_shared<Team>(2);
  CpuKernel code;
  code.fn = Record;
  code.scratch_bytes = KernelSymbol(0);
  const auto flat =
      MakeCpuLauncher(Copy({KernelSymbol(0)}, KernelTemplate::kElementwise, 1), code, team);
  CHECK(Launch(*flat, 0).empty());
  CHECK(Launch(*flat, 100).size() == 1);
  CHECK(seen_dim == 100);
#ifdef _OPENMP
  const auto two = Launch(*flat, 1000001);
  REQUIRE(two.size() == 2);
  CHECK(two[0].first == 0);
  CHECK(two[0].second == two[1].first);
  CHECK(two[0].second % 64 == 0);
  CHECK(two[1].second == 1000001);
#endif
  team->set_threads(1);
  CHECK(Launch(*flat, 1000001).size() == 1);
  team->set_threads(2);
  const auto rows =
      MakeCpuLauncher(Copy({KernelSymbol(0), 4096}, KernelTemplate::kRow, 1), code, team);
  const auto cut = Launch(*rows, 5);
  CHECK(cut.back().second == 5);
  CHECK(cut.size() <= 2);
  CHECK(misaligned == 0);
}

/// Phase 0 leaves d0 marks in the shared memory, phase 1 counts all of them in every item.
void LeaveMarks(void* const*, const int64_t*, int64_t begin, int64_t end, void* shared) {
  for (int64_t i = begin; i < end; ++i) static_cast<uint8_t*>(shared)[i] = 1;
}
void CountMarks(void* const* b, const int64_t* dims, int64_t begin, int64_t end, void* shared) {
  for (int64_t i = begin; i < end; ++i) {
    int64_t count = 0;
    for (int64_t k = 0; k < dims[0]; ++k) count += static_cast<uint8_t*>(shared)[k];
    static_cast<float*>(b[1])[i] += float(count);
  }
}

TEST_CASE("phases follow one another, each complete, where they are worth it") {
  CpuKernel code;
  code.fn = [](void* const* b, const int64_t*, int64_t begin, int64_t end, void*) {
    for (int64_t i = begin; i < end; ++i) static_cast<float*>(b[1])[i] = -1;
  };
  code.phases = {{LeaveMarks, KernelSymbol(0)}, {CountMarks, 5}};
  code.shared_bytes = KernelSymbol(0);
  code.phase_gain = KernelSymbol(0) - 100;
  for (int threads : {1, 2, 3}) {
    const auto launcher = MakeCpuLauncher(Copy({KernelSymbol(0)}, KernelTemplate::kElementwise, 1),
                                          code, std::make_shared<Team>(threads));
    for (const int64_t n : {99, 100, 1 << 20}) {
      std::vector<float> y(size_t(std::max<int64_t>(n, 5)), 0);
      void* buffers[2] = {nullptr, y.data()};
      launcher->Launch(buffers, &n);
      CHECK(y[0] == (n < 100 ? -1 : float(n)));
      CHECK(y[4] == y[0]);
      CHECK(y[5] == (n < 100 ? -1 : 0));
    }
  }
}

TEST_CASE("a kernel without loops is one item") {
  CpuKernel code;
  code.fn = [](void* const* b, const int64_t*, int64_t begin, int64_t end, void*) {
    static_cast<float*>(b[1])[0] = float(end - begin);
  };
  Kernel k;
  k.num_inputs = 1;
  k.buffers = {{DType::kF32, false, 1}, {DType::kF32, true, 1}};
  k.stores = {{1, Expr::Int(0), Expr::Load(0, DType::kF32, {Expr::Int(0)}), false}};
  k.Finish();
  float x = 0, y = 0;
  void* buffers[2] = {&x, &y};
  MakeCpuLauncher(k, code, std::make_shared<Team>(2))->Launch(buffers, nullptr);
  CHECK(y == 1);
}

TEST_CASE("quota of a cgroup") {
  CHECK(ThreadsOfQuota("max 100000", "", "") == 0);
  CHECK(ThreadsOfQuota("200000 100000", "", "") == 2);
  CHECK(ThreadsOfQuota("150000 100000", "", "") == 2);
  CHECK(ThreadsOfQuota("", "-1", "100000") == 0);
  CHECK(ThreadsOfQuota("", "50000", "100000") == 1);
  CHECK(ThreadsOfQuota("", "", "") == 0);
  CHECK(DefaultThreads() >= 1);
}

TEST_CASE("transposition of every remainder") {
  for (const int64_t rows : {1, 3, 4, 16, 19, 130})
    for (const int64_t columns : {1, 5, 16, 33, 260}) {
      std::vector<float> a(size_t(2 * rows * columns)), b(a.size(), -1);
      for (size_t i = 0; i < a.size(); ++i) a[i] = float(i);
      TransposeMatrices(a.data(), b.data(), 2, rows, columns);
      bool ok = true;
      for (int64_t n = 0; n < 2; ++n)
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < columns; ++j)
            ok = ok &&
                 b[size_t((n * columns + j) * rows + i)] == a[size_t((n * rows + i) * columns + j)];
      CHECK(ok);
    }
}

}  // namespace
}  // namespace weft::cpu
