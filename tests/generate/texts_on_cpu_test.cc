/// texts_on_cpu_test.cc: language models compiled for the CPU against the whole text computed anew
/// for each token by the interpreter; that a token copies no cache and takes no new memory.
#include <doctest/doctest.h>

#include "tests/support/e2e_util.h"
#include "tests/support/tiny_text_model.h"
#include "weft/core/pass/evaluator.h"
#include "weft/generate/generator.h"

namespace weft {
namespace {

using Tokens = std::vector<int64_t>;

/// Scores of the last token of a text, by the interpreter.
std::vector<double> Scores(const TinyTextModel& m, const Graph& g, const Tokens& text) {
  std::vector<TensorPtr> in;
  for (const NodePtr& v : g.inputs()) {
    const std::string& name = v->attrs.name;
    if (name.find("past") == 0) {
      in.push_back(std::make_shared<Tensor>(
          DType::kF32, std::vector<int64_t>{1, m.kv_heads, 0, m.width / m.heads}));
      continue;
    }
    auto t = std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{1, int64_t(text.size())});
    for (size_t i = 0; i < text.size(); ++i)
      t->set_int(int64_t(i), name == "input_ids"      ? text[i]
                             : name == "position_ids" ? int64_t(i)
                                                      : 1);
    in.push_back(t);
  }
  const TensorPtr all = GetEvaluator()->Eval(g, in)[0];
  std::vector<double> scores;
  for (int64_t i = all->num_elements() - m.tokens; i < all->num_elements(); ++i)
    scores.push_back(all->at(i));
  return scores;
}

std::vector<TinyTextModel> Models() {
  std::vector<TinyTextModel> all(6);
  all[1].kv_heads = 4;
  all[2].kv_heads = 1;
  all[2].softcap = 2;
  all[3].window = 4;
  all[4].has_positions = false;
  all[4].has_mask = false;
  all[5].width = 72;  // heads of 18 features, which no vector is a multiple of
  return all;
}

TEST_CASE("greedy texts: caches in place, no copy, no memory a token") {
  for (const TinyTextModel& m : Models()) {
    CAPTURE(m.kv_heads);
    CAPTURE(m.softcap);
    CAPTURE(m.window);
    const Graph g = m.Make();
    Generator generator(g);
    const Tokens prompt{3, 1, 4, 1, 5, 9, 2, 6};
    GenerateOptions o;
    o.max_tokens = 24;
    const Tokens made = generator.Run({prompt}, o)[0];
    REQUIRE(made.size() == 24);
    Tokens text = prompt;
    for (const int64_t token : made) {
      const std::vector<double> scores = Scores(m, g, text);
      // The most likely one, where no other is as near as rounding.
      const double most = *std::max_element(scores.begin(), scores.end());
      CHECK(scores[size_t(token)] >= most - 1e-4);
      text.push_back(token);
    }
    const GenerateStats& s = generator.stats();
    CHECK(s.cache.caches == 2 * m.layers);
    CHECK(s.cache.copied_by_steps == 0);
    CHECK(s.cache.allocations == 1);
    CHECK(s.cache.moved_bytes == 0);
    // Of 23 runs of one token; the first texts find an arena of a few KiB.
    CHECK(s.arena_allocations <= 2);
    // The call, for each layer, none of whose scores are in memory.
    int calls = 0;
    for (const NodePtr& n : generator.program().graph().TopoOrder())
      calls += IsOp(n, "weft::Attention");
    CHECK(calls == m.layers);
  }
}

TEST_CASE("a batch of texts of different lengths is each text alone") {
  const TinyTextModel m;
  Generator generator(m.Make());
  GenerateOptions o;
  o.max_tokens = 10;
  const std::vector<Tokens> prompts{{3, 1, 4, 1, 5}, {2}, {8, 8, 8, 1, 2, 3, 4, 5, 6}};
  const auto together = generator.Run(prompts, o);
  for (size_t i = 0; i < prompts.size(); ++i)
    CHECK(generator.Run({prompts[i]}, o)[0] == together[i]);
}

}  // namespace
}  // namespace weft
