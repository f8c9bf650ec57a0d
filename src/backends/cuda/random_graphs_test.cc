/// random_graphs_test.cc: random graphs as the CUDA printer computes them. Every generated kernel
/// of a graph runs on emulated threads (codegen/cuda/emulator/emulator.h), everything else in the
/// interpreter; the oracle is the interpreter in double precision, with the error bounds of
/// differential_test.cc. No GPU is needed.
///
///   WEFT_FUZZ_SEED=7000 WEFT_FUZZ_COUNT=10000 cuda_test
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "backends/cuda/doubles/emulated_kernels.h"
#include "tests/support/e2e_util.h"
#include "tests/support/error_bound.h"
#include "tests/support/random/random_graph.h"
#include "tests/support/special_run.h"
#include "weft/support/log.h"

namespace {

using namespace weft;
using namespace weft::e2e;

struct Made {
  uint64_t seed;
  fuzz::RandomGraph random;
  std::shared_ptr<const Program> program;
};

/// What differs first; empty when nothing does.
std::string RunAndCompare(const Made& m) {
  using Place = cuda::GuardedMemory::Place;
  Session session(m.program);
  const size_t runs = m.random.bindings.size() + 1;  // the last on special numbers
  for (size_t b = 0; b < runs; ++b) {
    const bool special = b + 1 == runs;
    const std::vector<TensorPtr> in =
        special ? fuzz::MakeSpecialInputs(m.random, 0) : fuzz::MakeInputs(m.random, b);
    std::map<std::string, TensorPtr> named;
    for (size_t i = 0; i < in.size(); ++i) named[m.random.inputs[i].name] = in[i];
    const auto by_name = [&](const std::string& name) { return named.at(name); };
    std::vector<TensorPtr> ours, theirs;
    for (const IoSpec& i : m.program->inputs()) ours.push_back(by_name(i.name));
    for (NodePtr p : m.random.graph.AllInputs()) theirs.push_back(by_name(p->attrs.name));
    Oracles want;
    try {
      want = AskOracles(m.random.graph, theirs, special);
    } catch (const UserError&) {
      if (special) continue;  // an index that is no number
      throw;
    }
    cuda::EmulatedRun& run = TheEmulation().run;
    run.place = Place((m.seed + b) % 3);
    run.seed = m.seed / 3 % 4 + b;
    run.multiprocessors = (m.seed + b) % 2 ? 1 : 132;
    const std::vector<TensorPtr> got = session.Run(ours);
    for (size_t i = 0; i < got.size(); ++i) {
      const NodeEntry e = m.random.graph.outputs[i];
      const auto bound = m.random.values.find({e.node->id(), e.index});
      const std::string why =
          CompareResult(*got[i], want, i, bound == m.random.values.end() ? 0 : bound->second.error);
      if (!why.empty())
        return m.random.graph.OutputName(i) + " with extents " + std::to_string(b) + ": " + why;
    }
  }
  return {};
}

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

TEST_CASE("emulated CUDA: random graphs mean the same as in the interpreter") {
  RegisterEmulation();
  SetLogLevel(LogLevel::kError);
  const uint64_t first = uint64_t(FromEnvironment("WEFT_FUZZ_SEED", 1));
  const int64_t count = FromEnvironment("WEFT_FUZZ_COUNT", 1000);
  const double begin = Seconds();
  std::vector<Made> all;
  for (uint64_t seed = first; seed < first + uint64_t(count); ++seed) {
    Made m{seed, fuzz::MakeRandomGraph(seed), nullptr};
    try {
      m.program = CompileEmulated(m.random.graph);
    } catch (const std::exception& e) {
      FAIL_CHECK("seed " << seed << ": " << std::string(e.what()));
      continue;
    }
    all.push_back(std::move(m));
  }
  const double compiled = Seconds();
  if (!BuildKernels(40)) return;
  const double built = Seconds();
  int failures = 0;
  int64_t kernels = 0, interpreted = 0;
  for (const Made& m : all) {
    kernels += m.program->stats().kernels;
    interpreted += m.program->stats().interpreted;
    std::string why;
    try {
      why = RunAndCompare(m);
    } catch (const std::exception& e) {
      why = e.what();
    }
    if (why.empty()) continue;
    PrintOptions print;
    print.inline_all = true;
    FAIL_CHECK("seed " << m.seed << ": " << why << "\n"
                       << (failures < 3 ? PrintGraph(m.random.graph, print) : std::string()));
    if (++failures >= 10) break;
  }
  MESSAGE(all.size() << " graphs, " << kernels << " kernels and " << interpreted
                     << " steps interpreted; " << TheEmulation().launches << " launches; passes "
                     << compiled - begin << " s, compilers " << built - compiled << " s, runs "
                     << Seconds() - built << " s");
  std::string counts;
  for (const auto& [entry, count] : TheEmulation().entries)
    counts += " " + (entry.empty() ? "plain" : entry) + "=" + std::to_string(count);
  MESSAGE("entries:" << counts << "; parts of launches: " << TheEmulation().parts);
  CHECK(kernels > 2 * interpreted);
}
