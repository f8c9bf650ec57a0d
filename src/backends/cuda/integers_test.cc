/// integers_test.cc: the integer operators of integer_cases.h as the CUDA printer computes
/// them, on emulated threads, and as the C printer does, built by the system's compiler; what NVRTC
/// takes of their kernels.
///
///   WEFT_FUZZ_SEED=7000 WEFT_FUZZ_COUNT=1000 cuda_test -tc='integers*'
#include <doctest/doctest.h>

#include <cstdlib>

#include "backends/cuda/doubles/emulated_kernels.h"
#include "backends/cuda/doubles/printed_c.h"
#include "tests/support/e2e_util.h"
#include "tests/support/integer_cases.h"
#include "tests/support/nvrtc_checks.h"
#include "weft/support/log.h"

namespace {

using namespace weft;
using namespace weft::e2e;
using integers::Case;
using integers::Run;

/// What printed kernels are compared on: pairs of every type, of some types the rest, and random
/// graphs. C compilers are slow.
std::vector<Case> PrintedCases(size_t random) {
  using namespace integers;
  std::vector<Case> all;
  for (DType t : kTypes) all.push_back(Pairs(t));
  all.push_back(Constants(DType::kI64));
  for (DType t : {DType::kI64, DType::kU8}) all.push_back(Lines(t));
  for (DType t : {DType::kI64, DType::kU64}) all.push_back(Casts(t));
  all.push_back(FloatCasts(DType::kF32));
  all.push_back(IndexArithmetic()[0]);
  const char* from = std::getenv("WEFT_FUZZ_SEED");
  const char* count = std::getenv("WEFT_FUZZ_COUNT");
  const uint64_t first = from ? std::strtoull(from, nullptr, 10) : 50'000,
                 end = first + (count ? std::strtoull(count, nullptr, 10) : random);
  for (uint64_t seed = first; seed < end; ++seed) all.push_back(RandomIntegers(seed));
  return all;
}

struct Made {
  Case c;
  std::shared_ptr<const Program> program;
};
std::vector<Made> Compiled(
    const std::function<std::shared_ptr<const Program>(const Graph&)>& compile, size_t random) {
  std::vector<Made> all;
  for (Case& c : PrintedCases(random)) {
    try {
      auto program = compile(c.graph);
      all.push_back({std::move(c), std::move(program)});
    } catch (const std::exception& e) {
      FAIL_CHECK(c.name << ": " << std::string(e.what()));
    }
  }
  return all;
}

void CheckAll(const std::vector<Made>& all) {
  int64_t interpreted = 0, kernels = 0;
  for (const Made& m : all) {
    interpreted += m.program->stats().interpreted;
    kernels += m.program->stats().kernels;
    Session session(m.program);
    std::string why;
    try {
      why = integers::Check(m.c, [&](const Run& run) {
        std::vector<TensorPtr> in;
        for (const IoSpec& i : m.program->inputs()) in.push_back(run.inputs.at(i.name));
        return session.Run(in);
      });
    } catch (const std::exception& e) {
      why = m.c.name + ": " + e.what();
    }
    CHECK_MESSAGE(why.empty(), why);
  }
  CHECK(kernels > 10 * interpreted);
}

class Quiet {
 public:
  Quiet() : before_(GetLogLevel()) { SetLogLevel(LogLevel::kError); }
  ~Quiet() { SetLogLevel(before_); }

 private:
  LogLevel before_;
};

}  // namespace

TEST_CASE("integers: every operator on emulated CUDA") {
  const Quiet quiet;
  RegisterEmulation();
  const std::vector<Made> all = Compiled(CompileEmulated, 20);
  if (!BuildKernels(8)) return;
  TheEmulation().run = {};
  CheckAll(all);
}

TEST_CASE("integers: every operator as C") {
  const Quiet quiet;
  const std::vector<Made> all = Compiled(CompilePrinted, 4);
  if (!BuildPrinted()) return;
  CheckAll(all);
}

TEST_CASE("integers: NVRTC compiles their kernels") {
  const auto compiler = FindNvrtc();
  if (!compiler) return;
  std::vector<KernelPtr> kernels;
  for (DType t : {DType::kI64, DType::kU64})
    for (const KernelPtr& k : KernelsIn(LowerForNvrtc(integers::Pairs(t).graph, KernelPasses())))
      kernels.push_back(k);
  CHECK(!kernels.empty());
  std::vector<std::string> errors;
  compiler->Compile(kernels, &errors);
  for (const std::string& e : errors) CHECK(e == "");
}
