/// json_roundtrip_test.cc: random graphs survive JSON, before and after passes; the passes SaveJSON
/// and LoadJSON.
#include <doctest/doctest.h>

#include "tests/support/random/random_graph.h"
#include "weft/core/json/json.h"
#include "weft/core/pass/evaluator.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"
#include "weft/support/error.h"

namespace weft {
namespace {

std::string Text(const Graph& g) {
  PrintOptions print;
  print.inline_all = print.origins = true;
  return PrintGraph(g, print);
}

void CheckLaw(const Graph& g) {
  const std::string json = SaveJson(g);
  const Graph back = LoadJson(json);
  VerifyGraph(back);
  CHECK(Text(back) == Text(g));
  CHECK(SaveJson(back) == json);
}

TEST_CASE("random graphs survive JSON at every stage") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const fuzz::RandomGraph r = fuzz::MakeRandomGraph(seed);
    CheckLaw(r.graph);
    CheckLaw(ApplyPasses(r.graph, {"InferShape", "Simplify"}));
    CheckLaw(ApplyPasses(r.graph, {"Simplify", "FoldConstants", "Fusion"}));
  }
}

TEST_CASE("a graph that was read computes what the written one does") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    const fuzz::RandomGraph r = fuzz::MakeRandomGraph(seed);
    const Graph fused = ApplyPasses(r.graph, {"Simplify", "Fusion"});
    const auto inputs = seed % 2 ? fuzz::MakeInputs(r, 0) : fuzz::MakeSpecialInputs(r, 0);
    const auto a = GetEvaluator()->Eval(fused, inputs),
               b = GetEvaluator()->Eval(LoadJson(SaveJson(fused)), inputs);
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) CHECK(a[i]->Equals(*b[i]));
  }
}

TEST_CASE("the passes") {
  const Graph g = ParseGraph(R"(weft 1
graph @g(%x: f32[n, 4]) -> (%y) {
  %h = Relu(%x)
  %y = Softmax(%h) {axis = 1}
})");
  const Graph saved = ApplyPasses(g, {"InferShape", "SaveJSON"});
  const std::string json = saved.GetAttr<std::string>("json");
  CHECK(json == SaveJson(saved));
  // As in NNVM: a graph that holds nothing but the text.
  Graph holder;
  holder.SetAttr("json", json);
  const Graph back = ApplyPass(std::move(holder), "LoadJSON");
  CHECK(!back.HasAttr("json"));
  CHECK(back.HasAttr("shape"));
  CHECK(Text(back) == Text(ApplyPass(g, "InferShape")));
  Graph edited = saved;
  edited.outputs = {edited.outputs[0].node->inputs[0]};
  CHECK(!edited.HasAttr("json"));  // an edit makes it untrue
  Graph broken;
  broken.SetAttr("json", std::string("{\"format\": \"weft\"\n}"));
  CHECK_THROWS_WITH_AS(ApplyPass(std::move(broken), "LoadJSON"), doctest::Contains("json:1:1"),
                       UserError);
}

}  // namespace
}  // namespace weft
