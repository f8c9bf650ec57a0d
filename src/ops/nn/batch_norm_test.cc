/// batch_norm_test.cc: BatchNormalization in training, weft::Moments, weft::Normalize.
#include "ops/util/op_test_util.h"

using namespace weft;
using namespace weft::ops;

namespace {

/// Repeatable values in [-1, 1].
TensorPtr Noise(DType t, std::vector<int64_t> dims, double scale = 1, double shift = 0,
                uint64_t seed = 1) {
  auto x = std::make_shared<Tensor>(t, std::move(dims));
  uint64_t s = seed * 0x9e3779b97f4a7c15u;
  for (int64_t i = 0; i < x->num_elements(); ++i) {
    s = s * 6364136223846793005u + 1442695040888963407u;
    x->set(i, shift + scale * (double(s >> 40) / double(1 << 23) - 1));
  }
  return x;
}

struct ChannelStats {
  std::vector<double> mean, var;
};
/// In double, the definition: channel = axis 1.
ChannelStats StatsOf(const Tensor& x) {
  const int64_t channels = x.dims()[1];
  int64_t inner = 1;
  for (size_t k = 2; k < x.dims().size(); ++k) inner *= x.dims()[k];
  const double count = double(x.num_elements() / channels);
  ChannelStats s{std::vector<double>(size_t(channels)), std::vector<double>(size_t(channels))};
  for (int64_t i = 0; i < x.num_elements(); ++i)
    s.mean[size_t(i / inner % channels)] += x.at(i) / count;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const size_t c = size_t(i / inner % channels);
    s.var[c] += (x.at(i) - s.mean[c]) * (x.at(i) - s.mean[c]) / count;
  }
  return s;
}

}  // namespace

TEST_CASE("Moments: mean and population variance over any axes") {
  const TensorPtr x = Noise(DType::kF64, {3, 4, 5}, 2, 1);
  for (const std::vector<int64_t>& axes :
       {std::vector<int64_t>{0, 2}, {1}, {-1}, {0, 1, 2}, {2, 0}}) {
    const Tensors got = RunOp("weft::Moments", {x, Tensor::Ints(axes)}, {}, false);
    const TensorPtr mean = RunOp("ReduceMean", {x, Tensor::Ints(axes)}, {}, false)[0];
    const TensorPtr d = RunOp("Sub", {x, mean}, {}, false)[0];
    const TensorPtr square = RunOp("Mul", {d, d}, {}, false)[0];
    const TensorPtr var = RunOp("ReduceMean", {square, Tensor::Ints(axes)}, {}, false)[0];
    CHECK(CompareTensors(*got[0], *mean, 1e-12, 1e-13) <= 1);
    CHECK(CompareTensors(*got[1], *var, 1e-12, 1e-13) <= 1);
  }
  const Tensors none = RunOp("weft::Moments", {x, Tensor::Ints({})});
  CHECK(Values(*none[0]) == Values(*x));
  for (double v : Values(*none[1])) CHECK(v == 0);
  // f16 gives f32; constants have variance 0; nothing has no mean.
  const Tensors half =
      RunOp("weft::Moments", {T(DType::kF16, {2, 2}, {1, 2, 5, 5}), Tensor::Ints({1})});
  CHECK(half[0]->dtype() == DType::kF32);
  CHECK(Values(*half[0]) == std::vector<double>{1.5, 5});
  CHECK(Values(*half[1]) == std::vector<double>{0.25, 0});
  const Tensors empty = RunOp("weft::Moments", {T(DType::kF32, {0, 2}, {}), Tensor::Ints({0})});
  CHECK(empty[0]->dims() == std::vector<int64_t>{1, 2});
  CHECK(std::isnan(empty[0]->at(0)));
  CHECK(std::isnan(empty[1]->at(1)));
  CHECK(CodeOf([&] {
          RunOp("weft::Moments", {x, Tensor::Ints({3})});
        }) == ErrorCode::kBadAttribute);
  CHECK(CodeOf([&] {
          RunOp("weft::Moments", {x, Tensor::Ints({1, -2})});
        }) == ErrorCode::kBadAttribute);
  CHECK(CodeOf([&] { RunOp("weft::Moments", {F32({1}), F32({0})}); }) == ErrorCode::kTypeMismatch);
}

TEST_CASE("Moments: f32 over 65,536 elements is the double result to 1e-5") {
  // Far from 0 the sums lose most: distances to elements do not.
  for (double shift : {0.0, 3.0, 300.0, 1e4}) {
    CAPTURE(shift);
    const TensorPtr x = Noise(DType::kF32, {64, 2, 32, 32}, 1, shift);
    const Tensors got = RunOp("weft::Moments", {x, Tensor::Ints({0, 2, 3})});
    const ChannelStats want = StatsOf(*x);
    for (int64_t c = 0; c < 2; ++c) {
      CHECK(std::fabs(got[0]->at(c) - want.mean[size_t(c)]) <= 1e-5 * std::max(1.0, shift));
      CHECK(got[1]->at(c) == doctest::Approx(want.var[size_t(c)]).epsilon(1e-5));
    }
  }
}

TEST_CASE("Moments: mean and rest hold the mean to twice the digits") {
  const TensorPtr x = Noise(DType::kF32, {2, 3, 500}, 1, 1e6);
  const Tensors got = RunOp("weft::Moments", {x, Tensor::Ints({0, 2})});
  const ChannelStats want = StatsOf(*x);
  for (int64_t c = 0; c < 3; ++c) {
    CHECK(std::fabs(got[0]->at(c) + got[2]->at(c) - want.mean[size_t(c)]) <= 1e-5);
    CHECK(got[0]->at(c) == double(float(got[0]->at(c) + got[2]->at(c))));
    CHECK(got[1]->at(c) == doctest::Approx(want.var[size_t(c)]).epsilon(1e-5));
  }
}

TEST_CASE("Normalize: operands that broadcast, dtypes, errors") {
  const TensorPtr x = T(DType::kF64, {2, 2}, {1, 2, 3, 5}), mean = T(DType::kF64, {2, 1}, {1.5, 4}),
                  var = T(DType::kF64, {2, 1}, {0.25, 1}), scale = F64({2, 1}), bias = F64({0, 1});
  const AttrDict exact{{"epsilon", 0.0}};
  const TensorPtr y = RunOp("weft::Normalize", {x, mean, var, scale, bias}, exact, false)[0];
  CHECK(CompareTensors(*y, *T(DType::kF64, {2, 2}, {-2, 2, -2, 2}), 1e-12, 1e-12) <= 1);
  const auto cast = [](const TensorPtr& t, DType to) { return T(to, t->dims(), Values(*t)); };
  const DType f = DType::kF32;
  const TensorPtr half = RunOp(
      "weft::Normalize",
      {cast(x, DType::kF16), cast(mean, f), cast(var, f), cast(scale, f), cast(bias, f)}, exact)[0];
  CHECK(half->dtype() == DType::kF16);
  CHECK(CompareTensors(*half, *T(DType::kF16, {2, 2}, {-2, 2, -2, 2}), 1e-3, 1e-3) <= 1);
  CHECK(CodeOf([&] {
          RunOp("weft::Normalize", {F64({1, 2}), mean, var, scale, bias});
        }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] {
          RunOp("weft::Normalize", {x, cast(mean, f), var, scale, bias});
        }) == ErrorCode::kTypeMismatch);
  CheckGradient("weft::Normalize", {Noise(DType::kF64, {2, 3, 2}), Noise(DType::kF64, {3, 1}),
                                    Noise(DType::kF64, {3, 1}, 0.4, 1), Noise(DType::kF64, {3, 1}),
                                    Noise(DType::kF64, {2})});
  CheckGradient("weft::Normalize",
                {Noise(DType::kF64, {4}), F64({0.3}), F64({0.7}), F64({2}), F64({1})});
}

TEST_CASE("Moments: gradient of both results") {
  const TensorPtr x = Noise(DType::kF64, {2, 3, 4});
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{0, 2}, {1}, {}}) {
    CheckGradient("weft::Moments", {x, Tensor::Ints(axes)});
    Graph g = GraphOfOp("weft::Moments", {x, Tensor::Ints(axes)});
    const NodePtr n = g.outputs[0].node;
    const NodeEntry seed(g.AddInput("dv", DType::kF64, Shape()));
    const auto grads = Op::GetAttr<FGradient>("FGradient")[n->op()](n, {NodeEntry(), seed});
    g.outputs = std::vector<NodeEntry>{grads[0]};
    const auto var = [&](const TensorPtr& at) {
      return RunOp("weft::Moments", {at, Tensor::Ints(axes)}, {}, false)[1];
    };
    const TensorPtr dv = Noise(DType::kF64, var(x)->dims(), 1, 0, 5);
    EvalOptions options;
    options.typed = false;
    const TensorPtr dx = Reference().Eval(g, {x, Tensor::Ints(axes), dv}, options)[0];
    REQUIRE(dx->dims() == x->dims());
    for (int64_t i = 0; i < x->num_elements(); ++i) {
      double sides[2];
      for (int side : {0, 1}) {
        std::vector<double> values = Values(*x);
        values[size_t(i)] += side ? 1e-6 : -1e-6;
        const TensorPtr moved = T(DType::kF64, x->dims(), values);
        const TensorPtr v = var(moved);
        sides[side] = 0;
        for (int64_t k = 0; k < v->num_elements(); ++k) sides[side] += v->at(k) * dv->at(k);
      }
      CHECK(dx->at(i) == doctest::Approx((sides[1] - sides[0]) / 2e-6).epsilon(1e-5).scale(0.01));
    }
  }
}

TEST_CASE("training BatchNormalization: ranks, dtypes, momentum, the population variance") {
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{4, 3}, {3, 3, 2}, {2, 3, 2, 2}, {2, 3, 1, 2, 2}, {5, 3, 0}}) {
    const TensorPtr x = Noise(DType::kF64, dims, 2, 0.5);
    const TensorPtr scale = Noise(DType::kF64, {3}, 1, 0, 2),
                    bias = Noise(DType::kF64, {3}, 1, 0, 3), mean = F64({0.5, -1, 2}),
                    var = F64({1, 2, 0.5});
    for (double momentum : {0.9, 0.0, 1.0}) {
      const AttrDict attrs{{"training_mode", 1}, {"momentum", momentum}};
      const Tensors y = RunOp("BatchNormalization", {x, scale, bias, mean, var}, attrs, false);
      REQUIRE(y.size() == 3);
      if (x->num_elements() == 0) continue;
      const ChannelStats s = StatsOf(*x);
      for (int64_t c = 0; c < 3; ++c) {
        // PyTorch's running_var would take n / (n - 1) times this variance.
        CHECK(y[1]->at(c) ==
              doctest::Approx(momentum * mean->at(c) + (1 - momentum) * s.mean[size_t(c)]));
        CHECK(y[2]->at(c) ==
              doctest::Approx(momentum * var->at(c) + (1 - momentum) * s.var[size_t(c)]));
      }
    }
    if (x->num_elements() > 0)
      CheckGradient("BatchNormalization", {x, scale, bias, mean, var},
                    {{"training_mode", 1}, {"epsilon", 0.01}});
  }
}

TEST_CASE("training BatchNormalization: the rewritten form is the operator") {
  // Rank 1 stays; the others become Moments and Normalize, outputs of the same dtypes.
  struct Row {
    const char *x, *vector, *stats;
    bool rewritten;
  };
  for (const Row& row :
       {Row{"f32[4, 3, 2]", "f32", "f32", true}, Row{"f16[6, 3]", "f16", "f32", true},
        Row{"f32[n, 3, 5, 5]", "f32", "f64", true}, Row{"bf16[2, 3, 4]", "bf16", "bf16", true}}) {
    CAPTURE(row.x);
    const std::string v = std::string(row.vector) + "[3]", s = std::string(row.stats) + "[3]";
    const Graph g =
        Inferred(ParseGraph("weft 1\ngraph @g(%x: " + std::string(row.x) + ", %s: " + v +
                            ", %b: " + v + ", %m: " + s + ", %v: " + s +
                            ") -> (%y, %p, %q) {\n  %y, %p, %q = BatchNormalization(%x, %s, %b, "
                            "%m, %v) {training_mode = 1, momentum = 0.7} : ?, ?, ?\n}\n"));
    const Graph h = ApplyPass(g, "Simplify");
    int moments = 0, whole = 0;
    for (NodePtr n : h.TopoOrder()) {
      moments += IsOp(n, "weft::Moments");
      whole += IsOp(n, "BatchNormalization");
    }
    CHECK(moments == (row.rewritten ? 1 : 0));
    CHECK(whole == (row.rewritten ? 0 : 1));
    const RandomInputs in = MakeRandomInputs(g, 5);
    const Tensors want = Reference().Eval(g, in.tensors), got = Reference().Eval(h, in.tensors);
    for (size_t k = 0; k < 3; ++k) {
      REQUIRE(got[k]->dtype() == want[k]->dtype());
      const double t = row.x[0] == 'f' && row.x[1] == '3' ? 1e-5 : 2e-2;
      CHECK(CompareTensors(*got[k], *want[k], t, t) <= 1);
    }
  }
}

TEST_CASE("training BatchNormalization: forward and gradient take one set of statistics") {
  Graph g = ParseGraph(R"(weft 1
graph @g(%x: f32[4, 3, 2, 2], %s: f32[3], %b: f32[3], %m: f32[3], %v: f32[3], %dy: f32[4, 3, 2, 2]) -> (%y) {
  %y, %p, %q = BatchNormalization(%x, %s, %b, %m, %v) {training_mode = 1} : ?, ?, ?
})");
  const NodePtr n = g.outputs[0].node;
  const auto grads = Op::GetAttr<FGradient>("FGradient")[n->op()](
      n, {NodeEntry(g.inputs()[5]), NodeEntry(), NodeEntry()});
  g.outputs = std::vector<NodeEntry>{g.outputs[0], grads[0], grads[1], grads[2]};
  const Graph h = ApplyPasses(g, "Simplify,FoldConstants,Simplify");
  int moments = 0, sums = 0;
  for (NodePtr node : h.TopoOrder()) {
    moments += IsOp(node, "weft::Moments");
    sums += IsOp(node, "ReduceSum");
    // Nothing of the size of x is computed twice over or handed across but x.
    CHECK(!IsOp(node, "Expand"));
    CHECK(!IsOp(node, "weft::SumTo"));
    CHECK(!IsOp(node, "CastLike"));
  }
  CHECK(moments == 1);
  CHECK(sums == 2);
  const RandomInputs in = MakeRandomInputs(g, 3);
  const Tensors want = Reference().Eval(g, in.tensors), got = Reference().Eval(h, in.tensors);
  for (size_t k = 0; k < want.size(); ++k)
    CHECK(CompareTensors(*got[k], *want[k], 1e-4, 1e-5) <= 1);
}
