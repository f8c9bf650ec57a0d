/// training_graphs_test.cc: gradients of random graphs as the CUDA printer computes them, with
/// values computed again instead of kept and without: not a bit differs. Kernels run on emulated
/// threads (codegen/cuda/emulator/emulator.h), the rest in the interpreter. No GPU is needed.
///
///   WEFT_TRAINING_SEED=7000 WEFT_TRAINING_COUNT=10000 cuda_test -tc="emulated CUDA: training*"
#include "tests/gradient/training_graphs.h"

#include <doctest/doctest.h>

#include <cstring>

#include "backends/cuda/doubles/emulated_kernels.h"
#include "tests/support/e2e_util.h"
#include "tests/support/error_bound.h"
#include "weft/support/log.h"

namespace {

using namespace weft;
using namespace weft::e2e;

struct Pair {
  int64_t seed;
  gradient::Tensors inputs;
  std::shared_ptr<const Program> plain, least;
};

bool HasCopies(const Program& program) {
  const auto rows = program.graph().AttrOr<NodeMap<std::string>>("recompute_of");
  for (NodePtr n : program.graph().TopoOrder())
    if (rows.find(n)) return true;
  return false;
}

}  // namespace

TEST_CASE("emulated CUDA: training graphs give the same bits when values are computed again") {
  RegisterEmulation();
  SetLogLevel(LogLevel::kError);
  const int64_t first = FromEnvironment("WEFT_TRAINING_SEED", 1),
                count = FromEnvironment("WEFT_TRAINING_COUNT", 500);
  std::vector<Pair> pairs;
  int graphs = 0;
  for (int64_t seed = first; seed < first + count; ++seed) {
    CAPTURE(seed);
    std::string why;
    const auto t = gradient::MakeTraining(uint64_t(seed), &why);
    if (!t) continue;
    ++graphs;
    try {
      Pair p{seed, t->inputs, nullptr, nullptr};
      p.least = CompileEmulatedBy(
          "RTCGen,Checkpoint{budget=min, warn=false, work=1000000},Schedule,PlanMemory", t->graph);
      if (!HasCopies(*p.least)) continue;  // the same program
      p.plain = CompileEmulated(t->graph);
      pairs.push_back(std::move(p));
    } catch (const std::exception& e) {
      FAIL_CHECK(std::string(e.what()));
    }
  }
  MESSAGE(graphs << " graphs, " << pairs.size() << " with copies");
  if (count >= 500) {
    CHECK(graphs >= count * 6 / 10);
    CHECK(int(pairs.size()) >= graphs / 20);
  }
  if (!BuildKernels(16)) return;
  for (const Pair& p : pairs) {
    CAPTURE(p.seed);
    cuda::EmulatedRun& run = TheEmulation().run;
    run.seed = uint64_t(p.seed);
    run.multiprocessors = p.seed % 2 ? 1 : 132;
    try {
      Session plain(p.plain), least(p.least);
      const auto want = plain.Run(p.inputs), got = least.Run(p.inputs);
      REQUIRE(got.size() == want.size());
      for (size_t k = 0; k < want.size(); ++k) {
        CAPTURE(k);
        REQUIRE(got[k]->dims() == want[k]->dims());
        CHECK(std::memcmp(got[k]->data(), want[k]->data(), size_t(want[k]->num_bytes())) == 0);
      }
    } catch (const std::exception& e) {
      FAIL_CHECK(std::string(e.what()));
    }
  }
}
