/// attention_test.cc: weft::Attention: inference, and the interpreter against values computed by
/// numpy in double precision.
#include <limits>

#include "ops/util/op_test_util.h"
#include "weft/core/graph/graph_attr.h"

namespace weft::ops {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Shape ShapeOfRow(const std::vector<std::string>& inputs, const std::string& attrs = "") {
  const Graph g = Inferred(GraphOfRow(*Op::Get("weft::Attention"), inputs, attrs));
  CHECK(g.GetAttr<TypeMap>("dtype")[g.outputs[0]].dtype == DType::kF32);
  return g.GetAttr<ShapeMap>("shape")[g.outputs[0]];
}
ErrorCode ErrorOfRow(const std::vector<std::string>& inputs, const std::string& attrs = "") {
  return CodeOf([&] { ShapeOfRow(inputs, attrs); });
}

TEST_CASE("Attention: shapes") {
  CHECK(ShapeOfRow({"f32[3, 4]", "f32[5, 4]", "f32[5, 2]"}).ToString() == "[3, 2]");
  CHECK(ShapeOfRow({"f32[b, 8, t, 4]", "f32[b, 8, s, 4]", "f32[b, 8, s, 6]", "f32[b, 1, t, s]"})
            .ToString() == "[b, 8, t, 6]");
  CHECK(ShapeOfRow({"f32[b, t, 8, 4]", "f32[b, s, 8, 4]", "f32[b, s, 8, 6]"},
                   "q_perm = [0, 2, 1, 3], k_perm = [0, 2, 1, 3], v_perm = [0, 2, 1, 3], y_perm = "
                   "[2, 0, 1, 3]")
            .ToString() == "[t, b, 8, 6]");
  // Heads that share keys.
  CHECK(ShapeOfRow({"f32[2, 8, t, 4]", "f32[2, 1, s, 4]", "f32[1, 8, s, 6]"}).ToString() ==
        "[2, 8, t, 6]");
  CHECK(ShapeOfRow({"f32[2, 3]", "f32[4, 3]", "f32[4, 5]", "f32[]"}).ToString() == "[2, 5]");
}

TEST_CASE("Attention: what it refuses") {
  CHECK(ErrorOfRow({"f32[3]", "f32[3]", "f32[3]"}) == ErrorCode::kShapeMismatch);
  CHECK(ErrorOfRow({"f32[2, 3]", "f32[1, 4, 3]", "f32[4, 3]"}) == ErrorCode::kShapeMismatch);
  CHECK(ErrorOfRow({"f32[2, 3]", "f32[4, 5]", "f32[4, 3]"}) == ErrorCode::kShapeMismatch);
  CHECK(ErrorOfRow({"f32[2, 3]", "f32[4, 3]", "f32[5, 3]"}) == ErrorCode::kShapeMismatch);
  CHECK(ErrorOfRow({"f32[2, 2, 3]", "f32[3, 4, 3]", "f32[2, 4, 3]"}) == ErrorCode::kShapeMismatch);
  // A mask may not make the scores larger.
  CHECK(ErrorOfRow({"f32[2, 3]", "f32[4, 3]", "f32[4, 3]", "f32[2, 5]"}) ==
        ErrorCode::kShapeMismatch);
  CHECK(ErrorOfRow({"f32[2, 3]", "f32[4, 3]", "f32[4, 3]", "f32[6, 2, 4]"}) ==
        ErrorCode::kShapeMismatch);
  CHECK(ErrorOfRow({"f32[2, 3]", "f32[4, 3]", "f32[4, 3]"}, "q_perm = [0, 0]") ==
        ErrorCode::kBadAttribute);
  CHECK(ErrorOfRow({"f32[2, 3]", "f32[4, 3]", "f32[4, 3]"}, "y_perm = [0, 2, 1]") ==
        ErrorCode::kShapeMismatch);
  CHECK(ErrorOfRow({"f32[2, 3]", "f64[4, 3]", "f32[4, 3]"}) == ErrorCode::kTypeMismatch);
  CHECK(ErrorOfRow({"i32[2, 3]", "i32[4, 3]", "i32[4, 3]"}) == ErrorCode::kTypeMismatch);
}

TEST_CASE("Attention: values") {
  const TensorPtr q = T(DType::kF64, {2, 2}, {1, 2, -1, 0.5}),
                  k = T(DType::kF64, {3, 2}, {0.5, -1, 2, 1, 0, 3}),
                  v = T(DType::kF64, {3, 2}, {1, 10, 2, 20, 3, 30});
  const auto near = [](const TensorPtr& y, const std::vector<double>& want) {
    REQUIRE(y->num_elements() == int64_t(want.size()));
    for (size_t i = 0; i < want.size(); ++i)
      CHECK(y->at(int64_t(i)) == doctest::Approx(want[i]).epsilon(1e-12));
  };
  near(RunOp("weft::Attention", {q, k, v})[0],
       {2.879881284228325, 28.798812842283247, 2.810970628346446, 28.109706283464465});
  near(RunOp("weft::Attention", {q, k, v, T(DType::kF64, {2, 3}, {0.0, 1.5, -1.0, 2.0, 0.0, 0.0})},
             {{"scale", 0.25}})[0],
       {2.0662211449694463, 20.66221144969446, 1.455530611223134, 14.55530611223134});
  // Stored [t, h, d], [h, d, s], [s, 1, e] and [t, h, e].
  near(RunOp("weft::Attention",
             {T(DType::kF64, {3, 2, 2},
                {-0.65, -0.13, 0.78, 1.49, -1.26, 1.51, 1.35, 0.78, 0.26, -0.31, 1.46, 1.96}),
              T(DType::kF64, {2, 2, 4},
                {1.8, 1.32, 0.36, -1.21, -0.0, 0.66, -1.29, 0.4, 0.43, 0.7, -1.18, -0.66, -0.44,
                 -1.17, 1.74, -0.5}),
              T(DType::kF64, {4, 1, 2}, {0.33, -0.26, 1.58, 1.32, 0.63, -2.2, 0.05, 0.68}),
              T(DType::kF64, {4}, {0.0, -1.0, 0.5, 2.0})},
             {{"scale", 0.5},
              {"q_perm", Ints{1, 0, 2}},
              {"k_perm", Ints{0, 2, 1}},
              {"v_perm", Ints{1, 0, 2}},
              {"y_perm", Ints{1, 0, 2}}})[0],
       {0.15974964744632303, 0.299121797752274, 0.36319896173712635, -0.6421948263349356,
        0.08471881031203943, 0.6105442889400893, 0.3032600707044899, -0.054657873068240284,
        0.27479151325985296, -0.0428015416105137, 0.4091742182797567, -0.8435081566946439});
}

TEST_CASE("Attention: hidden rows, no keys") {
  const TensorPtr q = T(DType::kF64, {2, 1}, {1, 2}), k = T(DType::kF64, {2, 1}, {3, 4}),
                  v = T(DType::kF64, {2, 1}, {5, 7});
  const TensorPtr y =
      RunOp("weft::Attention", {q, k, v, T(DType::kF64, {2, 2}, {-kInf, -kInf, 0, -kInf})})[0];
  CHECK(std::isnan(y->at(0)));
  CHECK(y->at(1) == 5);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {-kInf, nan, kInf}) {
    const TensorPtr mask = T(DType::kF64, {2, 2}, {bad, bad == -kInf ? bad : 0, 0, -kInf});
    const TensorPtr safe = RunOp("weft::Attention", {q, k, v, mask}, {{"safe", 1}})[0];
    CHECK(Values(*safe) == std::vector<double>{0, 5});
  }
  const TensorPtr none =
      RunOp("weft::Attention", {q, T(DType::kF64, {0, 1}, {}), T(DType::kF64, {0, 1}, {})})[0];
  CHECK(Values(*none) == std::vector<double>{0, 0});
}

TEST_CASE("Attention: operations") {
  const Graph g = Inferred(GraphOfRow(
      *Op::Get("weft::Attention"), {"f32[2, t, 3, 4]", "f32[2, s, 3, 4]", "f32[2, s, 3, 5]"},
      "q_perm = [0, 2, 1, 3], k_perm = [0, 2, 1, 3], v_perm = [0, 2, "
      "1, 3], y_perm = [0, 2, 1, 3]"));
  const NodePtr n = g.outputs[0].node;
  std::vector<Shape> in;
  for (const NodeEntry& e : n->inputs) in.push_back(g.GetAttr<ShapeMap>("shape")[e]);
  const SymInt flops =
      Op::GetAttr<FFlops>("FFlops")[n->op()](n, in, {g.GetAttr<ShapeMap>("shape")[g.outputs[0]]});
  // 6 squares of t by s: 2 (4 + 5) for the products, 5 for the rest.
  CHECK(flops == SymInt::Symbol("t") * SymInt::Symbol("s") * 6 * 23);
}

}  // namespace
}  // namespace weft::ops
