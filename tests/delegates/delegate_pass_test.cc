/// delegate_pass_test.cc: graphs divided at random between engines: no region waits for itself, and
/// the interpreter computes the same before and after; regions survive text, JSON and ONNX.
#include <doctest/doctest.h>

#include "tests/delegates/test_delegate.h"
#include "tests/support/e2e_util.h"
#include "tests/support/error_bound.h"
#include "tests/support/random/random_control_flow.h"
#include "tests/support/random/random_graph.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/json/json.h"
#include "weft/onnx/export.h"
#include "weft/onnx/import.h"

namespace weft::e2e {
namespace {

const bool registered = RegisterTestDelegates();

Pipeline Divided(uint64_t seed) {
  return {PassSpec("Delegate", {{"to", std::string("test_a;test_b")},
                                {"choice", std::string("random")},
                                {"seed", int64_t(seed)}})};
}
int64_t CountRegions(const Graph& g) {
  int64_t n = 0;
  for (const NodePtr& p : g.TopoOrder()) n += IsOp(p, builtin::kDelegated);
  return n;
}

}  // namespace

TEST_CASE("a thousand random graphs, divided at random, are acyclic and mean the same") {
  REQUIRE(registered);
  const int64_t count = FromEnvironment("WEFT_FUZZ_COUNT", 1000);
  const uint64_t first = uint64_t(FromEnvironment("WEFT_FUZZ_SEED", 1));
  int64_t regions = 0, nodes = 0;
  for (uint64_t seed = first; seed < first + uint64_t(count); ++seed) {
    CAPTURE(seed);
    const fuzz::RandomGraph random = fuzz::MakeRandomGraph(seed);
    Graph divided;
    try {
      divided = ApplyPasses(random.graph, Divided(seed));
      VerifyGraph(divided);
      CHECK(divided.TopoOrder().size() > 0);  // throws kCycle where there is one
    } catch (const Error& e) {
      FAIL_CHECK(std::string(e.what()));
      continue;
    }
    regions += CountRegions(divided);
    nodes += int64_t(divided.num_nodes());
    const std::vector<TensorPtr> in = fuzz::MakeInputs(random, 0);
    EvalOptions exact;
    exact.typed = false;
    const std::vector<TensorPtr> want = GetEvaluator()->Eval(random.graph, in, exact),
                                 got = GetEvaluator()->Eval(divided, in, exact);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      const NodeEntry e = random.graph.outputs[i];
      const auto bound = random.values.find({e.node->id(), e.index});
      CHECK(Compare(*got[i], *want[i], bound == random.values.end() ? 0 : bound->second.error) ==
            "");
    }
  }
  MESSAGE(count << " graphs, " << regions << " regions among " << nodes << " nodes");
  CHECK(regions >= 2 * count);
}

TEST_CASE("graphs with bodies, divided at random inside them, mean the same") {
  int64_t regions = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const fuzz::ControlFlowGraph random = fuzz::MakeControlFlowGraph(seed, false);
    const Graph divided = ApplyPasses(random.graph, Divided(seed));
    VerifyGraph(divided);
    const std::string text = PrintGraph(divided);
    for (size_t at = 0; (at = text.find("weft::Delegated(", at)) != std::string::npos; ++at)
      ++regions;
    const std::vector<TensorPtr> in = fuzz::MakeInputs(random, 0, seed);
    const std::vector<TensorPtr> want = GetEvaluator()->Eval(random.graph, in),
                                 got = GetEvaluator()->Eval(divided, in);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i]->Equals(*want[i]));
  }
  MESSAGE(regions << " regions");
  CHECK(regions >= 120);
}

TEST_CASE("regions survive text, JSON and ONNX, where they are local functions") {
  const Graph g = ApplyPasses(FromText(R"(graph (%x: f32[n, 4], %z: f32[m, n]) -> (%c, %d) {
    %s = Shape(%z) : ?
    %one = Constant() {value = tensor i64[1] [1]} : ?
    %n = Gather(%s, %one) {axis = 0} : ?
    %rest = Constant() {value = tensor i64[1] [-1]} : ?
    %t = Concat(%n, %rest) {axis = 0} : ?
    %a = Clip(%x, _, _) : ?
    %b = Exp(%a) : ?
    %c = Reshape(%b, %t) : ?
    %d = Neg(%a) : ?
  })"),
                              "Delegate{to=test_a, only=\"Clip;Reshape\"}");
  REQUIRE(CountRegions(g) == 2);
  const Reference want = RunReference(g, 1, {{"n", 3}, {"m", 2}});
  const auto equal = [&](const Graph& other) {
    const std::vector<TensorPtr> got = GetEvaluator()->Eval(other, want.inputs);
    return Difference(got, want.outputs) <= 1;
  };
  PrintOptions print;
  print.inline_all = true;
  const std::string text = PrintGraph(g, print);
  CHECK(PrintGraph(ParseGraph(text), print) == text);
  CHECK(PrintGraph(LoadJson(SaveJson(g)), print) == text);
  CHECK(equal(ParseGraph(text)));
  CHECK(equal(LoadJson(SaveJson(g))));
  CHECK(equal(ImportOnnxBytes(ExportOnnxBytes(g))));
}

}  // namespace weft::e2e
