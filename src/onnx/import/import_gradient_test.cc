// Gradient of ai.onnx.preview.training, by hand.
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
