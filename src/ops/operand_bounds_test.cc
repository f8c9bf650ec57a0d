/// operand_bounds_test.cc: operands that do not fit one another or reach far outside, and what only
/// the run knows about their extents: refused or answered, never read past.
#include <cmath>

#include "ops/util/op_test_util.h"

namespace weft::ops {
namespace {

TensorPtr I64s(std::vector<int64_t> dims, const std::vector<double>& v) {
  return T(DType::kI64, std::move(dims), v);
}

}  // namespace

TEST_CASE("scales and zeros that do not fit what they scale are refused") {
  const auto code = [](const std::string& op, const Tensors& in, AttrDict attrs = {}) {
    return CodeOf([&] { RunOp(op, in, std::move(attrs)); });
  };
  const auto f32 = [](std::vector<int64_t> dims) {
    int64_t count = 1;
    for (const int64_t d : dims) count *= d;
    return T(DType::kF32, std::move(dims), std::vector<double>(size_t(count), 1));
  };
  const auto u8 = [](std::vector<int64_t> dims) {
    int64_t count = 1;
    for (const int64_t d : dims) count *= d;
    return T(DType::kU8, std::move(dims), std::vector<double>(size_t(count), 1));
  };
  const AttrDict first{{"axis", int64_t{0}}};
  const AttrDict blocks{{"axis", int64_t{0}}, {"block_size", int64_t{2}}};
  CHECK(code("QuantizeLinear", {f32({6}), f32({2})}, first) == ErrorCode::kShapeMismatch);
  CHECK(code("QuantizeLinear", {f32({6, 3}), f32({6}), u8({2})}, first) ==
        ErrorCode::kShapeMismatch);
  CHECK(code("QuantizeLinear", {f32({6, 3}), f32({3, 1})}, blocks) == ErrorCode::kShapeMismatch);
  CHECK(code("QuantizeLinear", {f32({6, 3}), f32({2, 3})}, blocks) == ErrorCode::kShapeMismatch);
  CHECK(code("DequantizeLinear", {u8({6}), f32({2})}, first) == ErrorCode::kShapeMismatch);
  CHECK(code("MatMulInteger", {u8({6, 3}), u8({3, 4}), u8({5})}) == ErrorCode::kShapeMismatch);
  CHECK(code("MatMulInteger", {u8({6, 3}), u8({3, 4}), u8({6, 3})}) == ErrorCode::kShapeMismatch);
  CHECK(code("QLinearMatMul", {u8({6, 3}), f32({2}), u8({2}), u8({3, 4}), f32({}), u8({}), f32({}),
                               u8({})}) == ErrorCode::kShapeMismatch);
  // Near misses: whole blocks, a last block that is shorter, a zero for each row.
  CHECK(Values(*RunOp("QuantizeLinear", {f32({6, 1}), f32({3, 1})}, blocks)[0]) ==
        std::vector<double>(6, 1));
  CHECK(Values(*RunOp("QuantizeLinear", {f32({5}), f32({3})}, blocks)[0]) ==
        std::vector<double>(5, 1));
  CHECK(Values(*RunOp("MatMulInteger", {u8({2, 3}), u8({3, 2}), u8({2})})[0]) ==
        std::vector<double>(4, 0));
  CHECK(Values(*RunOp("MatMulInteger", {u8({2, 3}), u8({3, 2}), u8({2, 1})})[0]) ==
        std::vector<double>(4, 0));
}

TEST_CASE("DFT of a signal whose last extent is a symbol has both parts") {
  Graph g = ParseGraph("weft 1\ngraph <p>(%x: f64[1, 2, p]) -> (%y) {\n  %y = DFT(%x) : ?\n}\n");
  const auto run = [&](std::vector<double> v) {
    const auto x = T(DType::kF64, {1, 2, int64_t(v.size()) / 2}, v);
    return Values(*Reference().Eval(g, {x})[0]);
  };
  const auto near = [](const std::vector<double>& a, const std::vector<double>& b) {
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) CHECK(std::fabs(a[i] - b[i]) < 1e-12);
  };
  near(run({1, 2, 3, 5}), {4, 7, -2, -3});
  near(run({1, 3}), {4, 0, -2, 0});
  const auto bad = [](const std::string& op, const Tensors& in) {
    return CodeOf([&] { RunOp(op, in); });
  };
  const auto signal = T(DType::kF64, {1, 4, 1}, {1, 2, 3, 4});
  const auto window = F64({1, 1, 1});
  CHECK(bad("DFT", {T(DType::kF64, {1, 1, 3}, {1, 2, 3})}) == ErrorCode::kShapeMismatch);
  Graph stft = ParseGraph(
      "weft 1\ngraph (%x: f64[1, 4, 1], %w: f64[3]) -> (%y) {\n"
      "  %s = Constant() {value = tensor i64[] [2]} : ?\n"
      "  %l = Constant() {value = tensor i64[] [4]} : ?\n"
      "  %y = STFT(%x, %s, %w, %l) : ?\n}\n");
  CHECK(CodeOf([&] { Reference().Eval(stft, {signal, window}); }) == ErrorCode::kShapeMismatch);
  Graph back = ParseGraph(
      "weft 1\ngraph (%x: f64[1, 4, 1], %w: f64[3]) -> (%y) {\n"
      "  %s = Constant() {value = tensor i64[] [-2]} : ?\n  %y = STFT(%x, %s, %w) : ?\n}\n");
  CHECK(CodeOf([&] { Inferred(back); }) == ErrorCode::kShapeMismatch);
}

TEST_CASE("the bound of NonMaxSuppression may be the largest integer") {
  const TensorPtr boxes = T(DType::kF32, {1, 2, 4}, {0, 0, 1, 1, 5, 5, 6, 6});
  const TensorPtr scores = T(DType::kF32, {1, 1, 2}, {0.2, 0.9});
  auto most = std::make_shared<Tensor>(DType::kI64, std::vector<int64_t>{1});
  most->set_int(0, INT64_MAX);
  CHECK(Values(*RunOp("NonMaxSuppression", {boxes, scores, most})[0]) ==
        std::vector<double>{0, 0, 1, 0, 0, 0});
}

TEST_CASE("MelWeightMatrix walks the rows that exist, wherever its edges are") {
  const auto mel = [](double low, double high, int64_t rate) {
    return RunOp("MelWeightMatrix", {I64s({}, {2}), I64s({}, {8}), I64s({}, {double(rate)}),
                                     T(DType::kF32, {}, {low}), T(DType::kF32, {}, {high})})[0];
  };
  CHECK(mel(0, 1e12, 1)->dims() == std::vector<int64_t>{5, 2});
  CHECK(CodeOf([&] { mel(0, 1e30, 1); }) == ErrorCode::kBadInput);
  CHECK(CodeOf([&] {
          RunOp("MelWeightMatrix", {I64s({0}, {}), I64s({}, {8}), I64s({}, {1}),
                                    T(DType::kF32, {}, {0}), T(DType::kF32, {}, {1})});
        }) == ErrorCode::kShapeMismatch);
}

TEST_CASE("half_pixel_symmetric hits whole positions exactly") {
  // Positions 1, 3 and 5: an adjustment that is rounded twice gives a little
  // more, which `ceil` sees.
  Graph g = ParseGraph(
      "weft 1\ngraph (%x: f32[7]) -> (%y) {\n"
      "  %s = Constant() {value = tensor f32[1] [0.5]} : ?\n"
      "  %y = Resize(%x, _, %s) {coordinate_transformation_mode = \"half_pixel_symmetric\", "
      "nearest_mode = \"ceil\"} : ?\n}\n");
  CHECK(Values(*Reference().Eval(g, {F32({0, 1, 2, 3, 4, 5, 6})})[0]) ==
        std::vector<double>{1, 3, 5});
}

TEST_CASE("interpolation along many axes is refused before its reads are written out") {
  const std::vector<int64_t> ones(16, 1);
  std::vector<int64_t> grid = ones;
  grid.back() = 14;
  const auto filled = [](std::vector<int64_t> dims, double v) {
    int64_t count = 1;
    for (const int64_t d : dims) count *= d;
    return T(DType::kF32, std::move(dims), std::vector<double>(size_t(count), v));
  };
  const TensorPtr x = filled(ones, 1);
  CHECK(CodeOf([&] {
          RunOp("Resize", {x, nullptr, filled({16}, 2)}, {{"mode", "cubic"}});
        }) == ErrorCode::kLimit);
  CHECK(CodeOf([&] {
          RunOp("GridSample", {x, filled(grid, 0)}, {{"mode", "cubic"}});
        }) == ErrorCode::kLimit);
  // One element an axis costs nothing, and images are far from the bound.
  CHECK(RunOp("GridSample", {x, filled(grid, 0)}, {{"mode", "nearest"}})[0]->at(0) == 1);
  Graph g = ParseGraph(
      "weft 1\ngraph (%x: f32[1, 1, 1, 1]) -> (%y) {\n"
      "  %s = Constant() {value = tensor f32[4] [1, 1, 2, 2]} : ?\n"
      "  %y = Resize(%x, _, %s) {mode = \"cubic\"} : ?\n}\n");
  CHECK(Values(*Reference().Eval(g, {filled({1, 1, 1, 1}, 1)})[0]) == std::vector<double>(4, 1));
}

TEST_CASE("images without elements") {
  const TensorPtr none = T(DType::kF32, {1, 1, 0, 2}, {});
  Graph g = ParseGraph(
      "weft 1\ngraph (%x: f32[1, 1, 0, 2]) -> (%y) {\n"
      "  %s = Constant() {value = tensor i64[4] [1, 1, 3, 2]} : ?\n  %y = Resize(%x, _, _, %s) : "
      "?\n}\n");
  CHECK(CodeOf([&] { Inferred(g); }) == ErrorCode::kShapeMismatch);
  const TensorPtr grid = T(DType::kF32, {1, 1, 1, 2}, {0, 0});
  CHECK(CodeOf([&] {
          RunOp("GridSample", {none, grid}, {{"padding_mode", "border"}});
        }) == ErrorCode::kShapeMismatch);
  CHECK(RunOp("GridSample", {none, grid})[0]->at(0) == 0);
  // A sample at -1/2 is within an element of where the image would begin.
  const TensorPtr roi = T(DType::kF32, {1, 4}, {0, 0, 0.5, 0.5});
  for (const char* mode : {"avg", "max"})
    CHECK(RunOp("RoiAlign", {none, roi, I64s({1}, {0})},
                {{"mode", mode}, {"sampling_ratio", int64_t{1}}})[0]
              ->at(0) == 0);
}

}  // namespace weft::ops
