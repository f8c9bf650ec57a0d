/// polled_range_test.cc: long launches of every kind end soon after they are cancelled, and are
/// complete where they are not.
#include "polled_range.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernel_launcher.h"
#include "multi_launcher.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"
#include "weft/support/request.h"

namespace weft::cpu {
namespace {

using Clock = std::chrono::steady_clock;
double Seconds(const std::function<void()>& f) {
  const auto start = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Instead of generated code: counts its items and takes dims[1] nanoseconds for each.
std::atomic<int64_t> done{0};
void Slow(void* const*, const int64_t* dims, int64_t begin, int64_t end, void*) {
  std::this_thread::sleep_for(std::chrono::nanoseconds((end - begin) * dims[1]));
  done += end - begin;
}

/// A copy of d0 elements; d1 is for Slow.
Kernel Copy() {
  Kernel k;
  k.dims = {KernelSymbol(0)};
  k.num_outer = k.num_inputs = 1;
  k.num_symbols = 2;
  k.vector_loop = 0;
  k.buffers = {{DType::kF32, false, k.dims[0]}, {DType::kF32, true, k.dims[0]}};
  k.stores = {{1, Expr::Index(0), Expr::Load(0, DType::kF32, {Expr::Index(0)}), false}};
  k.Finish();
  return k;
}

/// Number of elements whose copy is estimated to take a second.
constexpr int64_t kLong = int64_t(kBytesPerMicrosecond * 1e6 / 8);

CpuKernel Plain() {
  CpuKernel code;
  code.fn = Slow;
  return code;
}
/// `chunks` items in the first phase, 3 in the second.
CpuKernel InPhases(SymInt chunks) {
  CpuKernel code;
  code.phases = {{Slow, chunks}, {Slow, 3}};
  code.phase_gain = 0;
  return code;
}
std::shared_ptr<KernelLauncher> Multi(int parts, const CpuKernel& code, int threads) {
  const auto kernel = std::make_shared<Kernel>(Copy());
  LoweredKernel l;
  l.kernel = kernel;
  for (int i = 0; i < parts; ++i) l.parts.push_back({kernel, {0, 1}, 0});
  return MakeCpuMultiLauncher(l, {code}, std::make_shared<Team>(threads));
}

struct Case {
  std::string name;
  std::shared_ptr<KernelLauncher> launcher;
  int64_t d0, items;  ///< of one launch
};
std::vector<Case> Cases(int threads) {
  const auto alone = [&](const CpuKernel& code) {
    return MakeCpuLauncher(Copy(), code, std::make_shared<Team>(threads));
  };
  return {{"one range", alone(Plain()), kLong, kLong},
          {"phases", alone(InPhases(64)), kLong, 64 + 3},
          {"one long part", Multi(1, Plain(), threads), kLong, kLong},
          {"two long parts", Multi(2, Plain(), threads), kLong / 2, kLong / 2 * 2},
          {"many short parts", Multi(500, Plain(), threads), kLong / 500, kLong / 500 * 500},
          {"a part in phases", Multi(1, InPhases(64), threads), kLong, 64 + 3}};
}

TEST_CASE("long launches: cancelled in well under their time, else complete") {
  void* buffers[2] = {nullptr, nullptr};
  for (const int threads : {1, 2}) {
    for (const Case& c : Cases(threads)) {
      CAPTURE(c.name);
      CAPTURE(threads);
      done = 0;
      const int64_t at_once[2] = {c.d0, 0};
      c.launcher->Launch(buffers, at_once);
      CHECK(done == c.items);

      // Four seconds on one thread, two on two.
      const int64_t slow[2] = {c.d0, int64_t(4e9) / c.items};
      CancelToken token;
      const Limits limits;
      const RequestScope request(limits, &token);
      std::thread other([token]() mutable {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        token.Cancel();
      });
      done = 0;
      ErrorCode code = ErrorCode::kInternal;
      const double seconds = Seconds([&] {
        try {
          c.launcher->Launch(buffers, slow);
        } catch (const Error& e) {
          code = e.code();
        }
      });
      other.join();
      CHECK(code == ErrorCode::kCancelled);
      CHECK(done < c.items / 2);
      CHECK(seconds < 1);
    }
  }
}

TEST_CASE("a deadline passes inside a launch over parts and inside phases") {
  void* buffers[2] = {nullptr, nullptr};
  for (const Case& c : Cases(2)) {
    CAPTURE(c.name);
    Limits limits;
    limits.deadline_s = 0.02;
    const RequestScope request(limits);
    const int64_t slow[2] = {c.d0, int64_t(4e9) / c.items};
    done = 0;
    CHECK_THROWS_AS(c.launcher->Launch(buffers, slow), UserError);
    CHECK(done < c.items / 2);
  }
}

}  // namespace
}  // namespace weft::cpu
