// Gradient of ai.onnx.preview.training, by hand and by central differences.
#include <cmath>

#include "onnx/proto/onnx_test_util.h"
#include "weft/core/pass/evaluator.h"

namespace weft::onnx_import {
namespace {

std::vector<double> Scalars(const std::string& text, const std::vector<double>& in) {
  const Graph g = ImportOnnxBytes(BytesOf(ModelOf(
      R"(<ir_version: 9, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]> )" + text)));
  VerifyGraph(g);
  std::vector<TensorPtr> feeds;
  for (double v : in) feeds.push_back(Tensor::FromDoubles(DType::kF32, {}, {v}));
  std::vector<double> out;
  for (const TensorPtr& t : GetEvaluator()->Eval(g, feeds, {})) out.push_back(t->at(0));
  return out;
}

TEST_CASE("Gradient names a value of its graph and what it is a function of") {
  // d = (a + b) a
  CHECK(Scalars(R"(g (float a, float b) => (float d, float da, float db) {
    c = Add(a, b)  d = Mul(c, a)
    da, db = ai.onnx.preview.training.Gradient<xs = ["a", "b"], y = "d">(a, b) })",
                {3, 5}) == std::vector<double>{24, 11, 3});
  // A result that nobody wants has no name.
  CHECK(Scalars(R"(g (float a, float b) => (float db) {
    c = Add(a, b)  d = Mul(c, a)
    , db = ai.onnx.preview.training.Gradient<xs = ["a", "b"], y = "d">(a, b) })",
                {3, 5}) == std::vector<double>{3});
}

TEST_CASE("Gradient of a gradient") {
  // d = a a a, 6 a
  CHECK(Scalars(R"(g (float a) => (float first, float second) {
    c = Mul(a, a)  d = Mul(c, a)
    first = ai.onnx.preview.training.Gradient<xs = ["a"], y = "d">(a)
    second = ai.onnx.preview.training.Gradient<xs = ["a"], y = "first">(a) })",
                {2}) == std::vector<double>{12, 12});
}

TEST_CASE("Gradient at other values than those that are named") {
  // y = h z with h = a + z: at h = p, and h is taken for independent of z.
  CHECK(Scalars(R"(g (float a, float z, float p) => (float y, float dh, float dz) {
    h = Add(a, z)  y = Mul(h, z)
    dh, dz = ai.onnx.preview.training.Gradient<xs = ["h", "z"], y = "y">(p, z) })",
                {1, 2, 7}) == std::vector<double>{6, 2, 7});
  CHECK(Scalars(R"(g (float a, float z) => (float dh, float dz) {
    h = Add(a, z)  y = Mul(h, z)
    dh, dz = ai.onnx.preview.training.Gradient<xs = ["h", "z"], y = "y">(h, z) })",
                {1, 2}) == std::vector<double>{2, 3});
  // zs are values of the function, without a gradient.
  CHECK(Scalars(R"(g (float a, float z, float p) => (float da) {
    y = Mul(a, z)
    da = ai.onnx.preview.training.Gradient<xs = ["a"], zs = ["z"], y = "y">(a, p) })",
                {1, 2, 7}) == std::vector<double>{7});
}

TEST_CASE("Gradient in a branch") {
  const std::string text = R"(g (bool c, float a) => (float d) {
    d = If(c) <then_branch = t () => (float p) {
                 e = Mul(a, a)
                 p = ai.onnx.preview.training.Gradient<xs = ["a"], y = "e">(a) },
               else_branch = f () => (float q) { q = Neg(a) }> })";
  const Graph g = ImportOnnxBytes(BytesOf(ModelOf(
      R"(<ir_version: 9, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]> )" + text)));
  const auto run = [&](double c) {
    return GetEvaluator()
        ->Eval(g, {Tensor::Scalar(DType::kBool, c), Tensor::FromDoubles(DType::kF32, {}, {4})},
               {})[0]
        ->at(0);
  };
  CHECK(run(1) == 8);
  CHECK(run(0) == -4);
}

/// The first output at scalars of double precision.
double At(const Graph& g, const std::vector<double>& in) {
  std::vector<TensorPtr> feeds;
  for (double v : in) feeds.push_back(Tensor::FromDoubles(DType::kF64, {}, {v}));
  return GetEvaluator()->Eval(g, feeds, {})[0]->at(0);
}
std::string Training(const std::string& text) {
  return R"(<ir_version: 9, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]> )" + text;
}
/// `gradient` says what the derivative of `value` by its first input is.
void CheckByDifferences(const std::string& value, const std::string& gradient,
                        std::vector<double> in) {
  CAPTURE(gradient);
  const Graph f = ImportOnnxBytes(BytesOf(ModelOf(Training(value))));
  const Graph g = ImportOnnxBytes(BytesOf(ModelOf(Training(gradient))));
  VerifyGraph(g);
  const double got = At(g, in), x = in[0], h = 1e-5;
  in[0] = x + h;
  const double above = At(f, in);
  in[0] = x - h;
  const double below = At(f, in);
  const double want = (above - below) / (2 * h);
  CHECK(std::abs(want) > 0.1);
  CHECK(got == doctest::Approx(want).epsilon(1e-6));
}

TEST_CASE("Gradient of what a branch captures") {
  // y and what it is taken by are outside, and only the names of the node say so.
  const char* sin_exp = R"(g (double x, double b) => (double y) { e = Exp(x) y = Sin(e) })";
  CheckByDifferences(sin_exp, R"(g (double x, double b) => (double d) {
    zero = Constant<value = double {0}>()  e = Exp(x)  y = Sin(e)  c = Greater(b, zero)
    d = If(c) <then_branch = t () => (double p) {
                 p = ai.onnx.preview.training.Gradient<xs = ["x"], y = "y">(x) },
               else_branch = f () => (double q) { q = Neg(b) }> })",
                     {0.3, 1});
  // The other branch gets the operands too, and captures some of its own.
  CheckByDifferences(sin_exp, R"(g (double x, double b) => (double d) {
    zero = Constant<value = double {0}>()  e = Exp(x)  y = Sin(e)  c = Less(b, zero)
    d = If(c) <then_branch = t () => (double p) { n = Mul(e, b)
                 p = ai.onnx.preview.training.Gradient<xs = ["e"], y = "y">(n) },
               else_branch = f () => (double q) {
                 q = ai.onnx.preview.training.Gradient<xs = ["x"], y = "y">(x) }> })",
                     {0.3, 1});
  // What is outside is between what is inside: y = sin(e x) with e = exp(x).
  const char* outer_inner = R"(g (double x, double b) => (double y) {
    e = Exp(x)  m = Mul(e, x)  y = Sin(m) })";
  CheckByDifferences(outer_inner, R"(g (double x, double b) => (double d) {
    e = Exp(x)  c = Greater(b, x)
    d = If(c) <then_branch = t () => (double p) { m = Mul(e, x)  y = Sin(m)
                 p = ai.onnx.preview.training.Gradient<xs = ["x"], y = "y">(x) },
               else_branch = f () => (double q) { q = Neg(b) }> })",
                     {0.3, 1});
  // By a value between: e is taken for independent, y = sin(e x) b.
  CheckByDifferences(R"(g (double e, double x, double b) => (double y) {
    m = Mul(e, x)  s = Sin(m)  y = Mul(s, b) })",
                     R"(g (double v, double x, double b) => (double d) {
    e = Exp(x)  c = Greater(b, x)  m = Mul(e, x)
    d = If(c) <then_branch = t () => (double p) { s = Sin(m)  y = Mul(s, b)
                 p = ai.onnx.preview.training.Gradient<xs = ["e"], zs = ["x"], y = "y">(v, x) },
               else_branch = f () => (double q) { q = Neg(b) }> })",
                     {0.3, 0.7, 2});
  // At another place, which the branch computes.
  CheckByDifferences(outer_inner, R"(g (double w, double b) => (double d) {
    one = Constant<value = double {1}>()  x = Add(w, one)
    e = Exp(x)  m = Mul(e, x)  y = Sin(m)  c = Greater(b, w)
    d = If(c) <then_branch = t () => (double p) { v = Sub(x, one)
                 p = ai.onnx.preview.training.Gradient<xs = ["x"], y = "y">(v) },
               else_branch = f () => (double q) { q = Neg(b) }> })",
                     {0.3, 1});
  // Two bodies deep, with a part of y in each.
  CheckByDifferences(R"(g (double x, double b) => (double y) {
    e = Exp(x)  m = Mul(e, b)  s = Sin(m)  y = Mul(s, x) })",
                     R"(g (double x, double b) => (double d) {
    e = Exp(x)  c = Greater(b, x)
    d = If(c) <then_branch = t () => (double p) { m = Mul(e, b)
                 p = If(c) <then_branch = tt () => (double pp) { s = Sin(m)  y = Mul(s, x)
                       pp = ai.onnx.preview.training.Gradient<xs = ["x"], y = "y">(x) },
                            else_branch = tf () => (double pq) { pq = Neg(m) }> },
               else_branch = f () => (double q) { q = Neg(b) }> })",
                     {0.3, 1});
  // y goes through control flow outside.
  CheckByDifferences(R"(g (double x, double b) => (double y) { y = Mul(x, x) })",
                     R"(g (double x, double b) => (double d) {
    c = Greater(b, x)
    y = If(c) <then_branch = yt () => (double p) { p = Mul(x, x) },
               else_branch = yf () => (double q) { q = Neg(x) }>
    d = If(c) <then_branch = t () => (double p) {
                 p = ai.onnx.preview.training.Gradient<xs = ["x"], y = "y">(x) },
               else_branch = f () => (double q) { q = Neg(b) }> })",
                     {0.3, 1});
}

TEST_CASE("Gradient of what the body of a loop captures") {
  // Three steps down the gradient of sin(exp(w)), which is named outside: x goes the same way.
  const auto step = [](const std::string& x, const std::string& d) {
    return " e" + d + " = Exp(" + x + ")  c" + d + " = Cos(e" + d + ")  " + d + " = Mul(c" + d +
           ", e" + d + ") ";
  };
  const Graph by_hand = ImportOnnxBytes(BytesOf(ModelOf(
      Training("g (double w) => (double x3) { " + step("w", "d0") + "x1 = Sub(w, d0)" +
               step("x1", "d1") + "x2 = Sub(x1, d1)" + step("x2", "d2") + "x3 = Sub(x2, d2) }"))));
  const std::string loop = R"(g (double w) => (double x) {
    e = Exp(w)  y = Sin(e)  n = Constant<value = int64 {3}>()
    x = Loop(n, , w) <body = b (int64 i, bool c, double s) => (bool k, double t) {
          k = Identity(c)
          d = ai.onnx.preview.training.Gradient<xs = ["w"], y = "y">(s)
          t = Sub(s, d) }> })";
  const Graph g = ImportOnnxBytes(BytesOf(ModelOf(Training(loop))));
  VerifyGraph(g);
  for (double w : {0.1, 0.4, -2.0}) CHECK(At(g, {w}) == doctest::Approx(At(by_hand, {w})));
}

TEST_CASE("Gradient that reaches back through iterations") {
  const auto loop = [](const std::string& before, const std::string& start,
                       const std::string& body) {
    return Training(
        "g (double x) => (double[3] out, double last) { "
        "n = Constant<value = int64 {3}>()  one = Constant<value = double {1}>()" +
        before + "  last, out = Loop(n, , " + start +
        ") <body = b (int64 i, bool c, double s) => (bool k, double t, double p) {"
        " k = Identity(c) " +
        body + " }> }");
  };
  const std::string d = " p = ai.onnx.preview.training.Gradient<xs = [\"x\"], y = \"y\">(x)";
  const auto refused = [&](const std::string& text) {
    CAPTURE(text);
    const Error e = ErrorOf(BytesOf(ModelOf(text)));
    CHECK(e.code() == ErrorCode::kUnsupported);
    CHECK(e.message().find("through earlier iterations") != std::string::npos);
  };
  refused(loop("", "x", "y = Mul(s, x)  t = Identity(s)" + d));
  refused(loop("e = Exp(x)", "e", "y = Mul(s, x)  t = Identity(s)" + d));
  refused(loop("e = Exp(x)", "one", "y = Mul(s, s)  t = Mul(s, e)" + d));
  // A branch in it does not hide the state.
  refused(loop("", "x", R"(t = Identity(s)  q = Greater(s, one)  p = If(q)
      <then_branch = a () => (double p1) { y = Mul(s, x)
         p1 = ai.onnx.preview.training.Gradient<xs = ["x"], y = "y">(x) },
       else_branch = b () => (double p2) { p2 = Neg(x) }>)"));
  const auto taken = [&](const std::string& text) {
    CAPTURE(text);
    return At(ImportOnnxBytes(BytesOf(ModelOf(text))), {3});
  };
  // States that do not depend on it are constants, whatever they are.
  CHECK(taken(loop("", "one", "y = Mul(s, x)  t = Add(s, s)" + d)) == 1);
  // Neither do those that only have a size of it.
  CHECK(taken(loop("z = Shape(x)  f = ConstantOfShape<value = double[1] {2}>(z)", "f",
                   "y = Mul(s, x)  t = Mul(s, s)" + d)) == 2);
  // y by the state itself, or one that is named.
  CHECK(taken(loop("", "x",
                   "y = Mul(s, s)  t = Identity(s)"
                   " p = ai.onnx.preview.training.Gradient<xs = [\"s\"], y = \"y\">(s)")) == 6);
}

TEST_CASE("Gradient of captured draws") {
  const Error e = ErrorOf(BytesOf(ModelOf(Training(R"(g (bool c, float x) => (float d) {
    r = RandomNormalLike(x)  y = Mul(r, x)  z = RandomNormalLike(y)  w = Mul(z, y)
    d = If(c) <then_branch = t () => (float p) {
                 p = ai.onnx.preview.training.Gradient<xs = ["x"], y = "w">(x) },
               else_branch = f () => (float q) { q = Neg(x) }> })"))));
  CHECK(e.code() == ErrorCode::kUnsupported);
  CHECK(e.message().find("gives another result when it runs again") != std::string::npos);
}

TEST_CASE("Gradient that names nothing, or has no rule") {
  const auto error = [](const std::string& node) {
    return ErrorOf(BytesOf(ModelOf(
        R"(<ir_version: 9, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>
           g (float[2] a) => (float[2] d) { n = Constant<value_ints = [1]>()  c = Mul(a, a)  )" +
        node + " }")));
  };
  CHECK(error(R"(d = ai.onnx.preview.training.Gradient<xs = ["a"], y = "e">(a))").code() ==
        ErrorCode::kInvalidModel);
  CHECK(error(R"(d = ai.onnx.preview.training.Gradient<xs = ["b"], y = "c">(a))").code() ==
        ErrorCode::kInvalidModel);
  CHECK(error(R"(d = ai.onnx.preview.training.Gradient<xs = ["a"], y = "c">(a, a))").code() ==
        ErrorCode::kArity);
  CHECK(error(R"(d = ai.onnx.preview.training.Gradient<xs = ["n"], y = "c">(n))").code() ==
        ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace weft::onnx_import
