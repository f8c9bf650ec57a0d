/// predict_arena_test.cc: what `weft inspect` says that a run takes is what it takes, for random
/// graphs of every kind. No kernel is compiled for the one, so that what only code knows must
/// not decide the plan.
///
///   WEFT_FUZZ_SEED=7000 WEFT_FUZZ_COUNT=1000 weft_tests -tc='*arena*random*'
#include "weft/runtime/program/predict_arena.h"

#include <doctest/doctest.h>

#include "tests/support/e2e_util.h"
#include "tests/support/error_bound.h"
#include "tests/support/random/random_control_flow.h"
#include "tests/support/random/random_graph.h"

namespace weft::e2e {
namespace {

/// Compares at every binding that `inputs` gives; counts what was compared.
template <class MakeInputs>
void CheckArena(const Graph& g, const std::vector<SymBindings>& bindings, MakeInputs&& inputs,
                int* compared) {
  for (const bool fusion : {true, false}) {
    CAPTURE(fusion);
    CompileOptions options;
    options.fusion = fusion;
    const auto program = Compile(g, options);
    Session session(program);
    for (size_t k = 0; k < bindings.size(); ++k) {
      CAPTURE(k);
      PredictedArena said;
      const auto why = Catch([&] { said = PredictArena(g, options, bindings[k]); });
      if (why && why->code == ErrorCode::kUnsupported) break;  // a size without a bound
      REQUIRE_MESSAGE(!why, why->text);
      session.Run(inputs(*program, k));
      if (said.at_most)
        CHECK(session.arena_bytes() <= said.bytes);
      else
        CHECK(session.arena_bytes() == said.bytes);
      ++*compared;
    }
  }
}

}  // namespace

TEST_CASE("the arena of random graphs is what was predicted") {
  if (!HasCpu()) return;
  const uint64_t first = uint64_t(FromEnvironment("WEFT_FUZZ_SEED", 1));
  const int64_t count = FromEnvironment("WEFT_FUZZ_COUNT", 30);
  int compared = 0;
  for (uint64_t seed = first; seed < first + uint64_t(count); ++seed) {
    CAPTURE(seed);
    const fuzz::RandomGraph g = fuzz::MakeRandomGraph(seed);
    CheckArena(
        g.graph, g.bindings,
        [&](const Program& p, size_t k) { return Ordered(p, g.graph, fuzz::MakeInputs(g, k)); },
        &compared);
  }
  CHECK(compared >= 2 * count);
}

TEST_CASE("the arena of random control flow is what was predicted") {
  if (!HasCpu()) return;
  const uint64_t first = uint64_t(FromEnvironment("WEFT_FUZZ_SEED", 1));
  const int64_t count = FromEnvironment("WEFT_FUZZ_COUNT", 20);
  int compared = 0;
  for (uint64_t seed = first; seed < first + uint64_t(count); ++seed) {
    CAPTURE(seed);
    const fuzz::ControlFlowGraph g = fuzz::MakeControlFlowGraph(seed, false);
    CheckArena(
        g.graph, g.bindings,
        [&](const Program& p, size_t k) { return Ordered(p, g.graph, fuzz::MakeInputs(g, k, 0)); },
        &compared);
  }
  CHECK(compared > 0);
}

}  // namespace weft::e2e
