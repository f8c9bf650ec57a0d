/// training_kernels_test.cc: how many kernels the operators of training become, forward and
/// backward part together, and that the results are the interpreter's.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/e2e_util.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/tensor/tensor.h"

namespace {

using namespace weft;
using namespace weft::e2e;

NodeEntry Input(const Graph& g, const std::string& name) {
  for (NodePtr n : g.inputs())
    if (n->attrs.name == name) return NodeEntry(n);
  return {};
}
/// The graph with the gradients of its first output by the named inputs as further outputs. Where
/// the graph has an input "dy", that is the gradient of the output.
Graph WithGradients(const std::string& text, const std::vector<std::string>& by) {
  Graph g = FromText(text);
  std::vector<NodeEntry> xs, outputs(g.outputs.begin(), g.outputs.end());
  for (const std::string& name : by) xs.push_back(Input(g, name));
  const std::vector<NodeEntry> ys{outputs[0]};
  const NodeEntry dy = Input(g, "dy");
  for (const NodeEntry& dx :
       Gradients(g, ys, xs, dy ? std::vector<NodeEntry>{dy} : std::vector<NodeEntry>{}))
    outputs.push_back(dx);
  g.outputs = outputs;
  return g;
}
std::string With(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

/// Compiles for the CPU, compares with the interpreter in double precision, and gives the number of
/// kernels.
int64_t Kernels(const Graph& g, const SymBindings& bind = {}, double rtol = 1e-4,
                double atol = 1e-5) {
  const Reference want = RunReference(g, 11, bind);
  const auto program = CompileFor(g, "cpu");
  CHECK(program->stats().library_calls == 0);
  CHECK(program->stats().interpreted == 0);
  Session session(program);
  CHECK(Difference(session.Run(want.inputs), want.outputs, rtol, atol) <= 1);
  return program->stats().kernels;
}

const char* const kCrossEntropy = R"(graph (%x: f32[$N, $C], %t: i64[$N]) -> (%l) {
  %l, %p = SoftmaxCrossEntropyLoss(%x, %t) : ?, ?
})";

}  // namespace

TEST_CASE("soft-max and cross entropy, forward and backward: two kernels") {
  if (!HasCpu()) return;
  for (const char* rows : {"6", "n"})
    for (const char* classes : {"10", "37", "m"}) {
      CAPTURE(rows);
      CAPTURE(classes);
      const Graph g = WithGradients(With(With(kCrossEntropy, "$N", rows), "$C", classes), {"x"});
      CHECK(Kernels(g, {{"n", 5}, {"m", 12}}) <= 2);
    }
}

TEST_CASE("losses in every form, forward and backward") {
  if (!HasCpu()) return;
  struct Form {
    const char *name, *text;
    int64_t most;
  };
  const Form forms[] = {
      {"of images", R"(graph (%x: f32[2, 5, 3, 4], %t: i32[2, 3, 4]) -> (%l) {
        %l, %p = SoftmaxCrossEntropyLoss(%x, %t) : ?, ?
      })",
       2},
      {"sum", R"(graph (%x: f32[6, 10], %t: i64[6]) -> (%l) {
        %l, %p = SoftmaxCrossEntropyLoss(%x, %t) {reduction = "sum"} : ?, ?
      })",
       2},
      {"none", R"(graph (%x: f32[6, 10], %t: i64[6], %dy: f32[6]) -> (%l) {
        %l, %p = SoftmaxCrossEntropyLoss(%x, %t) {reduction = "none"} : ?, ?
      })",
       1},
      {"LogSoftmax and its likelihood", R"(graph (%x: f32[6, 10], %t: i64[6]) -> (%l) {
        %p = LogSoftmax(%x) {axis = 1} : ?
        %l = NegativeLogLikelihoodLoss(%p, %t) : ?
      })",
       2},
      {"Softmax, its logarithm and the likelihood", R"(graph (%x: f32[6, 10], %t: i64[6]) -> (%l) {
        %s = Softmax(%x) {axis = 1} : ?
        %p = Log(%s) : ?
        %l = NegativeLogLikelihoodLoss(%p, %t) {reduction = "sum"} : ?
      })",
       2},
      {"one-hot labels spelled out", R"(graph (%x: f32[6, 10], %t: f32[6, 10]) -> (%l) {
        %ax = Constant() {value = tensor i64[1] [1]} : ?
        %m = ReduceMax(%x, %ax) : ?
        %s = Sub(%x, %m) : ?
        %e = Exp(%s) : ?
        %z = ReduceSum(%e, %ax) : ?
        %lz = Log(%z) : ?
        %p = Sub(%s, %lz) : ?
        %h = Mul(%p, %t) : ?
        %r = ReduceSum(%h, %ax) {keepdims = 0} : ?
        %k = Neg(%r) : ?
        %l = ReduceMean(%k) {keepdims = 0} : ?
      })",
       2},
      // The gradient waits for the sum of the weights: rows, sums, rows again.
      {"weights and ignored labels",
       R"(graph (%x: f32[6, 10], %t: i64[6], %w: f32[10]) -> (%l) {
        %l, %p = SoftmaxCrossEntropyLoss(%x, %t, %w) {ignore_index = 3} : ?, ?
      })",
       3},
  };
  for (const Form& form : forms) {
    CAPTURE(std::string(form.name));
    CHECK(Kernels(WithGradients(form.text, {"x"})) <= form.most);
  }
}

TEST_CASE("a label that is no class is an error in a kernel as well") {
  if (!HasCpu()) return;
  const Graph g = WithGradients(With(With(kCrossEntropy, "$N", "4"), "$C", "10"), {"x"});
  Session session(CompileFor(g, "cpu"));
  const Reference r = RunReference(g, 1);
  for (int64_t bad : {10, -1}) {
    const auto caught = Catch([&] { session.Run({r.inputs[0], Tensor::Ints({0, 1, 2, bad})}); });
    REQUIRE(caught.has_value());
    CHECK(caught->code == ErrorCode::kIndexRange);
  }
  session.Run({r.inputs[0], Tensor::Ints({0, 1, 2, 9})});
}

TEST_CASE("batch normalisation in training: one kernel forward, and at most one backward") {
  if (!HasCpu()) return;
  const std::string text =
      R"(graph (%x: f32[$N, $C, 5, 6], %s: f32[$C], %b: f32[$C], %m: f32[$C], %v: f32[$C]) -> (%y, %p, %q) {
  %y, %p, %q = BatchNormalization(%x, %s, %b, %m, %v) {training_mode = 1} : ?, ?, ?
})";
  const std::string relu =
      R"(graph (%x: f32[$N, $C, 5, 6], %z: f32[$N, $C, 5, 6], %s: f32[$C], %b: f32[$C], %m: f32[$C], %v: f32[$C], %dy: f32[$N, $C, 5, 6]) -> (%r, %p, %q) {
  %y, %p, %q = BatchNormalization(%x, %s, %b, %m, %v) {training_mode = 1} : ?, ?, ?
  %a = Add(%y, %z) : ?
  %r = Relu(%a) : ?
})";
  for (const char* batch : {"4", "n"})
    for (const char* channels : {"3", "16", "c"}) {
      CAPTURE(batch);
      CAPTURE(channels);
      const auto make = [&](const std::string& t) {
        return With(With(t, "$N", batch), "$C", channels);
      };
      const SymBindings bind{{"n", 7}, {"c", 5}};
      CHECK(Kernels(FromText(make(text)), bind) == 1);
      CHECK(Kernels(FromText(make(relu)), bind) == 1);
      CHECK(Kernels(WithGradients(make(relu), {"x", "z", "s", "b"}), bind, 1e-3, 1e-4) <= 2);
    }
  const Graph flat = WithGradients(
      R"(graph (%x: f32[64, 8], %s: f32[8], %b: f32[8], %m: f32[8], %v: f32[8], %dy: f32[64, 8]) -> (%y) {
  %y, %p, %q = BatchNormalization(%x, %s, %b, %m, %v) {training_mode = 1} : ?, ?, ?
})",
      {"x", "s", "b"});
  CHECK(Kernels(flat, {}, 1e-3, 1e-4) <= 2);
}

TEST_CASE("batch normalisation between products: one kernel forward, one backward") {
  if (!HasCpu()) return;
  // Two products, and the gradients of both operands of each. The gradient of %z needs %z, so that
  // the backward part has to wait for the forward one.
  const Graph g = WithGradients(
      R"(graph (%x: f32[20, 7], %f: f32[7, 12], %h: f32[12, 5], %s: f32[12], %b: f32[12], %m: f32[12], %v: f32[12], %dy: f32[20, 5]) -> (%l, %p, %q) {
  %c = MatMul(%x, %f) : ?
  %y, %p, %q = BatchNormalization(%c, %s, %b, %m, %v) {training_mode = 1} : ?, ?, ?
  %r = Relu(%y) : ?
  %z = MatMul(%r, %h) : ?
  %l = Mul(%z, %z) : ?
})",
      {"x", "f", "h", "s", "b"});
  const auto program = CompileFor(g, "cpu");
  CHECK(program->stats().library_calls == 6);
  CHECK(program->stats().interpreted == 0);
  // Kernels that compute: a transposed operand of a product may be one that copies.
  const Graph fused = ApplyPasses(g, "Simplify,FoldConstants,Simplify,Fusion");
  int forward = 0, backward = 0, others = 0;
  for (NodePtr n : fused.TopoOrder()) {
    if (!IsOp(n, builtin::kFused)) continue;
    bool moments = false, sums = false, computes = false;
    for (NodePtr m : FusedBody(n)->TopoOrder()) {
      moments = moments || IsOp(m, "weft::Moments");
      sums = sums || IsOp(m, "ReduceSum");
      computes = computes || !(m->is_variable() || IsOp(m, "Transpose") || IsOp(m, "Reshape") ||
                               Graph::ConstantOf(NodeEntry(m)));
    }
    forward += moments && !sums;
    backward += sums && !moments;
    others += computes && moments == sums;
  }
  CHECK(forward == 1);
  CHECK(backward == 1);
  CHECK(others == 1);  // the square and its gradient
  const Reference want = RunReference(g, 11);
  CHECK(Difference(Session(program).Run(want.inputs), want.outputs, 1e-3, 1e-4) <= 1);
}

TEST_CASE("batch statistics of 65,536 elements are the double ones to 1e-5") {
  if (!HasCpu()) return;
  const Graph g = FromText(
      R"(graph (%x: f32[64, 2, 32, 32], %s: f32[2], %b: f32[2], %m: f32[2], %v: f32[2]) -> (%y, %p, %q) {
  %y, %p, %q = BatchNormalization(%x, %s, %b, %m, %v) {training_mode = 1, momentum = 0.0} : ?, ?, ?
})");
  Session session(CompileFor(g, "cpu"));
  const auto vector = [](double a, double b) {
    return Tensor::FromDoubles(DType::kF32, {2}, {a, b});
  };
  for (double shift : {0.0, 3.0, 100.0}) {
    CAPTURE(shift);
    auto x = std::make_shared<Tensor>(DType::kF32, std::vector<int64_t>{64, 2, 32, 32});
    uint64_t s = 7;
    for (int64_t i = 0; i < x->num_elements(); ++i) {
      s = s * 6364136223846793005u + 1442695040888963407u;
      x->set(i, shift + double(s >> 40) / double(1 << 23) - 1);
    }
    const std::vector<TensorPtr> in{x, vector(1, 1), vector(0, 0), vector(0, 0), vector(1, 1)};
    EvalOptions options;
    options.typed = false;
    const auto want = GetEvaluator()->Eval(g, in, options), got = session.Run(in);
    for (int64_t c = 0; c < 2; ++c) {
      CHECK(std::fabs(got[1]->at(c) - want[1]->at(c)) <= 1e-5 * std::max(1.0, shift));
      CHECK(got[2]->at(c) == doctest::Approx(want[2]->at(c)).epsilon(1e-5));
    }
    double worst = 0;
    for (int64_t i = 0; i < x->num_elements(); ++i)
      worst = std::max(worst, std::fabs(got[0]->at(i) - want[0]->at(i)));
    CHECK(worst <= 1e-5 * std::max(1.0, shift));
  }
}

TEST_CASE("dropout fuses with its neighbours; the mask is drawn once") {
  if (!HasCpu()) return;
  const std::string constant = R"(graph (%x: f32[$N, 33], %dy: f32[$N, 33]) -> (%y, %k) {
  %r = Constant() {value = tensor f32[] [0.25]} : ?
  %t = Constant() {value = tensor bool[] [true]} : ?
  %h = Tanh(%x) : ?
  %d, %k = Dropout(%h, %r, %t) {seed = 5} : ?, ?
  %y = Exp(%d) : ?
})";
  for (const char* rows : {"7", "n"})
    CHECK(Kernels(WithGradients(With(constant, "$N", rows), {"x"}), {{"n", 9}}) == 1);
  // A ratio that the run tells: its scale is one number, computed before.
  const std::string text =
      R"(graph (%x: f32[$N, 33], %r: f32[], %t: bool[], %dy: f32[$N, 33]) -> (%y, %k) {
  %h = Tanh(%x) : ?
  %d, %k = Dropout(%h, %r, %t) {seed = 5} : ?, ?
  %y = Exp(%d) : ?
})";
  for (const char* rows : {"7", "n"}) {
    const Graph g = WithGradients(With(text, "$N", rows), {"x"});
    const auto program = CompileFor(g, "cpu");
    CHECK(program->stats().kernels <= 2);
    CHECK(program->stats().interpreted == 0);
    Session session(program);
    for (bool training : {true, false})
      for (double ratio : {0.0, 0.3, 1.0}) {
        CAPTURE(training);
        CAPTURE(ratio);
        Reference r = RunReference(g, 3, {{"n", 9}});
        r.inputs[1] = Tensor::Scalar(DType::kF32, ratio);
        r.inputs[2] = Tensor::Scalar(DType::kBool, training);
        EvalOptions options;
        options.typed = false;
        const auto want = GetEvaluator()->Eval(g, r.inputs, options);
        const auto got = session.Run(r.inputs);
        CHECK(Difference(got, want, 1e-4, 1e-5) <= 1);
        CHECK(Difference(session.Run(r.inputs), got, 0, 0) <= 1);
      }
  }
}

TEST_CASE("dropout without a seed draws anew in every run, forward and backward alike") {
  if (!HasCpu()) return;
  const Graph g = WithGradients(R"(graph (%x: f32[64, 64], %dy: f32[64, 64]) -> (%y, %k) {
  %r = Constant() {value = tensor f32[] [0.25]} : ?
  %t = Constant() {value = tensor bool[] [true]} : ?
  %y, %k = Dropout(%x, %r, %t) : ?, ?
})",
                                {"x"});
  Session session(CompileFor(g, "cpu"));
  std::vector<double> ones(4096, 1);
  const TensorPtr x = Tensor::FromDoubles(DType::kF32, {64, 64}, ones);
  const auto a = session.Run({x, x}), b = session.Run({x, x});
  bool same = true;
  int64_t kept = 0;
  for (int64_t i = 0; i < 4096; ++i) {
    same = same && a[1]->at(i) == b[1]->at(i);
    kept += a[1]->at(i) != 0;
    CHECK(a[0]->at(i) == doctest::Approx(a[1]->at(i) / 0.75).epsilon(1e-6));
    CHECK(a[2]->at(i) == a[0]->at(i));
  }
  CHECK(!same);
  CHECK(std::fabs(double(kept) / 4096 - 0.75) < 5 * std::sqrt(0.75 * 0.25 / 4096));
}

TEST_CASE("random numbers in a kernel are the interpreter's") {
  if (!HasCpu()) return;
  const Graph g = FromText(R"(graph (%x: f32[5, 1, 77], %s: i64[2]) -> (%a, %b, %c) {
  %u = weft::RandomUniform(%x, %s) : ?
  %v = weft::RandomNormal(%x, %s) {stream = 3, scale = 2.0} : ?
  %a = Mul(%x, %u) : ?
  %b = Add(%a, %v) : ?
  %p = Transpose(%u) {perm = [2, 1, 0]} : ?
  %c = Neg(%p) : ?
})");
  Session session(CompileFor(g, "cpu"));
  const Reference r = RunReference(g, 4);
  for (int64_t step : {0, 1}) {
    const std::vector<TensorPtr> in{r.inputs[0], Tensor::Ints({-77, step})};
    EvalOptions options;
    options.typed = false;
    CHECK(Difference(session.Run(in), GetEvaluator()->Eval(g, in, options), 1e-5, 8e-6) <= 1);
  }
}
