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

TEST_CASE("sizes that data decide have a bound: a run that meets it takes that much, none more") {
  if (!HasCpu()) return;
  struct Bounded {
    const char* graph;
    SymBindings bind;
    bool met;  ///< by inputs of ones
  };
  const Bounded cases[] = {
      {"graph (%x: f32[n]) -> (%y) {\n  %r = Relu(%x) : ?\n  %i = NonZero(%r) : ?\n"
       "  %t = Transpose(%i) : ?\n  %v = GatherND(%r, %t) : ?\n  %e = Exp(%v) : ?\n"
       "  %s = Softmax(%e) {axis = 0} : ?\n  %y = ReduceSum(%s) {keepdims = 0} : ?\n}",
       {{"n", 300}},
       true},
      {"graph (%x: f32[n]) -> (%y) {\n  %r = Relu(%x) : ?\n  %u, %i, %j, %k = Unique(%r) : ?, ?, "
       "?, ?\n"
       "  %e = Exp(%u) : ?\n  %y = ReduceSum(%e) {keepdims = 0} : ?\n}",
       {{"n", 64}},
       false},
      {"graph (%b: f32[1, n, 4], %s: f32[1, 2, n]) -> (%y) {\n"
       "  %most = Constant() {value = tensor i64[] [5]} : ?\n"
       "  %p = Sigmoid(%s) : ?\n  %k = NonMaxSuppression(%b, %p, %most) : ?\n"
       "  %f = Cast(%k) {to = f32} : ?\n  %e = Exp(%f) : ?\n"
       "  %y = ReduceSum(%e) {keepdims = 0} : ?\n}",
       {{"n", 40}},
       false},
  };
  for (const Bounded& c : cases) {
    CAPTURE(c.graph);
    const Graph g = FromText(c.graph);
    const PredictedArena said = PredictArena(g, {}, c.bind);
    CHECK(said.at_most);
    Session session(Compile(g));
    int64_t most = 0;
    for (uint64_t seed = 1; seed < 8; ++seed) {
      session.Run(MakeRandomInputs(g, seed, c.bind).tensors);
      most = std::max(most, session.arena_bytes());
    }
    CHECK(most > 0);
    CHECK(most <= said.bytes);
    if (!c.met) continue;
    std::vector<TensorPtr> ones;
    for (const TensorPtr& t : MakeRandomInputs(g, 1, c.bind).tensors) {
      auto one = std::make_shared<Tensor>(t->dtype(), t->dims());
      for (int64_t i = 0; i < one->num_elements(); ++i) one->set(i, 1);
      ones.push_back(one);
    }
    session.Run(ones);
    CHECK(session.arena_bytes() == said.bytes);
  }
}

TEST_CASE("bodies of loops and branches are predicted with their states and slices") {
  if (!HasCpu()) return;
  // Two products in the body, a state of 4 KiB in two places, and slices on the second axis.
  const Graph g = FromText(R"(graph (%h: f32[n, 32], %x: f32[9, n, 32], %w: f32[32, 32]) -> (%z) {
    %y, %s = Scan(%h, %x, %w) {
      num_scan_inputs = 1, num_captures = 1, scan_output_axes = [1],
      body = graph (%a: f32[n, 32], %b: f32[n, 32], %m: f32[32, 32]) -> (%e, %f) {
        %c = MatMul(%a, %m) : ?
        %d = MatMul(%c, %m) : ?
        %e = Add(%d, %b) : ?
        %f = Tanh(%e) : ?
      }
    } : ?, ?
    %z = ReduceSum(%s) {keepdims = 0} : ?
  })");
  Session session(Compile(g));
  for (const int64_t n : {1, 8, 33}) {
    CAPTURE(n);
    const SymBindings bind = {{"n", n}};
    const PredictedArena said = PredictArena(g, {}, bind);
    CHECK(!said.at_most);
    for (uint64_t seed = 1; seed < 4; ++seed) {
      session.Run(MakeRandomInputs(g, seed, bind).tensors);
      CHECK(session.arena_bytes() == said.bytes);
    }
    // The whole of the slices, and the state.
    CHECK(said.bytes > n * 32 * 4 * (9 + 1));
  }
}

}  // namespace weft::e2e
