/// ancestors_test.cc: gradients that chainer-compiler, MXNet, NNVM and TinyFlow get wrong (or do
/// not have), one named test each. All through the pass `Gradient`.
#include <doctest/doctest.h>

#include <cmath>

#include "cases.h"
#include "tests/support/e2e_util.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"

namespace weft::gradient {
namespace {

using e2e::Catch;
using e2e::FromText;

TensorPtr F64(std::vector<int64_t> dims, const std::vector<double>& v) {
  return Tensor::FromDoubles(DType::kF64, std::move(dims), v);
}
std::vector<double> Numbers(const Tensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.num_elements(); ++i) out.push_back(t.at(i));
  return out;
}

/// A graph from text, and the gradients of the sum of its first output with respect to all inputs.
struct Differentiated {
  explicit Differentiated(const std::string& text) : graph(FromText(text)) {
    std::vector<NodeEntry> xs;
    for (const NodePtr& x : graph.inputs()) xs.emplace_back(x);
    gradients = Gradients(graph, {graph.outputs[0]}, xs);
  }
  Tensors Run(const Tensors& in) {
    Graph g = graph;
    std::vector<NodeEntry> outputs;
    for (const NodeEntry& e : gradients) outputs.push_back(g.at(e));
    g.outputs = outputs;
    return Eval(g, in);
  }
  Graph graph;
  std::vector<NodeEntry> gradients;
};

int Count(const Graph& g, const char* op) {
  int n = 0;
  for (const NodePtr& p : g.TopoOrder()) n += IsOp(p, op);
  return n;
}

}  // namespace

TEST_CASE("chainer-compiler: Add, Sub, Mul, Div, Pow never sum to a broadcast operand") {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow"}) {
    CAPTURE(std::string(op));
    Differentiated d("graph @g(%a: f64[2, 3], %b: f64[3]) -> (%y) {\n  %y = " + std::string(op) +
                     "(%a, %b) : ?\n}\n");
    const Tensors g = d.Run({F64({2, 3}, {1, 2, 3, 4, 5, 6}), F64({3}, {1, 2, 0.5})});
    CHECK(g[0]->dims() == std::vector<int64_t>{2, 3});
    REQUIRE(g[1]->dims() == std::vector<int64_t>{3});
    if (std::string(op) == "Add") CHECK(Numbers(*g[1]) == std::vector<double>{2, 2, 2});
    if (std::string(op) == "Mul") CHECK(Numbers(*g[1]) == std::vector<double>{5, 7, 9});
  }
}

TEST_CASE("chainer-compiler: MatMul is wrong beyond two dimensions") {
  Differentiated d(
      "graph @g(%a: f64[2, 1, 2], %b: f64[2, 1]) -> (%y) {\n  %y = MatMul(%a, %b) : ?\n}\n");
  const Tensors g = d.Run({F64({2, 1, 2}, {1, 2, 3, 4}), F64({2, 1}, {5, 6})});
  CHECK(Numbers(*g[0]) == std::vector<double>{5, 6, 5, 6});
  CHECK(g[1]->dims() == std::vector<int64_t>{2, 1});
  CHECK(Numbers(*g[1]) == std::vector<double>{4, 6});
}

TEST_CASE("chainer-compiler: the gradient of Dropout is the identity") {
  Graph g = FromText(
      "graph @g(%x: f64[64]) -> (%y, %mask) {\n"
      "  %r = Constant() {value = tensor f64[] [0.5]} : ?\n"
      "  %t = Constant() {value = tensor bool[] [true]} : ?\n"
      "  %y, %mask = Dropout(%x, %r, %t) {seed = 7} : ?, ?\n}\n");
  const NodeEntry dx = Gradients(g, {g.outputs[0]}, {NodeEntry(g.inputs()[0])})[0];
  g.outputs.push_back(dx);
  std::vector<double> ones(64, 1.0);
  const Tensors out = Eval(g, {F64({64}, ones)});
  int kept = 0;
  for (int64_t i = 0; i < 64; ++i) {
    CHECK(out[2]->at(i) == (out[1]->at_int(i) ? 2 : 0));
    CHECK(out[2]->at(i) == out[0]->at(i));
    kept += out[1]->at_int(i) != 0;
  }
  CHECK(kept > 0);
  CHECK(kept < 64);
}

TEST_CASE(
    "chainer-compiler: Gemm ignores beta for the bias, and sums it over the first axis only") {
  Differentiated d(
      "graph @g(%a: f64[2, 1], %b: f64[1, 3], %c: f64[2, 1]) -> (%y) {\n"
      "  %y = Gemm(%a, %b, %c) {beta = 0.5} : ?\n}\n");
  const Tensors g = d.Run({F64({2, 1}, {1, 2}), F64({1, 3}, {1, 2, 3}), F64({2, 1}, {0, 0})});
  CHECK(g[2]->dims() == std::vector<int64_t>{2, 1});
  CHECK(Numbers(*g[2]) == std::vector<double>{1.5, 1.5});
  Differentiated scalar(
      "graph @g(%a: f64[2, 1], %b: f64[1, 3], %c: f64[]) -> (%y) {\n"
      "  %y = Gemm(%a, %b, %c) {beta = 2.0} : ?\n}\n");
  const Tensors s = scalar.Run({F64({2, 1}, {1, 2}), F64({1, 3}, {1, 2, 3}), F64({}, {0})});
  CHECK(Numbers(*s[2]) == std::vector<double>{12});
}

TEST_CASE("chainer-compiler: ReduceMean without axes reads a null pointer") {
  Differentiated d(
      "graph @g(%x: f64[2, 2]) -> (%y) {\n  %y = ReduceMean(%x) {keepdims = 0} : ?\n}\n");
  CHECK(Numbers(*d.Run({F64({2, 2}, {1, 2, 3, 4})})[0]) == std::vector<double>(4, 0.25));
}

TEST_CASE("chainer-compiler: Pow by its exponent is NaN at base 0") {
  Differentiated d("graph @g(%x: f64[2], %p: f64[2]) -> (%y) {\n  %y = Pow(%x, %p) : ?\n}\n");
  const Tensors g = d.Run({F64({2}, {0, 1}), F64({2}, {2, 3})});
  CHECK(Numbers(*g[0]) == std::vector<double>{0, 3});
  CHECK(Numbers(*g[1]) == std::vector<double>{0, 0});
}

TEST_CASE("chainer-compiler: an LSTM with other than five inputs has silently no gradient") {
  Differentiated d(
      "graph @g(%x: f64[1, 1, 1], %w: f64[1, 4, 1], %r: f64[1, 4, 1]) -> (%y) {\n"
      "  %y, %h, %c = LSTM(%x, %w, %r) {hidden_size = 1} : ?, ?, ?\n}\n");
  const Tensors g =
      d.Run({F64({1, 1, 1}, {1}), F64({1, 4, 1}, {0, 0, 0, 0.5}), F64({1, 4, 1}, {1, 1, 1, 1})});
  // One step from nothing: y = o tanh(i tanh(g)) with o = i = 1/2, so only the gate g has
  // a slope in x.
  const double cell = std::tanh(0.5) / 2, slope = 0.5 * (1 - std::tanh(cell) * std::tanh(cell)),
               gate = 1 - std::tanh(0.5) * std::tanh(0.5);
  CHECK(Numbers(*g[0])[0] == doctest::Approx(slope * 0.5 * gate * 0.5).epsilon(1e-12));
  CHECK(Numbers(*g[1])[0] == doctest::Approx(slope * 0.25 * std::tanh(0.5)).epsilon(1e-12));
  CHECK(Numbers(*g[1])[1] == doctest::Approx(std::tanh(cell) / 4).epsilon(1e-12));
  CHECK(Numbers(*g[2]) == std::vector<double>{0, 0, 0, 0});
}

TEST_CASE("chainer-compiler: Max, Min, Log and ReduceMax have no gradient") {
  Differentiated d(
      "graph @g(%a: f64[2], %b: f64[2]) -> (%y) {\n  %m = Max(%a, %b) : ?\n"
      "  %n = Min(%a, %b) : ?\n  %l = Log(%m) : ?\n  %r = ReduceMax(%n) : ?\n"
      "  %y = Add(%l, %r) : ?\n}\n");
  const Tensors g = d.Run({F64({2}, {1, 4}), F64({2}, {2, 3})});
  // y = log(max) (+ the largest minimum, twice): 1/2 to b[0], 1/4 to a[1]; 2 to b[1].
  CHECK(Numbers(*g[0]) == std::vector<double>{0, 0.25});
  CHECK(Numbers(*g[1]) == std::vector<double>{0.5, 2});
}

TEST_CASE("chainer-compiler: a result nobody uses is signalled by an exception") {
  Differentiated d(
      "graph @g(%x: f64[4]) -> (%y) {\n"
      "  %a, %b = Split(%x) {num_outputs = 2} : ?, ?\n  %y = Mul(%a, %a) : ?\n}\n");
  CHECK(Numbers(*d.Run({F64({4}, {1, 2, 3, 4})})[0]) == std::vector<double>{2, 4, 0, 0});
}

TEST_CASE("MXNet 18563: a maximum of a reduction gives 1 to every tied element") {
  Differentiated d("graph @g(%x: f64[3]) -> (%y) {\n  %y = ReduceMax(%x) : ?\n}\n");
  CHECK(Numbers(*d.Run({F64({3}, {2, 2, 1})})[0]) == std::vector<double>{0.5, 0.5, 0});
}

TEST_CASE("ORT 7217, Theano 6470: both operands of a tied maximum get all of the gradient") {
  Differentiated d("graph @g(%a: f64[2], %b: f64[2]) -> (%y) {\n  %y = Max(%a, %b) : ?\n}\n");
  const Tensors g = d.Run({F64({2}, {1, 3}), F64({2}, {1, 2})});
  CHECK(Numbers(*g[0]) == std::vector<double>{0.5, 1});
  CHECK(Numbers(*g[1]) == std::vector<double>{0.5, 0});
}

TEST_CASE("NNVM: one operator without a gradient stops the pass, at the first one") {
  // Off the path it does no harm ...
  Differentiated d(
      "graph @g(%x: f64[2], %d: f64[1], %v: f64[2]) -> (%y, %h) {\n"
      "  %h = weft::ReduceProdGradPairs(%d, %x, %v) : ?\n  %y = Mul(%x, %x) : ?\n}\n");
  const Tensors g = d.Run({F64({2}, {1, 2}), F64({1}, {0}), F64({2}, {0, 0})});
  CHECK(Numbers(*g[0]) == std::vector<double>{2, 4});
  // ... and on it all of them are listed at once.
  Graph bad = FromText(
      "graph @g(%x: f64[2], %d: f64[1], %v: f64[2]) -> (%y) {\n"
      "  %first = weft::ReduceProdGradPairs(%d, %x, %v) : ?\n"
      "  %second = weft::ReduceProdGradPairs(%d, %v, %x) : ?\n"
      "  %y = Add(%first, %second) : ?\n}\n");
  const auto caught =
      Catch([&] { Gradients(bad, {bad.outputs[0]}, {NodeEntry(bad.inputs()[0])}); });
  REQUIRE(caught.has_value());
  CHECK(caught->says("first"));
  CHECK(caught->says("second"));
}

TEST_CASE("NNVM aborts on an input that is not reached, TensorFlow gives none: here zeros") {
  Differentiated d("graph @g(%x: f64[2], %unused: f64[3]) -> (%y) {\n  %y = Exp(%x) : ?\n}\n");
  const Tensors g = d.Run({F64({2}, {0, 0}), F64({3}, {1, 2, 3})});
  CHECK(Numbers(*g[1]) == std::vector<double>{0, 0, 0});
}

TEST_CASE("NNVM keeps all partial gradients of a value for one wide sum") {
  std::string text = "graph @g(%x: f64[2]) -> (%y) {\n", sum = "%x";
  for (int i = 0; i < 8; ++i) {
    const std::string k = std::to_string(i);
    text += "  %e" + k + " = Exp(%x) : ?\n  %s" + k + " = Mul(" + sum + ", %e" + k + ") : ?\n";
    sum = "%s" + k;
  }
  Differentiated d(text + "  %y = Identity(" + sum + ") : ?\n}\n");
  Graph g = d.graph;
  g.outputs = std::vector<NodeEntry>{g.at(d.gradients[0])};
  CHECK(Count(g, "Sum") == 0);
  CHECK(Count(g, "Add") >= 8);
  // d(x e^{8x}) = e^{8x} (1 + 8 x)
  CHECK(d.Run({F64({2}, {0, 0.25})})[0]->at(1) == doctest::Approx(std::exp(2.0) * 3));
}

TEST_CASE("NNVM: broadcasting operators, Concat, Split, Pad and Cast have no gradient") {
  Differentiated d(
      "graph @g(%x: f64[2], %b: f64[1]) -> (%y) {\n"
      "  %sum = Add(%x, %b) : ?\n  %c = Concat(%sum, %x) {axis = 0} : ?\n"
      "  %s, %t = Split(%c) {num_outputs = 2} : ?, ?\n"
      "  %pads = Constant() {value = tensor i64[2] [1, 1]} : ?\n  %p = Pad(%t, %pads) : ?\n"
      "  %n = Cast(%s) {to = f32} : ?\n  %w = Cast(%n) {to = f64} : ?\n"
      "  %q = ReduceSum(%w) : ?\n  %y = Mul(%p, %q) : ?\n}\n");
  const Tensors g = d.Run({F64({2}, {1, 2}), F64({1}, {3})});
  // y sums to (x0 + x1) (x0 + x1 + 2 b)
  CHECK(Numbers(*g[0]) == std::vector<double>{12, 12});
  CHECK(Numbers(*g[1]) == std::vector<double>{6});
}

TEST_CASE("TinyFlow writes ln(b) of b ** x with six decimals") {
  Differentiated d(
      "graph @g(%x: f64[1]) -> (%y) {\n  %b = Constant() {value = tensor f64[] [10.0]} : ?\n"
      "  %y = Pow(%b, %x) : ?\n}\n");
  CHECK(std::fabs(d.Run({F64({1}, {3})})[0]->at(0) - 1000 * std::log(10.0)) < 1e-9);
}

TEST_CASE("integers have no gradient, rather than a float tensor of zeros") {
  Graph g = FromText("graph @g(%x: f64[3], %i: i64[2]) -> (%y) {\n  %y = Gather(%x, %i) : ?\n}\n");
  const auto caught = Catch([&] { Gradients(g, {g.outputs[0]}, {NodeEntry(g.inputs()[1])}); });
  REQUIRE(caught.has_value());
  CHECK(caught->code == ErrorCode::kUnsupported);
}

}  // namespace weft::gradient
