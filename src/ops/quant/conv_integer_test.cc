/// conv_integer_test.cc: convolutions of integers against plain loops.
#include <algorithm>

#include "ops/util/op_test_util.h"

namespace weft::ops {
namespace {

using Ns = std::vector<int64_t>;

TensorPtr Bytes(DType t, Ns dims, int64_t step) {
  auto x = std::make_shared<Tensor>(t, std::move(dims));
  for (int64_t i = 0; i < x->num_elements(); ++i) x->set_int(i, (i * step + 7) % 256);
  return x;
}
TensorPtr One(DType t, double v) { return Tensor::Scalar(t, v); }

/// The sums of [1, C, H, W] with [M, C / group, K, K], padded on all sides, without their zeros.
std::vector<int64_t> Sums(const Tensor& x, const Tensor& w, int64_t x_zero, const Ns& w_zero,
                          int64_t pad, int64_t stride, int64_t group) {
  const Ns &xd = x.dims(), &wd = w.dims();
  const int64_t out_h = (xd[2] + 2 * pad - wd[2]) / stride + 1;
  const int64_t out_w = (xd[3] + 2 * pad - wd[3]) / stride + 1;
  std::vector<int64_t> sums;
  for (int64_t m = 0; m < wd[0]; ++m)
    for (int64_t i = 0; i < out_h; ++i)
      for (int64_t j = 0; j < out_w; ++j) {
        int64_t sum = 0;
        for (int64_t c = 0; c < wd[1]; ++c)
          for (int64_t u = 0; u < wd[2]; ++u)
            for (int64_t v = 0; v < wd[3]; ++v) {
              const int64_t y = i * stride + u - pad, z = j * stride + v - pad;
              if (y < 0 || y >= xd[2] || z < 0 || z >= xd[3]) continue;
              const int64_t channel = m / (wd[0] / group) * wd[1] + c;
              sum += (x.at_int((channel * xd[2] + y) * xd[3] + z) - x_zero) *
                     (w.at_int(((m * wd[1] + c) * wd[2] + u) * wd[3] + v) - w_zero[size_t(m)]);
            }
        sums.push_back(sum);
      }
  return sums;
}

}  // namespace

TEST_CASE("ConvInteger sums the products of what is left of its zeros; padding adds nothing") {
  for (const DType xt : {DType::kU8, DType::kI8}) {
    for (const DType wt : {DType::kU8, DType::kI8}) {
      const TensorPtr x = Bytes(xt, {1, 4, 5, 6}, 37), w = Bytes(wt, {6, 2, 3, 3}, 91);
      auto w_zero = std::make_shared<Tensor>(wt, Ns{6});
      Ns zeros;
      for (int64_t m = 0; m < 6; ++m) {
        w_zero->set_int(m, 3 * m + 1);
        zeros.push_back(3 * m + 1);
      }
      const AttrDict attrs{
          {"pads", Ints({1, 1, 1, 1})}, {"strides", Ints({2, 2})}, {"group", int64_t{2}}};
      const TensorPtr y = RunOp("ConvInteger", {x, w, One(xt, 5), w_zero}, attrs)[0];
      REQUIRE(y->dims() == Ns{1, 6, 3, 3});
      const auto want = Sums(*x, *w, 5, zeros, 1, 2, 2);
      for (int64_t i = 0; i < y->num_elements(); ++i) CHECK(y->at_int(i) == want[size_t(i)]);
      const TensorPtr plain = RunOp("ConvInteger", {x, w}, attrs)[0];
      const auto without = Sums(*x, *w, 0, Ns(6, 0), 1, 2, 2);
      for (int64_t i = 0; i < y->num_elements(); ++i) CHECK(plain->at_int(i) == without[size_t(i)]);
    }
  }
}

TEST_CASE("QLinearConv scales its sums, rounds ties to even and saturates") {
  const TensorPtr x = Bytes(DType::kU8, {1, 2, 4, 4}, 37), w = Bytes(DType::kI8, {3, 2, 3, 3}, 91);
  const TensorPtr w_scale = F32({0.5, 0.25, 2}), bias = T(DType::kI32, {3}, {100, -50, 7});
  auto w_zero = std::make_shared<Tensor>(DType::kI8, Ns{3});
  for (const double y_scale : {0.5, 64.0, 1024.0}) {
    const TensorPtr y = RunOp("QLinearConv",
                              {x, One(DType::kF32, 0.125), One(DType::kU8, 9), w, w_scale, w_zero,
                               One(DType::kF32, y_scale), One(DType::kI8, -3), bias},
                              {{"pads", Ints({1, 1, 1, 1})}})[0];
    REQUIRE(y->dtype() == DType::kI8);
    const auto sums = Sums(*x, *w, 9, {0, 0, 0}, 1, 1, 1);
    for (int64_t i = 0; i < y->num_elements(); ++i) {
      const size_t m = size_t(i / 16);
      // Scales are powers of two: the product is exact.
      const double scaled = double(sums[size_t(i)] + bias->at_int(int64_t(m))) * 0.125 *
                            w_scale->at(int64_t(m)) / y_scale;
      CHECK(y->at(i) == std::clamp(std::nearbyint(scaled) - 3, -128.0, 127.0));
    }
  }
}

TEST_CASE("operations of products of integers: two for each multiplication") {
  const auto flops = [](const char* op, const std::vector<std::string>& types, const char* attrs) {
    const Graph g = Inferred(GraphOfRow(*Op::Get(op), types, attrs));
    const NodePtr n = g.outputs[0].node;
    std::vector<Shape> in;
    for (const NodeEntry& e : n->inputs)
      in.push_back(e.node ? g.GetAttr<ShapeMap>("shape")[e] : Shape());
    return Op::GetAttr<FFlops>("FFlops")[n->op()](n, in,
                                                  {g.GetAttr<ShapeMap>("shape")[g.outputs[0]]});
  };
  // 3 by 3 results of 4 filters over 3 of 6 channels, 2 by 2 each.
  CHECK(flops("weft::QuantizedConv", {"u8[2, 6, 4, 4]", "i8[4, 3, 2, 2]", "f32[]"},
              "group = 2, to = f32") == SymInt(2 * 4 * 9 * 12 * 2));
  CHECK(flops("weft::QuantizedMatMul", {"u8[5, 2, 3]", "i8[3, n]", "f32[]"}, "to = f32") ==
        SymInt::Symbol("n") * 60);
  CHECK(flops("weft::QuantizedMatMul", {"u8[2, 3]", "i8[3]", "f32[]"}, "to = f32") == SymInt(12));
}

TEST_CASE("operands of a convolution of integers that do not fit are refused") {
  const TensorPtr x = Bytes(DType::kU8, {1, 2, 4, 4}, 3), w = Bytes(DType::kI8, {3, 2, 3, 3}, 5);
  CHECK(CodeOf([&] {
          RunOp("ConvInteger", {x, w, One(DType::kI8, 1)});
        }) == ErrorCode::kTypeMismatch);
  CHECK(CodeOf([&] {
          RunOp("ConvInteger", {x, w, T(DType::kU8, {2}, {1, 2})});
        }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] {
          RunOp("ConvInteger", {x, w, nullptr, T(DType::kI8, {2}, {1, 2})});
        }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] { RunOp("ConvInteger", {F32({1}), w}); }) == ErrorCode::kTypeMismatch);
  CHECK(CodeOf([&] {
          RunOp("ConvInteger", {x, Bytes(DType::kI8, {3, 1, 3, 3}, 5)});
        }) == ErrorCode::kShapeMismatch);
}

}  // namespace weft::ops
