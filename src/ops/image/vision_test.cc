/// vision_test.cc: transposed convolution, pooling, unpooling and normalization over images against
/// plain loops and finite differences.
#include "ops/util/op_test_util.h"

namespace weft::ops {
namespace {

using Ns = std::vector<int64_t>;

TensorPtr Ramp(Ns dims, double phase = 0.3) {
  auto t = std::make_shared<Tensor>(DType::kF64, std::move(dims));
  for (int64_t i = 0; i < t->num_elements(); ++i)
    t->set(i, std::sin(1.7 * double(i) + phase) + 0.05 * double(i % 5));
  return t;
}
TensorPtr I64(Ns dims, Ns v) { return Tensor::Reshaped(Tensor::Ints(v), std::move(dims)); }
void CheckNear(const Tensor& got, const std::vector<double>& want) {
  REQUIRE(got.num_elements() == int64_t(want.size()));
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(got.at(int64_t(i)) == doctest::Approx(want[i]).epsilon(1e-9));
  }
}
/// Steps through all positions below `dims`, last axis fastest.
bool Next(Ns* at, const Ns& dims) {
  for (size_t k = dims.size(); k-- > 0;) {
    if (++(*at)[k] < dims[k]) return true;
    (*at)[k] = 0;
  }
  return false;
}
int64_t Flat(const Ns& at, const Ns& dims) {
  int64_t f = 0;
  for (size_t k = 0; k < dims.size(); ++k) f = f * dims[k] + at[k];
  return f;
}

/// ConvTranspose as it reads: every input element adds its filter into the output at `begin`.
struct Transposed {
  Ns x, w, y, strides, dilations, begin;
  int64_t group = 1;
};
std::vector<double> Scatter(const Transposed& s, const Tensor& x, const Tensor& w,
                            const Tensor* bias) {
  std::vector<double> out(size_t(Tensor(DType::kF64, s.y).num_elements()), 0);
  const int64_t maps = s.w[1], channels = s.w[0] / s.group;
  Ns o(s.x.size(), 0);
  do {
    Ns k(s.w.begin() + 2, s.w.end()), at(k.size(), 0);
    do {
      Ns to{o[0], 0};
      bool inside = true;
      for (size_t d = 0; d < k.size(); ++d) {
        to.push_back(o[d + 2] * s.strides[d] + at[d] * s.dilations[d] - s.begin[d]);
        inside = inside && to.back() >= 0 && to.back() < s.y[d + 2];
      }
      for (int64_t m = 0; inside && m < maps; ++m) {
        to[1] = o[1] / channels * maps + m;
        Ns filter{o[1], m};
        filter.insert(filter.end(), at.begin(), at.end());
        out[size_t(Flat(to, s.y))] += x.at(Flat(o, s.x)) * w.at(Flat(filter, s.w));
      }
    } while (Next(&at, k));
  } while (Next(&o, s.x));
  if (bias) {
    Ns at(s.y.size(), 0);
    do {
      out[size_t(Flat(at, s.y))] += bias->at(at[1]);
    } while (Next(&at, s.y));
  }
  return out;
}

}  // namespace

TEST_CASE("ConvTranspose adds every input's filter into the output") {
  struct Row {
    Transposed s;
    AttrDict attrs;
  };
  const std::vector<Row> rows{
      {{{2, 2, 3, 4}, {2, 3, 3, 2}, {2, 3, 5, 5}, {1, 1}, {1, 1}, {0, 0}}, {}},
      {{{1, 4, 3}, {4, 2, 3}, {1, 4, 7}, {2}, {2}, {1}, 2},
       {{"group", 2}, {"strides", Ints{2}}, {"dilations", Ints{2}}, {"pads", Ints{1, 1}}}},
      {{{1, 1, 3, 3}, {1, 2, 3, 3}, {1, 2, 6, 5}, {2, 2}, {1, 1}, {1, 1}},
       {{"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}, {"output_padding", Ints{1, 0}}}},
      // SAME: out = in stride. Of an odd total SAME_UPPER cuts more at the end.
      {{{1, 1, 3}, {1, 1, 3}, {1, 1, 6}, {2}, {1}, {0}},
       {{"auto_pad", "SAME_UPPER"}, {"strides", Ints{2}}}},
      {{{1, 1, 3}, {1, 1, 3}, {1, 1, 6}, {2}, {1}, {1}},
       {{"auto_pad", "SAME_LOWER"}, {"strides", Ints{2}}}},
      // The output is larger than anything written.
      {{{1, 1, 3, 3}, {1, 2, 3, 3}, {1, 2, 10, 8}, {3, 2}, {1, 1}, {0, 0}},
       {{"output_shape", Ints{10, 8}}, {"strides", Ints{3, 2}}}},
      {{{1, 1, 3}, {1, 1, 3}, {1, 1, 4}, {1}, {1}, {1}}, {{"output_shape", Ints{4}}}},
      {{{1, 2, 2, 2, 3}, {2, 1, 2, 2, 2}, {1, 1, 3, 4, 6}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}},
       {{"strides", Ints{1, 2, 2}}}},
  };
  for (const Row& row : rows) {
    const Transposed& s = row.s;
    const TensorPtr x = Ramp(s.x), w = Ramp(s.w, 1), bias = Ramp({s.y[1]}, 2);
    const TensorPtr y = RunOp("ConvTranspose", {x, w, bias}, row.attrs)[0];
    CHECK(y->dims() == s.y);
    CheckNear(*y, Scatter(s, *x, *w, bias.get()));
    CheckNear(*RunOp("ConvTranspose", {x, w}, row.attrs)[0], Scatter(s, *x, *w, nullptr));
    if (y->num_elements() > 60) continue;
    CheckGradient("ConvTranspose", {x, w, bias}, row.attrs);
    CheckGradient("weft::ConvTransposeGradData", {Ramp(s.y), w, I64({int64_t(s.x.size())}, s.x)},
                  row.attrs);
    CheckGradient("weft::ConvTransposeGradWeight", {Ramp(s.y), x, I64({int64_t(s.w.size())}, s.w)},
                  row.attrs);
  }
  const TensorPtr x = Ramp({1, 2, 3}), w = Ramp({2, 1, 2});
  CHECK(CodeOf([&] { RunOp("ConvTranspose", {x, Ramp({3, 1, 2})}); }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] {
          RunOp("ConvTranspose", {x, w}, {{"output_padding", Ints{1}}});
        }) == ErrorCode::kBadAttribute);
  CHECK(CodeOf([&] {
          RunOp("ConvTranspose", {x, w}, {{"pads", Ints{3, 3}}});
        }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] {
          RunOp("ConvTranspose", {x, w}, {{"auto_pad", "SAME"}});
        }) == ErrorCode::kBadAttribute);
}

TEST_CASE("the extents of ConvTranspose stay symbolic") {
  const Graph g = Inferred(ParseGraph(R"(weft 1
graph @g<b, h>(%x: f32[b, 4, h], %w: f32[4, 3, 3]) -> (%y, %z) {
  %y = ConvTranspose(%x, %w) {strides = [2], pads = [1, 1], output_padding = [1]} : ?
  %z = ConvTranspose(%x, %w) {auto_pad = "SAME_UPPER", strides = [2]} : ?
})"));
  for (const NodeEntry& e : g.outputs)
    CHECK(g.GetAttr<ShapeMap>("shape")[e].ToString() == "[b, 3, 2*h]");
}

TEST_CASE("LRN divides by the squares of the channels around") {
  const Ns dims{2, 6, 2, 3};
  const TensorPtr x = Ramp(dims);
  for (const int64_t size : {1, 2, 3, 4, 5, 13}) {
    CAPTURE(size);
    const double alpha = 0.3, beta = 0.6, bias = 1.5;
    const AttrDict attrs{{"size", size}, {"alpha", alpha}, {"beta", beta}, {"bias", bias}};
    std::vector<double> want;
    Ns at(4, 0);
    do {
      double sum = 0;
      for (int64_t c = at[1] - (size - 1) / 2; c <= at[1] + size / 2; ++c)
        if (c >= 0 && c < dims[1]) sum += std::pow(x->at(Flat({at[0], c, at[2], at[3]}, dims)), 2);
      want.push_back(x->at(Flat(at, dims)) / std::pow(bias + alpha / double(size) * sum, beta));
    } while (Next(&at, dims));
    CheckNear(*RunOp("LRN", {x}, attrs)[0], want);
  }
  CheckGradient("LRN", {Ramp({1, 5, 2})}, {{"size", 3}, {"alpha", 0.5}, {"bias", 2.0}});
  CheckGradient("LRN", {Ramp({2, 4, 1})}, {{"size", 4}, {"alpha", 0.9}, {"beta", 1.0}});
  CheckGradient("weft::ChannelWindowSum", {Ramp({1, 5, 2})}, {{"before", 2}, {"after", 1}});
  CHECK(CodeOf([&] { RunOp("LRN", {x}, {{"size", 0}}); }) == ErrorCode::kBadAttribute);
  CHECK(CodeOf([&] { RunOp("LRN", {Ramp({3})}, {{"size", 1}}); }) == ErrorCode::kShapeMismatch);
}

TEST_CASE("LpPool is the norm of a window") {
  const TensorPtr x = Ramp({1, 2, 5});
  for (const int p : {1, 2, 3}) {
    const AttrDict attrs{{"p", p},
                         {"kernel_shape", Ints{2}},
                         {"strides", Ints{2}},
                         {"dilations", Ints{2}},
                         {"pads", Ints{1, 1}}};
    std::vector<double> want;
    for (int64_t c = 0; c < 2; ++c)
      for (int64_t o = 0; o < 3; ++o) {
        double sum = 0;
        for (int64_t k = 0; k < 2; ++k) {
          const int64_t i = o * 2 - 1 + k * 2;
          if (i >= 0 && i < 5) sum += std::pow(std::fabs(x->at(c * 5 + i)), p);
        }
        want.push_back(std::pow(sum, 1.0 / p));
      }
    CheckNear(*RunOp("LpPool", {x}, attrs)[0], want);
    CheckGradient("LpPool", {x}, attrs);
    std::vector<double> all;
    for (int64_t c = 0; c < 2; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < 5; ++i) sum += std::pow(std::fabs(x->at(c * 5 + i)), p);
      all.push_back(std::pow(sum, 1.0 / p));
    }
    CheckNear(*RunOp("GlobalLpPool", {x}, {{"p", p}})[0], all);
    CheckGradient("GlobalLpPool", {x}, {{"p", p}});
  }
  const AttrDict pool{{"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"pads", Ints{1, 0}}};
  CheckGradient("weft::SumPool", {x}, pool);
  CheckGradient("weft::SumPoolGrad", {Ramp({1, 2, 2}), I64({3}, {1, 2, 5})}, pool);
  CHECK(CodeOf([&] {
          RunOp("LpPool", {x}, {{"kernel_shape", Ints{2}}, {"p", 0}});
        }) == ErrorCode::kBadAttribute);
  // The gradient of a window of zeros is 0, not 0 / 0.
  const TensorPtr none = T(DType::kF64, {1, 1, 2}, {0, 0});
  CheckNear(
      *GradientOf("LpPool", {none}, {{"kernel_shape", Ints{2}}}, T(DType::kF64, {1, 1, 1}, {1}))[0],
      {0, 0});
}

TEST_CASE("MaxUnpool puts values back") {
  const TensorPtr x = T(DType::kF64, {1, 1, 2, 2}, {5, 6, 7, 8});
  const TensorPtr i = I64({1, 1, 2, 2}, {5, 7, 13, 15});
  const AttrDict attrs{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  std::vector<double> want(16, 0), wide(25, 0);
  want[5] = 5, want[7] = 6, want[13] = 7, want[15] = 8;
  wide[6] = 5, wide[8] = 6, wide[16] = 7, wide[18] = 8;
  CheckNear(*RunOp("MaxUnpool", {x, i}, attrs)[0], want);
  const TensorPtr larger = I64({4}, {1, 1, 5, 5});
  CheckNear(*RunOp("MaxUnpool", {x, i, larger}, attrs)[0], wide);
  // Two values for one place: the later one. An index outside is nowhere.
  CheckNear(*RunOp("MaxUnpool", {x, I64({1, 1, 2, 2}, {3, 3, 16, -1})}, attrs)[0],
            {0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CheckGradient("MaxUnpool", {x, i}, attrs);
  CheckGradient("MaxUnpool", {x, i, larger}, attrs);
  // What MaxPool took comes back, the rest is 0.
  const TensorPtr z = Ramp({2, 3, 4, 4});
  const Tensors pooled = RunOp("MaxPool", {z}, attrs);
  const TensorPtr back = RunOp("MaxUnpool", {pooled[0], pooled[1]}, attrs)[0];
  REQUIRE(back->dims() == z->dims());
  int kept = 0;
  for (int64_t k = 0; k < z->num_elements(); ++k) {
    CHECK((back->at(k) == 0 || back->at(k) == z->at(k)));
    kept += back->at(k) != 0;
  }
  CHECK(kept == 24);
  CHECK(CodeOf([&] {
          RunOp("MaxUnpool", {x, I64({1, 1, 2}, {1, 2})}, attrs);
        }) == ErrorCode::kShapeMismatch);
}

TEST_CASE("BatchNormalization in training takes the statistics of the batch") {
  const Ns dims{3, 2, 4};
  const TensorPtr x = Ramp(dims), scale = Ramp({2}, 1), bias = Ramp({2}, 2),
                  mean = F64({0.5, -0.2}), var = F64({1.5, 0.7});
  const AttrDict attrs{{"training_mode", 1}, {"momentum", 0.8}, {"epsilon", 0.01}};
  const Tensors y = RunOp("BatchNormalization", {x, scale, bias, mean, var}, attrs);
  REQUIRE(y.size() == 3);
  std::vector<double> m(2, 0), v(2, 0), want, running_mean, running_var;
  for (int64_t i = 0; i < 24; ++i) m[size_t(i / 4 % 2)] += x->at(i) / 12;
  for (int64_t i = 0; i < 24; ++i)
    v[size_t(i / 4 % 2)] += std::pow(x->at(i) - m[size_t(i / 4 % 2)], 2) / 12;
  for (int64_t i = 0; i < 24; ++i) {
    const size_t c = size_t(i / 4 % 2);
    want.push_back((x->at(i) - m[c]) / std::sqrt(v[c] + 0.01) * scale->at(int64_t(c)) +
                   bias->at(int64_t(c)));
  }
  for (size_t c = 0; c < 2; ++c) {
    running_mean.push_back(mean->at(int64_t(c)) * 0.8 + m[c] * 0.2);
    running_var.push_back(var->at(int64_t(c)) * 0.8 + v[c] * 0.2);
  }
  CheckNear(*y[0], want);
  CheckNear(*y[1], running_mean);
  CheckNear(*y[2], running_var);
  CheckGradient("BatchNormalization", {x, scale, bias, mean, var}, attrs);
  CHECK(RunOp("BatchNormalization", {x, scale, bias, mean, var}).size() == 1);

  // Through the running statistics.
  Graph g = GraphOfOp("BatchNormalization", {x, scale, bias, mean, var}, attrs);
  const NodePtr n = g.outputs[0].node;
  const TensorPtr dm = F64({0.3, -1}), dv = F64({2, 0.4});
  const std::vector<NodeEntry> seeds{NodeEntry(), NodeEntry(g.AddInput("dm", DType::kF64, {2})),
                                     NodeEntry(g.AddInput("dv", DType::kF64, {2}))};
  const auto grads = Op::GetAttr<FGradient>("FGradient")[n->op()](n, seeds);
  g.outputs = std::vector<NodeEntry>{grads[0], grads[3], grads[4]};
  const Tensors got = Reference().Eval(g, {x, scale, bias, mean, var, dm, dv});
  for (int64_t i = 0; i < 24; ++i) {
    const int64_t c = i / 4 % 2;
    CHECK(got[0]->at(i) ==
          doctest::Approx(0.2 / 12 * (dm->at(c) + 2 * (x->at(i) - m[size_t(c)]) * dv->at(c))));
  }
  CheckNear(*got[1], {0.8 * 0.3, 0.8 * -1});
  CheckNear(*got[2], {0.8 * 2, 0.8 * 0.4});
}

TEST_CASE("training BatchNormalization becomes moments and their use") {
  const Op& op = *Op::Get("BatchNormalization");
  for (const char* x : {"f32[3, 2, 4, 2]", "f16[3, 2]", "f64[4, 2, 3]"}) {
    Graph g = Inferred(ParseGraph(std::string("weft 1\ngraph @g(%x: ") + x + R"(, %s: f32[2],
  %b: f32[2], %m: f32[2], %v: f32[2]) -> (%y, %p, %q) {
  %y, %p, %q = BatchNormalization(%x, %s, %b, %m, %v) {training_mode = 1, momentum = 0.7} : ?, ?, ?
})"));
    TestRewriteContext ctx(g);
    const NodePtr here = g.outputs[0].node;
    const auto simpler = Op::GetAttr<FSimplify>("FSimplify")[&op](ctx, here);
    REQUIRE(simpler.size() == 3);
    Graph h = g;
    std::vector<NodeEntry> outputs;
    for (const NodeEntry& e : simpler) outputs.push_back(h.at(e));
    h.outputs = outputs;
    h = Inferred(std::move(h));
    const RandomInputs in = MakeRandomInputs(g, 5);
    const Tensors want = Reference().Eval(g, in.tensors), got = Reference().Eval(h, in.tensors);
    for (size_t k = 0; k < 3; ++k) {
      REQUIRE(got[k]->dtype() == want[k]->dtype());
      CHECK(CompareTensors(*got[k], *want[k], 1e-3, 1e-3) <= 1);
    }
  }
}

TEST_CASE("GroupNormalization and MeanVarianceNormalization: dtypes, axes, errors, gradients") {
  const TensorPtr x = Ramp({2, 4, 3}), scale = Ramp({4}, 1), bias = Ramp({4}, 2);
  const auto normal = [&](const std::function<int(int)>& key, double epsilon, double behind) {
    std::vector<double> mean(24), var(24), count(24), y;
    for (int i = 0; i < 24; ++i) mean[size_t(key(i))] += x->at(i), ++count[size_t(key(i))];
    for (int i = 0; i < 24; ++i) mean[size_t(i)] /= std::max(count[size_t(i)], 1.0);
    for (int i = 0; i < 24; ++i) {
      const auto k = size_t(key(i));
      var[k] += std::pow(x->at(i) - mean[k], 2) / count[k];
    }
    for (int i = 0; i < 24; ++i) {
      const auto k = size_t(key(i));
      y.push_back((x->at(i) - mean[k]) / (std::sqrt(var[k] + epsilon) + behind));
    }
    return y;
  };
  std::vector<double> want = normal([](int i) { return i / 6; }, 0.1, 0);
  for (int i = 0; i < 24; ++i)
    want[size_t(i)] = want[size_t(i)] * scale->at(i / 3 % 4) + bias->at(i / 3 % 4);
  const AttrDict groups{{"num_groups", 2}, {"epsilon", 0.1}};
  CheckNear(*RunOp("GroupNormalization", {x, scale, bias}, groups)[0], want);
  CheckGradient("GroupNormalization", {x, scale, bias}, groups);
  CheckGradient("GroupNormalization", {Ramp({2, 4}), scale, bias}, groups);
  CHECK(RunOp("GroupNormalization",
              {T(DType::kF32, {0, 4, 3}, {}), F32({1, 1, 1, 1}), F32({0, 0, 0, 0})}, groups)[0]
            ->dims() == std::vector<int64_t>{0, 4, 3});
  CHECK(CodeOf([&] {
          RunOp("GroupNormalization", {x, scale, bias}, {{"num_groups", 3}});
        }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] {
          RunOp("GroupNormalization", {x, Ramp({2}), bias}, groups);
        }) == ErrorCode::kShapeMismatch);

  CheckNear(*RunOp("MeanVarianceNormalization", {x}, {{"axes", Ints{0, -1}}})[0],
            normal([](int i) { return i / 3 % 4; }, 0, 1e-9));
  CheckNear(*RunOp("MeanVarianceNormalization", {x}, {{"axes", Ints{}}})[0],
            normal([](int) { return 0; }, 0, 1e-9));
  for (const Ints& axes : {Ints{0, 2}, Ints{1}, Ints{}})
    CheckGradient("MeanVarianceNormalization", {x}, {{"axes", axes}});
  for (const DType t : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const TensorPtr y =
        RunOp("MeanVarianceNormalization", {T(t, {4}, {1, 2, 3, 4})}, {{"axes", Ints{0}}})[0];
    CHECK(y->dtype() == t);
    CHECK(y->at(3) == doctest::Approx(1.3416).epsilon(t == DType::kBF16 ? 1e-2 : 1e-3));
  }
  for (double v :
       Values(*RunOp("MeanVarianceNormalization", {F32({5, 5})}, {{"axes", Ints{0}}})[0]))
    CHECK(v == 0);
  CHECK(CodeOf([&] {
          RunOp("MeanVarianceNormalization", {x}, {{"axes", Ints{3}}});
        }) == ErrorCode::kBadAttribute);
}

TEST_CASE("LayerNormalization of f64: Mean and InvStdDev have the dtype of stash_type") {
  const TensorPtr x = Ramp({2, 3}), scale = Ramp({3}, 1);
  const Tensors y = RunOp("LayerNormalization", {x, scale});
  CHECK(y[0]->dtype() == DType::kF64);
  CHECK(y[1]->dtype() == DType::kF32);
  CHECK(y[2]->dtype() == DType::kF32);
  CHECK(RunOp("LayerNormalization", {x, scale}, {{"stash_type", 11}})[1]->dtype() == DType::kF64);
  CheckGradient("LayerNormalization", {x, scale});
}

TEST_CASE("InstanceNormalization and LpNormalization") {
  const TensorPtr x = Ramp({2, 3, 2, 2}), scale = Ramp({3}, 1), bias = Ramp({3}, 2);
  std::vector<double> want;
  for (int64_t p = 0; p < 6; ++p) {
    double mean = 0, var = 0;
    for (int64_t i = 0; i < 4; ++i) mean += x->at(p * 4 + i) / 4;
    for (int64_t i = 0; i < 4; ++i) var += std::pow(x->at(p * 4 + i) - mean, 2) / 4;
    for (int64_t i = 0; i < 4; ++i)
      want.push_back((x->at(p * 4 + i) - mean) / std::sqrt(var + 0.1) * scale->at(p % 3) +
                     bias->at(p % 3));
  }
  CheckNear(*RunOp("InstanceNormalization", {x, scale, bias}, {{"epsilon", 0.1}})[0], want);
  CheckGradient("InstanceNormalization", {x, scale, bias}, {{"epsilon", 0.1}});
  CHECK(CodeOf([&] {
          RunOp("InstanceNormalization", {x, bias, Ramp({2})});
        }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] {
          RunOp("InstanceNormalization", {Ramp({2, 3}), bias, bias});
        }) == ErrorCode::kShapeMismatch);

  const TensorPtr v = T(DType::kF64, {3, 2}, {3, -4, 0, 0, 1, 1});
  CheckNear(*RunOp("LpNormalization", {v})[0], {0.6, -0.8, 0, 0, std::sqrt(0.5), std::sqrt(0.5)});
  CheckNear(*RunOp("LpNormalization", {v}, {{"p", 1}, {"axis", 0}})[0],
            {0.75, -0.8, 0, 0, 0.25, 0.2});
  for (const int p : {1, 2})
    for (const int axis : {0, -1})
      CheckGradient("LpNormalization", {Ramp({3, 4})}, {{"p", p}, {"axis", axis}});
  const Tensors zero = GradientOf("LpNormalization", {F64({0, 0})}, {}, F64({1, 2}));
  CheckNear(*zero[0], {0, 0});
  CHECK(CodeOf([&] { RunOp("LpNormalization", {v}, {{"p", 3}}); }) == ErrorCode::kBadAttribute);
}

TEST_CASE("MaxRoiPool takes the maximum over whole elements of each bin") {
  const Ns dims{2, 3, 7, 6};
  const TensorPtr x = Ramp(dims);
  // Inside, beyond the image on all sides, outside of it, upside down, at half elements.
  const std::vector<std::vector<double>> regions = {{0, 1, 1, 4, 5},
                                                    {1, -3, -2, 20, 9},
                                                    {0, 30, 30, 40, 40},
                                                    {1, 4, 4, 1, 1},
                                                    {0, 0.5, 1.5, 2.5, 3.49}};
  const int64_t bins_h = 3, bins_w = 2;
  for (const double scale : {1.0, 0.5}) {
    std::vector<double> flat, want;
    for (const auto& r : regions) {
      flat.insert(flat.end(), r.begin(), r.end());
      const auto corner = [&](size_t k) { return int64_t(std::round(r[k] * scale)); };
      const auto range = [](int64_t first, int64_t last, int64_t bin, int64_t bins, int64_t end) {
        const double size = double(std::max<int64_t>(last - first + 1, 1)) / double(bins);
        const auto cut = [&](double e) { return std::clamp(first + int64_t(e), int64_t{0}, end); };
        return std::make_pair(cut(std::floor(double(bin) * size)),
                              cut(std::ceil(double(bin + 1) * size)));
      };
      for (int64_t c = 0; c < dims[1]; ++c)
        for (int64_t i = 0; i < bins_h; ++i)
          for (int64_t j = 0; j < bins_w; ++j) {
            const auto rows = range(corner(2), corner(4), i, bins_h, dims[2]);
            const auto columns = range(corner(1), corner(3), j, bins_w, dims[3]);
            double most = -HUGE_VAL;
            for (int64_t y = rows.first; y < rows.second; ++y)
              for (int64_t z = columns.first; z < columns.second; ++z)
                most = std::max(most, x->at(Flat({int64_t(r[0]), c, y, z}, dims)));
            want.push_back(std::isinf(most) ? 0 : most);
          }
    }
    const TensorPtr rois = T(DType::kF64, {int64_t(regions.size()), 5}, flat);
    CheckNear(*RunOp("MaxRoiPool", {x, rois},
                     {{"pooled_shape", Ints({bins_h, bins_w})}, {"spatial_scale", scale}})[0],
              want);
  }
  CHECK(CodeOf([&] {
          RunOp("MaxRoiPool", {x, T(DType::kF64, {1, 4}, {0, 0, 1, 1})},
                {{"pooled_shape", Ints({1, 1})}});
        }) == ErrorCode::kShapeMismatch);
  CHECK(CodeOf([&] {
          RunOp("MaxRoiPool", {x, T(DType::kF64, {1, 5}, {2, 0, 0, 1, 1})},
                {{"pooled_shape", Ints({1, 1})}});
        }) == ErrorCode::kIndexRange);
  CHECK(CodeOf([&] {
          RunOp("MaxRoiPool", {x, T(DType::kF64, {1, 5}, {0, 0, 0, 1, 1})},
                {{"pooled_shape", Ints({2})}});
        }) == ErrorCode::kBadAttribute);
}

}  // namespace weft::ops
