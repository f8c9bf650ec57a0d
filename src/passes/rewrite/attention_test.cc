/// attention_test.cc: the pass Attention, for a library that says to have the call: what is
/// formed, and what stays.
#include <doctest/doctest.h>

#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"
#include "weft/core/text/text.h"

namespace weft {
namespace {

WEFT_REGISTER_OP_IN(weft, Attention).set_attr<bool>("FCompute.attention_test", true);

Graph Run(const std::string& text, const std::string& target = "attention_test") {
  PassOptions options;
  options.target = target;
  options.checks.equivalent = true;
  options.checks.preserved = true;
  return ApplyPasses(ParseGraph("weft 1\ngraph <n, b, s, t>" + text),
                     "InferType,InferShape,Attention", options);
}
int Count(const Graph& g, const char* op) {
  int count = 0;
  for (NodePtr n : g.TopoOrder()) count += IsOp(n, op);
  return count;
}
/// The one call; all else that the graph computes with is gone but for `others` nodes.
NodePtr Call(const Graph& g, int others = 0) {
  NodePtr call;
  int nodes = 0;
  for (NodePtr n : g.TopoOrder()) {
    if (IsOp(n, "weft::Attention")) {
      CHECK(!call);
      call = n;
    }
    nodes += !n->is_variable() && !IsOp(n, builtin::kConstant);
  }
  REQUIRE(call);
  CHECK(nodes == 1 + others);
  return call;
}
Ints Perm(const NodePtr& n, const char* name) { return n->attr<Ints>(name); }
std::string Scalar(const char* name, const char* value) {
  return std::string("  ") + name + " = Constant() {value = tensor f32[] [" + value + "]} : ?\n";
}

/// q [16, 4], k' [4, 10], v [10, 5] and what makes weights of scores %s.
Graph Plain(const std::string& middle, const std::string& more = "",
            const std::string& out = "%y") {
  return Run("(%q: f32[16, 4], %k: f32[4, 10], %v: f32[10, 5]" + more + ") -> (" + out + ") {\n" +
             Scalar("%c", "0.5") + Scalar("%d", "4.0") + middle + "}\n");
}
const char* const kTail = "  %p = Softmax(%w) : ?\n  %y = MatMul(%p, %v) : ?\n";

TEST_CASE("attention: two products and a soft-max become one call") {
  const Graph g =
      Plain("  %s = MatMul(%q, %k) : ?\n  %p = Softmax(%s) : ?\n  %y = MatMul(%p, %v) : ?\n");
  const NodePtr call = Call(g);
  CHECK(call->num_inputs() == 3);
  CHECK(call->attr<double>("scale") == 1);
  CHECK(Perm(call, "q_perm").empty());
  CHECK(Perm(call, "k_perm") == Ints{1, 0});
  CHECK(Perm(call, "y_perm").empty());
}

TEST_CASE("attention: a factor on either side, on the product, on all of them") {
  const auto scale = [](const std::string& middle) {
    return Call(Plain(middle + kTail))->attr<double>("scale");
  };
  CHECK(scale("  %s = MatMul(%q, %k) : ?\n  %w = Mul(%s, %c) : ?\n") == 0.5);
  CHECK(scale("  %s = MatMul(%q, %k) : ?\n  %w = Mul(%c, %s) : ?\n") == 0.5);
  CHECK(scale("  %s = MatMul(%q, %k) : ?\n  %w = Div(%s, %d) : ?\n") == 0.25);
  CHECK(scale("  %r = Div(%q, %d) : ?\n  %w = MatMul(%r, %k) : ?\n") == 0.25);
  CHECK(scale("  %r = Mul(%k, %c) : ?\n  %w = MatMul(%q, %r) : ?\n") == 0.5);
  CHECK(scale("  %r = Mul(%q, %c) : ?\n  %l = Mul(%c, %k) : ?\n  %s = MatMul(%r, %l) : ?\n"
              "  %w = Div(%s, %d) : ?\n") == 0.0625);
}

TEST_CASE("attention: a mask of every shape that broadcasts to the scores") {
  for (const char* mask : {"f32[16, 10]", "f32[1, 10]", "f32[10]", "f32[16, 1]", "f32[]"})
    for (const char* sum : {"Add(%m, %t)", "Add(%t, %m)"}) {
      const Graph g =
          Plain("  %s = MatMul(%q, %k) : ?\n  %t = Mul(%s, %c) : ?\n  %w = " + std::string(sum) +
                    " : ?\n" + kTail,
                ", %m: " + std::string(mask));
      const NodePtr call = Call(g);
      CHECK(call->num_inputs() == 4);
      CHECK(call->inputs[3].node->attrs.name == "m");
      CHECK(call->attr<double>("scale") == 0.5);
    }
}

TEST_CASE("attention: transpositions become axis orders of the call") {
  const std::string heads =
      "(%q: f32[b, t, 2, 3], %k: f32[b, s, 2, 3], %v: f32[b, s, 2, 3], %m: f32[b, 1, 1, s]) -> "
      "(%y) {\n" +
      Scalar("%c", "0.5") +
      "  %qt = Transpose(%q) {perm = [0, 2, 1, 3]} : ?\n  %kt = Transpose(%k) {perm = [0, 2, 3, "
      "1]} : ?\n"
      "  %vt = Transpose(%v) {perm = [0, 2, 1, 3]} : ?\n  %qs = Mul(%qt, %c) : ?\n  %s = "
      "MatMul(%qs, %kt) : ?\n"
      "  %w = Add(%s, %m) : ?\n  %p = Softmax(%w) {axis = 3} : ?\n  %z = MatMul(%p, %vt) : ?\n"
      "  %y = Transpose(%z) {perm = [0, 2, 1, 3]} : ?\n}\n";
  const Graph g = Run(heads);
  const NodePtr call = Call(g);
  for (const char* perm : {"q_perm", "k_perm", "v_perm", "y_perm"})
    CHECK(Perm(call, perm) == Ints{0, 2, 1, 3});
  CHECK(call->attr<double>("scale") == 0.5);
  CHECK(g.GetAttr<ShapeMap>("shape")[NodeEntry(call)].ToString() == "[b, t, 2, 3]");
}

TEST_CASE("attention: views that add axes of extent 1 are seen through") {
  const Graph g =
      Run("(%q: f32[t, 2, 3], %k: f32[t, 2, 3], %v: f32[t, 2, 3]) -> (%y) {\n"
          "  %a = Constant() {value = tensor i64[1] [0]} : ?\n"
          "  %qt = Transpose(%q) {perm = [1, 0, 2]} : ?\n  %qu = Unsqueeze(%qt, %a) : ?\n"
          "  %kt = Transpose(%k) {perm = [1, 2, 0]} : ?\n  %ku = Unsqueeze(%kt, %a) : ?\n"
          "  %vt = Transpose(%v) {perm = [1, 0, 2]} : ?\n  %vu = Unsqueeze(%vt, %a) : ?\n"
          "  %s = MatMul(%qu, %ku) : ?\n  %p = Softmax(%s) : ?\n  %y = MatMul(%p, %vu) : ?\n}\n");
  // A Reshape of each operand, with the shape that it states.
  const NodePtr call = Call(g, 6);
  CHECK(Count(g, "Transpose") == 0);
  CHECK(Count(g, "Reshape") == 3);
  for (const char* perm : {"q_perm", "k_perm", "v_perm"})
    CHECK(Perm(call, perm) == Ints{0, 2, 1, 3});
}

TEST_CASE("attention: a transposition with another reader stays, the call reads its result") {
  const Graph g =
      Run("(%q: f32[2, 16, 3], %k: f32[2, 10, 3], %v: f32[2, 10, 3]) -> (%y, %kt) {\n"
          "  %kt = Transpose(%k) {perm = [0, 2, 1]} : ?\n  %s = MatMul(%q, %kt) : ?\n"
          "  %p = Softmax(%s) : ?\n  %y = MatMul(%p, %v) : ?\n}\n");
  CHECK(Perm(Call(g, 1), "k_perm") == Ints{0, 2, 1});
}

TEST_CASE("attention: a safe soft-max") {
  const std::string scores =
                        "  %s = MatMul(%q, %k) : ?\n  %w = Add(%s, %m) : ?\n"
                        "  %r = Softmax(%w) : ?\n  %n = IsNaN(%r) : ?\n",
                    zero = Scalar("%o", "0.0"), result = "  %y = MatMul(%p, %v) : ?\n",
                    mask = ", %m: f32[16, 10]";
  const Graph safe = Plain(scores + zero + "  %p = Where(%n, %o, %r) : ?\n" + result, mask),
              plain = Plain("  %w = MatMul(%q, %k) : ?\n" + std::string(kTail));
  CHECK(Call(safe)->attr<int64_t>("safe") == 1);
  CHECK(Call(safe)->num_inputs() == 4);
  CHECK(Call(plain)->attr<int64_t>("safe") == 0);
  const auto none = [](const Graph& g) { return Count(g, "weft::Attention") == 0; };
  // Another number for NaN, the other way round, somebody else reads what is NaN.
  CHECK(none(Plain(scores + "  %p = Where(%n, %c, %r) : ?\n" + result, mask)));
  CHECK(none(Plain(scores + zero + "  %p = Where(%n, %r, %o) : ?\n" + result, mask)));
  CHECK(none(Plain(scores + zero + "  %p = Where(%n, %o, %r) : ?\n" + result, mask, "%y, %n")));
}

TEST_CASE("attention: what stays as it is") {
  const auto none = [](const Graph& g) { return Count(g, "weft::Attention") == 0; };
  const std::string scores = "  %s = MatMul(%q, %k) : ?\n", weights = "  %p = Softmax(%s) : ?\n",
                    result = "  %y = MatMul(%p, %v) : ?\n";
  CHECK(!none(Plain(scores + weights + result)));
  // Somebody else reads the scores, the weights; they are results of the graph.
  CHECK(none(Plain(scores + weights + result + "  %z = Neg(%s) : ?\n", "", "%y, %z")));
  CHECK(none(Plain(scores + weights + result + "  %z = Neg(%p) : ?\n", "", "%y, %z")));
  CHECK(none(Plain(scores + weights + result, "", "%y, %s")));
  CHECK(none(Plain(scores + weights + result, "", "%y, %p")));
  // Another axis; the weights on the right; a factor that is no number, a factor outside the mask.
  CHECK(none(Plain(scores + "  %p = Softmax(%s) {axis = 0} : ?\n" + result)));
  CHECK(none(Plain(scores + weights + "  %y = MatMul(%r, %p) : ?\n", ", %r: f32[5, 16]")));
  CHECK(none(Plain(scores + "  %w = Mul(%s, %r) : ?\n" + kTail, ", %r: f32[]")));
  CHECK(none(
      Plain(scores + "  %t = Add(%s, %r) : ?\n  %w = Mul(%t, %c) : ?\n" + kTail, ", %r: f32[10]")));
  // A mask, and values, that make the scores more.
  CHECK(none(Plain(scores + "  %w = Add(%s, %r) : ?\n" + kTail, ", %r: f32[3, 16, 10]")));
  CHECK(none(Run("(%q: f32[16, 4], %k: f32[4, 10], %v: f32[3, 10, 5]) -> (%y) {\n" + scores +
                 weights + result + "}\n")));
  // Another dtype; a library without the call.
  CHECK(none(Run("(%q: f64[16, 4], %k: f64[4, 10], %v: f64[10, 5]) -> (%y) {\n" + scores + weights +
                 result + "}\n")));
  CHECK(none(Run("(%q: f32[16, 4], %k: f32[4, 10], %v: f32[10, 5]) -> (%y) {\n" + scores + weights +
                     result + "}\n",
                 "another")));
}

TEST_CASE("attention: a graph with gradients keeps its square") {
  Graph g = ParseGraph(
      "weft 1\ngraph (%q: f32[16, 4], %k: f32[4, 10], %v: f32[10, 5]) -> (%y) {\n"
      "  %s = MatMul(%q, %k) : ?\n  %p = Softmax(%s) : ?\n  %y = MatMul(%p, %v) : ?\n}\n");
  SetGradient(g, {g.outputs[0]}, {NodeEntry(g.inputs()[0])});
  PassOptions options;
  options.target = "attention_test";
  g = ApplyPasses(std::move(g), "Gradient,Simplify,Attention", options);
  CHECK(Count(g, "weft::Attention") == 0);
  CHECK(Count(g, "Softmax") == 1);
}

TEST_CASE("attention: fuel counts the calls") {
  const std::string two =
      "weft 1\ngraph (%q: f32[16, 4], %k: f32[4, 4], %v: f32[4, 4]) -> (%y) {\n"
      "  %s = MatMul(%q, %k) : ?\n  %p = Softmax(%s) : ?\n  %z = MatMul(%p, %v) : ?\n"
      "  %u = MatMul(%z, %k) : ?\n  %w = Softmax(%u) : ?\n  %y = MatMul(%w, %v) : ?\n}\n";
  PassOptions options;
  options.target = "attention_test";
  for (const int fuel : {0, 1, 2}) {
    options.fuel = fuel;
    CHECK(Count(ApplyPasses(ParseGraph(two), "Attention", options), "weft::Attention") == fuel);
  }
}

}  // namespace
}  // namespace weft
