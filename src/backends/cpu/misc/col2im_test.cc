/// col2im_test.cc: blocks added back into images against the definition in the interpreter.
#include <doctest/doctest.h>

#include "weft/core/pass/evaluator.h"
#include "weft/core/text/text.h"
#include "weft/runtime/program/program.h"

namespace weft::cpu {
namespace {

struct Case {
  std::vector<int64_t> image, block;
  std::string attrs;
  int64_t blocks;
};

std::string ListOf(const std::vector<int64_t>& v) {
  std::string text;
  for (int64_t x : v) text += (text.empty() ? "" : ", ") + std::to_string(x);
  return "tensor i64[" + std::to_string(v.size()) + "] [" + text + "]";
}

TEST_CASE("strides, dilations, padding, one to three axes, and every dtype") {
  const Case cases[] = {
      {{40}, {3}, "", 38},
      {{56, 56}, {3, 3}, "pads = [1, 1, 1, 1]", 56 * 56},
      {{9, 40}, {2, 5}, "dilations = [2, 3], pads = [1, 2, 0, 5]", 8 * 35},
      {{6, 5}, {3, 3}, "", 4 * 3},
      {{7, 64}, {3, 2}, "strides = [2, 1], pads = [1, 0, 1, 0]", 4 * 63},
      {{32, 36}, {8, 16}, "strides = [8, 16]", 4 * 2},
      {{9, 21}, {3, 3}, "strides = [2, 2]", 4 * 10},
      {{9, 21}, {3, 3}, "strides = [3, 4], pads = [0, 1, 0, 2]", 3 * 6},
      {{9, 3}, {3, 6}, "strides = [3, 4], pads = [0, 7, 0, 7]", 3 * 3},
      {{4, 5, 24}, {2, 3, 3}, "pads = [0, 1, 1, 1, 1, 1]", 4 * 5 * 24},
  };
  for (const char* type : {"f32", "f64", "f16", "bf16", "i32"})
    for (const Case& c : cases) {
      int64_t positions = 1;
      for (int64_t k : c.block) positions *= k;
      const std::string text = "weft 1\ngraph (%x: " + std::string(type) + "[n, " +
                               std::to_string(3 * positions) + ", " + std::to_string(c.blocks) +
                               "]) -> (%y) {\n %i = Constant() {value = " + ListOf(c.image) +
                               "} : ?\n %b = Constant() {value = " + ListOf(c.block) +
                               "} : ?\n %y = Col2Im(%x, %i, %b) {" + c.attrs + "} : ?\n}\n";
      CAPTURE(text);
      const Graph g = ParseGraph(text);
      const auto program = Compile(g);
      CHECK(program->stats().library_calls == int(std::string(type) != "i32"));
      for (int64_t n : {2, 0}) {
        auto x = std::make_shared<Tensor>(*ParseDType(type),
                                          std::vector<int64_t>{n, 3 * positions, c.blocks});
        // Sums of these are exact in every dtype.
        for (int64_t i = 0; i < x->num_elements(); ++i) x->set(i, double(i * 7 % 13 - 6));
        const TensorPtr got = Session(program).Run({x})[0], want = GetEvaluator()->Eval(g, {x})[0];
        CHECK(CompareTensors(*got, *want, 0, 0) <= 1);
      }
    }
}

}  // namespace
}  // namespace weft::cpu
