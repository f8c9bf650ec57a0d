/// double_conv_test.cc: convolutions of doubles, their gradients and their transposes against the
/// definitions in the interpreter, at several sizes, none of which may compile anything.
#include "double_conv.h"

#include <doctest/doctest.h>

#include "weft/core/pass/evaluator.h"
#include "weft/core/text/text.h"
#include "weft/runtime/program/program.h"

namespace weft::cpu {
namespace {

using Dims = std::vector<int64_t>;

TensorPtr Values(const Dims& dims) {
  auto t = std::make_shared<Tensor>(DType::kF64, dims);
  for (int64_t i = 0; i < t->num_elements(); ++i) t->set(i, double(i * 7 % 23 - 11) / 16);
  return t;
}
/// Runs `body` over (x, W, third) at all sizes of x.
void Check(const std::string& x, const std::string& w, const std::string& third,
           const std::string& body, const std::vector<std::vector<TensorPtr>>& runs) {
  const std::string text = "weft 1\ngraph (%x: f64[" + x + "], %w: f64[" + w + "]" + third +
                           ") -> (%y) {\n" + body + "\n}\n";
  CAPTURE(text);
  const Graph g = ParseGraph(text);
  const auto program = Compile(g);
  Session session(program);
  const int64_t kernels = CountCompiled().kernels;
  for (const auto& operands : runs) {
    const TensorPtr got = session.Run(operands)[0], want = GetEvaluator()->Eval(g, operands)[0];
    CHECK(CompareTensors(*got, *want, 1e-12, 1e-12) <= 1);
  }
  CHECK(CountCompiled().kernels == kernels);
}

TEST_CASE("convolutions of doubles: windows, groups, one to four axes") {
  const auto check = [](const Dims& w, const std::string& attrs, const std::vector<Dims>& sizes) {
    std::string x = "n, c", weights;
    for (size_t k = 2; k < w.size(); ++k) x += ", d" + std::to_string(k);
    for (int64_t d : w) weights += (weights.empty() ? "" : ", ") + std::to_string(d);
    std::vector<std::vector<TensorPtr>> runs;
    for (const Dims& d : sizes) runs.push_back({Values(d), Values(w), Values({w[0]})});
    Check(x, weights, ", %b: f64[" + std::to_string(w[0]) + "]",
          " %y = Conv(%x, %w, %b) {" + attrs + "} : ?", runs);
    for (auto& run : runs) run.pop_back();
    Check(x, weights, "", " %c = Conv(%x, %w) {" + attrs + "} : ?\n %y = Relu(%c) : ?", runs);
  };
  check({5, 3, 3}, "pads = [1, 2]", {{1, 3, 40}, {2, 3, 5}, {0, 3, 5}});
  check({6, 2, 3, 3}, "group = 2, strides = [2, 1], pads = [1, 0, 2, 3]",
        {{2, 4, 9, 33}, {1, 4, 3, 4}, {1, 4, 20, 20}});
  check({9, 4, 2, 5}, "dilations = [3, 2], strides = [1, 3]", {{1, 4, 8, 60}, {3, 4, 5, 9}});
  check({4, 1, 3, 3}, "group = 4, auto_pad = \"SAME_UPPER\"", {{1, 4, 7, 19}, {2, 4, 1, 1}});
  check({3, 2, 2, 2, 2}, "pads = [0, 1, 0, 1, 0, 1]", {{1, 2, 4, 5, 18}, {2, 2, 2, 1, 2}});
  check({2, 2, 1, 2, 1, 2}, "", {{1, 2, 2, 3, 2, 5}});
}

TEST_CASE("transposed convolutions of doubles") {
  const auto check = [](const Dims& w, const std::string& attrs, const std::vector<Dims>& sizes) {
    const int64_t filters = w[1] * (attrs.find("group = 2") == 0 ? 2 : 1);
    std::string x = "n, c", weights;
    for (size_t k = 2; k < w.size(); ++k) x += ", d" + std::to_string(k);
    for (int64_t d : w) weights += (weights.empty() ? "" : ", ") + std::to_string(d);
    std::vector<std::vector<TensorPtr>> runs;
    for (const Dims& d : sizes) runs.push_back({Values(d), Values(w), Values({filters})});
    Check(x, weights, ", %b: f64[" + std::to_string(filters) + "]",
          " %y = ConvTranspose(%x, %w, %b) {" + attrs + "} : ?", runs);
  };
  check({4, 3, 3, 3}, "", {{1, 4, 5, 20}, {2, 4, 1, 1}});
  check({4, 3, 3, 2}, "group = 2, strides = [2, 3], pads = [1, 0, 0, 1], output_padding = [1, 0]",
        {{1, 4, 6, 9}, {2, 4, 2, 3}});
  check({2, 5, 3}, "dilations = [4], pads = [3, 5]", {{1, 2, 9}, {3, 2, 30}});
  check({2, 2, 2, 2}, "strides = [2, 2]", {{1, 2, 6, 9}, {1, 2, 16, 16}});
}

TEST_CASE("gradients of convolutions of doubles") {
  for (const char* attrs :
       {"pads = [1, 1, 1, 1]", "strides = [2, 3], pads = [0, 1, 2, 0]", "dilations = [2, 1]"}) {
    // What a forward pass gives tells the extents of dy.
    const Graph forward = ParseGraph(
        "weft 1\ngraph (%x: f64[n, 4, h, w], %w: f64[6, 2, 3, 3]) -> "
        "(%y) {\n %y = Conv(%x, %w) {group = 2, " +
        std::string(attrs) + "} : ?\n}\n");
    std::vector<std::vector<TensorPtr>> of_data, of_weights;
    for (const Dims& d : {Dims{1, 4, 7, 20}, Dims{2, 4, 5, 6}}) {
      const TensorPtr x = Values(d), w = Values({6, 2, 3, 3});
      const TensorPtr dy = Values(GetEvaluator()->Eval(forward, {x, w})[0]->dims());
      of_data.push_back({dy, w, Tensor::FromDoubles(DType::kI64, {4}, {d.begin(), d.end()})});
      of_weights.push_back({dy, x});
    }
    const std::string rest = " {group = 2, " + std::string(attrs) + "} : ";
    Check("n, 6, a, b", "6, 2, 3, 3", ", %s: i64[4]",
          " %y = weft::ConvGradData(%x, %w, %s)" + rest + "?", of_data);
    Check("n, 6, a, b", "n, 4, h, w", "",
          " %s = Constant() {value = tensor i64[4] [6, 2, 3, 3]} : ?\n"
          " %y = weft::ConvGradWeight(%x, %w, %s)" +
              rest + "?",
          of_weights);
  }
}

}  // namespace
}  // namespace weft::cpu
