/// loss_test.cc: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss, weft::ClassMask and
/// weft::ClassWeight.
#include "ops/util/op_test_util.h"

using namespace weft;
using namespace weft::ops;

namespace {

TensorPtr Scores(std::vector<int64_t> dims, DType t = DType::kF64) {
  auto x = std::make_shared<Tensor>(t, std::move(dims));
  for (int64_t i = 0; i < x->num_elements(); ++i)
    x->set(i, std::sin(1.7 * double(i) + 0.3) * (1 + double(i % 5)));
  return x;
}
TensorPtr Labels(std::vector<int64_t> dims, int64_t classes, DType t = DType::kI64) {
  auto x = std::make_shared<Tensor>(t, std::move(dims));
  for (int64_t i = 0; i < x->num_elements(); ++i) x->set_int(i, (i * 7 + 3) % classes);
  return x;
}
const char* const kReductions[] = {"none", "sum", "mean"};

/// The definition in double: x[n, c, rest], labels[n, rest].
struct Expected {
  std::vector<double> loss, log_prob;
};
Expected Compute(const Tensor& x, const Tensor& labels, const Tensor* weights, bool scores,
                 const std::string& reduction, const int64_t* ignore) {
  const int64_t n = x.dims()[0], c = x.dims()[1], rest = x.num_elements() / (n * c);
  Expected e;
  e.log_prob.resize(size_t(x.num_elements()));
  double total = 0, weight = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t r = 0; r < rest; ++r) {
      double sum = 0;
      const auto at = [&](int64_t k) { return (i * c + k) * rest + r; };
      for (int64_t k = 0; k < c; ++k) sum += std::exp(x.at(at(k)));
      for (int64_t k = 0; k < c; ++k)
        e.log_prob[size_t(at(k))] = x.at(at(k)) - (scores ? std::log(sum) : 0);
      const int64_t label = labels.at_int(i * rest + r);
      const bool counts = !ignore || label != *ignore;
      const double w = !counts ? 0 : weights ? weights->at(label) : 1;
      const double loss = counts ? -w * e.log_prob[size_t(at(label))] : 0;
      total += loss, weight += w;
      if (reduction == "none") e.loss.push_back(loss);
    }
  if (reduction != "none") e.loss.push_back(reduction == "sum" ? total : total / weight);
  return e;
}
void CheckNear(const Tensor& got, const std::vector<double>& want, double tolerance = 1e-12) {
  REQUIRE(got.num_elements() == int64_t(want.size()));
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]))
      CHECK(std::isnan(got.at(int64_t(i))));
    else
      CHECK(got.at(int64_t(i)) == doctest::Approx(want[i]).epsilon(tolerance).scale(1));
  }
}

/// Every combination of reduction, weights and ignored label, over three ranks.
template <class F>
void EachCase(F&& f) {
  struct Extents {
    std::vector<int64_t> x, labels;
  };
  for (const Extents& e :
       {Extents{{4, 5}, {4}}, Extents{{3, 4, 2}, {3, 2}}, Extents{{2, 3, 2, 2}, {2, 2, 2}}})
    for (const char* op : {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"})
      for (const char* reduction : kReductions)
        for (bool weighted : {false, true})
          for (int ignored : {0, 1, 2}) {
            const int64_t classes = e.x[1];
            TensorPtr labels = Labels(e.labels, classes);
            AttrDict attrs{{"reduction", std::string(reduction)}};
            int64_t none = 2;
            if (ignored == 2) {  // a label that is no class
              none = -100;
              std::vector<double> values = Values(*labels);
              values[1] = double(none);
              labels = T(DType::kI64, e.labels, values);
            }
            if (ignored) attrs["ignore_index"] = none;
            TensorPtr weights;
            if (weighted) {
              auto w = std::make_shared<Tensor>(DType::kF64, std::vector<int64_t>{classes});
              for (int64_t k = 0; k < classes; ++k) w->set(k, 0.5 + 0.25 * double(k));
              weights = w;
            }
            CAPTURE(op);
            CAPTURE(reduction);
            CAPTURE(weighted);
            CAPTURE(ignored);
            CAPTURE(e.x.size());
            f(op, Scores(e.x), labels, weights, attrs, ignored ? &none : nullptr);
          }
}

}  // namespace

TEST_CASE("losses: every reduction, weights, ignored labels, ranks 2 to 4") {
  EachCase([](const std::string& op, const TensorPtr& x, const TensorPtr& labels,
              const TensorPtr& weights, const AttrDict& attrs, const int64_t* ignore) {
    const bool scores = op == "SoftmaxCrossEntropyLoss";
    const Expected want = Compute(*x, *labels, weights.get(), scores,
                                  attrs.find("reduction")->get<std::string>(), ignore);
    Tensors in{x, labels};
    if (weights) in.push_back(weights);
    const Tensors got = RunOp(op, in, attrs, false);
    REQUIRE(got.size() == (scores ? 2 : 1));
    CheckNear(*got[0], want.loss);
    if (scores) CheckNear(*got[1], want.log_prob);
  });
}

TEST_CASE("losses: the parts are the operator") {
  EachCase([](const std::string& op, const TensorPtr& x, const TensorPtr& labels,
              const TensorPtr& weights, const AttrDict& attrs, const int64_t*) {
    Tensors in{x, labels};
    if (weights) in.push_back(weights);
    const Graph g = Inferred(GraphOfOp(op, in, attrs));
    const Graph h = ApplyPasses(g, "Simplify,FoldConstants,Simplify");
    for (NodePtr n : h.TopoOrder()) CHECK(!IsOp(n, op));
    EvalOptions options;
    options.typed = false;
    const Tensors want = Reference().Eval(g, in, options), got = Reference().Eval(h, in, options);
    for (size_t k = 0; k < want.size(); ++k) CheckNear(*got[k], Values(*want[k]));
  });
}

TEST_CASE("losses: gradients equal finite differences") {
  EachCase([](const std::string& op, const TensorPtr& x, const TensorPtr& labels,
              const TensorPtr& weights, const AttrDict& attrs, const int64_t*) {
    if (x->rank() == 4) return;
    Tensors in{x, labels};
    if (weights) in.push_back(weights);
    CheckGradient(op, in, attrs);
    const Tensors grads = GradientOf(op, in, attrs, RunOp(op, in, attrs, false)[0]);
    CHECK(!grads[1]);
    if (weights) CHECK(!grads[2]);
  });
}

TEST_CASE("SoftmaxCrossEntropyLoss: gradient through the log-probabilities as well") {
  const TensorPtr x = Scores({3, 4, 2}), labels = Labels({3, 2}, 4);
  const AttrDict attrs{{"reduction", std::string("sum")}};
  Graph g = GraphOfOp("SoftmaxCrossEntropyLoss", {x, labels}, attrs);
  const NodePtr n = g.outputs[0].node;
  const NodeEntry dl(g.AddInput("dl", DType::kF64, Shape())),
      dp(g.AddInput("dp", DType::kF64, {3, 4, 2}));
  const auto grads = Op::GetAttr<FGradient>("FGradient")[n->op()](n, {dl, dp});
  g.outputs = std::vector<NodeEntry>{grads[0]};
  const TensorPtr loss_seed = T(DType::kF64, {}, {0.7}), prob_seed = Scores({3, 4, 2});
  EvalOptions options;
  options.typed = false;
  const TensorPtr dx = Reference().Eval(g, {x, labels, loss_seed, prob_seed}, options)[0];
  const auto value = [&](int64_t i, double h) {
    std::vector<double> values = Values(*x);
    values[size_t(i)] += h;
    const TensorPtr moved = T(DType::kF64, x->dims(), values);
    const Tensors y = RunOp("SoftmaxCrossEntropyLoss", {moved, labels}, attrs, false);
    double sum = 0.7 * y[0]->at(0);
    for (int64_t k = 0; k < 24; ++k) sum += y[1]->at(k) * prob_seed->at(k);
    return sum;
  };
  for (int64_t i = 0; i < 24; ++i)
    CHECK(dx->at(i) ==
          doctest::Approx((value(i, 1e-6) - value(i, -1e-6)) / 2e-6).epsilon(1e-5).scale(0.1));
}

TEST_CASE("losses: scores without end, ignored rows of infinities, all ignored") {
  // exp would overflow.
  const Tensors big = RunOp("SoftmaxCrossEntropyLoss",
                            {T(DType::kF32, {2, 2}, {1000, 0, -1000, 1000}), Tensor::Ints({0, 0})},
                            {{"reduction", std::string("none")}});
  CHECK(big[0]->at(0) == 0);
  CHECK(big[0]->at(1) == 2000);
  // A probability of 0 that is not asked for leaves no NaN.
  const TensorPtr lp = T(DType::kF32, {2, 2}, {0, -INFINITY, -INFINITY, 0});
  const AttrDict mean{{"ignore_index", 1}};
  const Graph g =
      Inferred(GraphOfOp("NegativeLogLikelihoodLoss", {lp, Tensor::Ints({0, 1})}, mean));
  for (const Graph& graph : {g, ApplyPass(g, "Simplify")}) {
    CHECK(Reference().Eval(graph, {lp, Tensor::Ints({0, 1})})[0]->at(0) == 0);
    CHECK(Reference().Eval(graph, {lp, Tensor::Ints({0, 0})})[0]->at(0) == INFINITY);
    CHECK(std::isnan(Reference().Eval(graph, {lp, Tensor::Ints({1, 1})})[0]->at(0)));
  }
  const Tensors half =
      RunOp("SoftmaxCrossEntropyLoss", {Scores({4, 3}, DType::kF16), Labels({4}, 3, DType::kI32)});
  CHECK(half[0]->dtype() == DType::kF16);
  CHECK(half[1]->dtype() == DType::kF16);
}

TEST_CASE("losses: a label that is no class is an error") {
  const TensorPtr x = Scores({2, 3}, DType::kF32);
  for (const char* op : {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"})
    for (int64_t bad : {3, -1, 100}) {
      CAPTURE(bad);
      const TensorPtr labels = Tensor::Ints({0, bad});
      const Graph g = Inferred(GraphOfOp(op, {x, labels}));
      for (const Graph& graph : {g, ApplyPasses(g, "Simplify,FoldConstants,Simplify")})
        CHECK(CodeOf([&] { Reference().Eval(graph, {x, labels}); }) == ErrorCode::kIndexRange);
      CHECK(CodeOf([&] { RunOp(op, {x, labels}, {{"ignore_index", bad}}); }) == ErrorCode(0));
    }
  // Over a symbolic number of classes the parts have nothing to look up in: NaN.
  Graph g = ParseGraph(R"(weft 1
graph @g(%x: f32[n, c], %t: i64[n]) -> (%l) {
  %l, %p = SoftmaxCrossEntropyLoss(%x, %t) {reduction = "none", ignore_index = 7} : ?, ?
})");
  const Graph h = ApplyPass(Inferred(g), "Simplify");
  const TensorPtr y =
      Reference().Eval(h, {Scores({4, 3}, DType::kF32), Tensor::Ints({0, 3, -1, 7})})[0];
  CHECK(y->at(0) > 0);
  CHECK(std::isnan(y->at(1)));
  CHECK(std::isnan(y->at(2)));
  CHECK(y->at(3) == 0);
}

TEST_CASE("losses: what is refused") {
  const TensorPtr x = Scores({2, 3}), labels = Tensor::Ints({0, 1});
  const auto code = [](const Tensors& in, const AttrDict& attrs = {}) {
    return CodeOf([&] { RunOp("SoftmaxCrossEntropyLoss", in, attrs); });
  };
  CHECK(code({x, labels}, {{"reduction", std::string("max")}}) == ErrorCode::kBadAttribute);
  CHECK(code({x, Tensor::Ints({0, 1, 2})}) == ErrorCode::kShapeMismatch);
  CHECK(code({x, T(DType::kI64, {2, 1}, {0, 1})}) == ErrorCode::kShapeMismatch);
  CHECK(code({F64({1, 2}), labels}) == ErrorCode::kShapeMismatch);
  CHECK(code({x, labels, F64({1, 2})}) == ErrorCode::kShapeMismatch);
  CHECK(code({x, labels, F32({1, 2, 3})}) == ErrorCode::kTypeMismatch);
  CHECK(code({x, F64({0, 1})}) == ErrorCode::kTypeMismatch);
}

TEST_CASE("ClassMask and ClassWeight") {
  const TensorPtr labels = T(DType::kI32, {2, 2}, {0, 2, -1, 5}),
                  depth = Tensor::Scalar(DType::kI64, 3);
  const TensorPtr last = RunOp("weft::ClassMask", {labels, depth}, {{"axis", -1}})[0];
  CHECK(last->dims() == std::vector<int64_t>{2, 2, 3});
  CHECK(Values(*last) == std::vector<double>{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0});
  const TensorPtr middle = RunOp("weft::ClassMask", {labels, depth}, {{"ignore_index", 2}})[0];
  CHECK(middle->dims() == std::vector<int64_t>{2, 3, 2});
  CHECK(Values(*middle) == std::vector<double>{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(CodeOf([&] {
          RunOp("weft::ClassMask", {labels, depth}, {{"axis", 3}});
        }) == ErrorCode::kBadAttribute);
  const TensorPtr w = F64({2, 3, 4}), inside = Tensor::Ints({2, 0, 0});
  CHECK(Values(*RunOp("weft::ClassWeight", {inside, w})[0]) == std::vector<double>{4, 2, 2});
  CHECK(Values(*RunOp("weft::ClassWeight", {Tensor::Ints({2, 9}), w}, {{"ignore_index", 9}})[0]) ==
        std::vector<double>{4, 0});
  CHECK(CodeOf([&] {
          RunOp("weft::ClassWeight", {Tensor::Ints({-1}), w});
        }) == ErrorCode::kIndexRange);
  CheckGradient("weft::ClassWeight", {inside, w});
  CheckGradient("weft::ClassWeight", {T(DType::kI64, {2, 2}, {1, 0, 1, 2}), w},
                {{"ignore_index", 0}});
}
