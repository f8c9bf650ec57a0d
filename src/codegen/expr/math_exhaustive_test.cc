/// math_exhaustive_test.cc: every f32 argument of every generated math function against libm in
/// double.
///
///   weft_math_exhaustive [function ...] [--step N]
///
/// Without names all functions of one argument; --step takes every Nth bit pattern (prime steps
/// sample evenly). One thread a core. pow is sampled with y cycling through a fixed set. Exit
/// status 1 when a bound is exceeded.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "codegen/expr/math_eval.h"
#include "weft/codegen/expr/math.h"
#include "weft/codegen/lower/lower.h"

namespace {

using namespace weft;
using math_eval::kBlock;

constexpr float kExponents[] = {2, 3, 0.5f, -1, -2, 0.1f, 1.5f, 7, -0.3333f, 2.2f, 1 / 2.4f, 31};

struct Worst {
  double ulp = 0;
  float x = 0, y = 0, got = 0;
};

Worst Scan(const MathFunction& f, uint64_t step) {
  Exprs args = {Expr::Variable("x", DType::kF32)};
  if (f.op == CallOp::kPow) args.push_back(Expr::Variable("y", DType::kF32));
  const Expr expanded = ExpandMath(Expr::Call(f.op, args));
  constexpr uint64_t kEnd = uint64_t{1} << 32;
  std::atomic<uint64_t> next{0};
  std::mutex mutex;
  Worst worst;
  const auto work = [&] {
    math_eval::Program program(expanded);
    Worst mine;
    float x[kBlock], y[kBlock], out[kBlock];
    for (;;) {
      const uint64_t first = next.fetch_add(256 * kBlock * step);
      if (first >= kEnd) break;
      for (uint64_t block = 0; block < 256; ++block) {
        for (int i = 0; i < kBlock; ++i) {
          const auto bits =
              uint32_t(std::min(first + (block * kBlock + uint64_t(i)) * step, kEnd - 1));
          std::memcpy(&x[i], &bits, sizeof bits);
          y[i] = kExponents[size_t(i) % std::size(kExponents)];
        }
        program.Run(x, y, out);
        for (int i = 0; i < kBlock; ++i) {
          const double exact = math_eval::Reference<double>(f.op, x[i], y[i]);
          const double ulp =
              math_eval::UlpError<float, double>(out[i], exact, math_eval::Flushes(f.op, true));
          if (ulp > mine.ulp) mine = {ulp, x[i], y[i], out[i]};
        }
      }
    }
    const std::lock_guard<std::mutex> lock(mutex);
    // Ties by argument, so that the report does not depend on the threads.
    if (mine.ulp > worst.ulp || (mine.ulp == worst.ulp && mine.x < worst.x)) worst = mine;
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t step = 1;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--step" && i + 1 < argc)
      step = std::max<uint64_t>(1, std::strtoull(argv[++i], nullptr, 10));
    else
      names.emplace_back(argv[i]);
  }
  bool good = true;
  for (const MathFunction& f : MathFunctions()) {
    if (!names.empty() && std::find(names.begin(), names.end(), f.name) == names.end()) continue;
    const Worst w = Scan(f, step);
    const bool kept = w.ulp <= f.f32_ulp;
    good = good && kept;
    std::printf("%-8s %.4f ulp (stated %.1f) at x = %a (%.9g), y = %.9g, got %.9g%s\n", f.name,
                w.ulp, f.f32_ulp, double(w.x), double(w.x), double(w.y), double(w.got),
                kept ? "" : "  EXCEEDED");
    std::fflush(stdout);
  }
  return good ? 0 : 1;
}
