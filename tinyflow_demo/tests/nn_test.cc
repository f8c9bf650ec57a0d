/// nn_test.cc: layers against loops in double precision.
#include <algorithm>

#include "tests/util.h"

namespace tf::test {
namespace {

using weft::ErrorCode;

struct Case {
  int64_t size, kernel, stride, dilation;
  bool same;
};

std::string Named(const Case& c) {
  return std::to_string(c.size) + " by " + std::to_string(c.kernel) + ", stride " +
         std::to_string(c.stride) + ", dilation " + std::to_string(c.dilation) +
         (c.same ? ", SAME" : ", VALID");
}

/// Extent and padding before, as SAME and VALID are defined.
std::pair<int64_t, int64_t> Extent(const Case& c) {
  const int64_t reach = (c.kernel - 1) * c.dilation + 1;
  if (!c.same) return {(c.size - reach) / c.stride + 1, 0};
  const int64_t out = (c.size + c.stride - 1) / c.stride;
  return {out, std::max<int64_t>(0, (out - 1) * c.stride + reach - c.size) / 2};
}

nn::Window WindowOf(const Case& c) {
  nn::Window w = nn::Window().stride(c.stride).dilation(c.dilation);
  return c.same ? w.same() : w.valid();
}

const Case kCases[] = {{8, 3, 1, 1, true},  {8, 3, 1, 1, false}, {9, 3, 2, 1, true},
                       {9, 3, 2, 1, false}, {8, 3, 2, 1, true},  {9, 3, 1, 2, true},
                       {9, 3, 1, 2, false}, {7, 2, 2, 1, true},  {10, 5, 3, 1, true}};

TEST_CASE("conv2d: SAME and VALID, strides, dilations") {
  for (const Case& c : kCases) {
    CAPTURE(Named(c));
    const Fresh fresh;
    const Tensor x = placeholder(float32, {None, 2, c.size, c.size}, "x");
    const Tensor w = placeholder(float32, {3, 2, c.kernel, c.kernel}, "w");
    const std::vector<double> xs = Numbers(2 * c.size * c.size),
                              ws = Numbers(6 * c.kernel * c.kernel, 1);
    Session sess("cpu");
    const Array got = sess.run(
        nn::conv2d(x, w, WindowOf(c)),
        {{x, Floats({1, 2, c.size, c.size}, xs)}, {w, Floats({3, 2, c.kernel, c.kernel}, ws)}});
    const auto [extent, before] = Extent(c);
    REQUIRE(got->dims() == Ints{1, 3, extent, extent});
    std::vector<double> want;
    for (int64_t m = 0; m < 3; ++m)
      for (int64_t i = 0; i < extent; ++i)
        for (int64_t j = 0; j < extent; ++j) {
          double sum = 0;
          for (int64_t ch = 0; ch < 2; ++ch)
            for (int64_t a = 0; a < c.kernel; ++a)
              for (int64_t b = 0; b < c.kernel; ++b) {
                const int64_t y = i * c.stride - before + a * c.dilation,
                              z = j * c.stride - before + b * c.dilation;
                if (y < 0 || z < 0 || y >= c.size || z >= c.size) continue;
                sum += xs[size_t((ch * c.size + y) * c.size + z)] *
                       ws[size_t(((m * 2 + ch) * c.kernel + a) * c.kernel + b)];
              }
          want.push_back(sum);
        }
    CheckNear(got, want, 1e-5);
  }
}

TEST_CASE("pooling: SAME and VALID; padding never counts") {
  for (const Case& c : kCases) {
    if (c.dilation != 1) continue;
    CAPTURE(Named(c));
    const Fresh fresh;
    const Tensor x = placeholder(float32, {None, 1, c.size, c.size}, "x");
    std::vector<double> xs = Numbers(c.size * c.size);
    for (double& v : xs) v -= 2;  // all negative: a zero from the padding would win
    Session sess("cpu fusion");
    const Ints kernel{c.kernel, c.kernel};
    const std::vector<Array> got =
        sess.run({nn::max_pool(x, kernel, WindowOf(c)), nn::avg_pool(x, kernel, WindowOf(c))},
                 {{x, Floats({1, 1, c.size, c.size}, xs)}});
    const auto [extent, before] = Extent(c);
    std::vector<double> most, mean;
    for (int64_t i = 0; i < extent; ++i)
      for (int64_t j = 0; j < extent; ++j) {
        double best = -1e30, sum = 0;
        int count = 0;
        for (int64_t a = 0; a < c.kernel; ++a)
          for (int64_t b = 0; b < c.kernel; ++b) {
            const int64_t y = i * c.stride - before + a, z = j * c.stride - before + b;
            if (y < 0 || z < 0 || y >= c.size || z >= c.size) continue;
            const double v = xs[size_t(y * c.size + z)];
            best = std::max(best, v);
            sum += v;
            ++count;
          }
        most.push_back(best);
        mean.push_back(sum / count);
      }
    CheckNear(got[0], most);
    CheckNear(got[1], mean);
  }
  const Fresh fresh;
  nn::Window wrong;
  wrong.padding = "FULL";
  CheckThrows(
      [&] {
        nn::max_pool(placeholder(float32, {1, 1, 4, 4}), {2, 2}, wrong);
      },
      ErrorCode::kBadAttribute, "SAME nor VALID");
}

TEST_CASE("batch_normalization: statistics of the batch, running ones, inference") {
  for (const char* config : {"cpu", "cpu fusion"}) {
    const Fresh fresh;
    const Tensor x = placeholder(float32, {None, 2, 1, 2}, "x");
    const Tensor y = nn::batch_normalization(x, "norm", 1e-3, 0.75);
    const Tensor train = group({y, group(update_ops())});
    Session sess(config);
    sess.run(initialize_all_variables());
    const std::vector<double> v{1, 3, -1, 2, 5, 7, 0, 4};  // [2, 2, 1, 2]
    const Feeds feeds{{x, Floats({2, 2, 1, 2}, v)}};
    const double mean[2] = {4, 1.25}, var[2] = {5, 3.6875};
    const std::vector<Array> got = sess.run({y, train}, feeds);
    std::vector<double> want;
    for (size_t i = 0; i < 8; ++i) {
      const size_t c = i / 2 % 2;
      want.push_back((v[i] - mean[c]) / std::sqrt(var[c] + 1e-3));
    }
    CheckNear(got[0], want, 1e-5);
    const auto named = [&](const std::string& name) {
      for (const Tensor& t : all_variables())
        if (t.name() == name) return sess.value(t);
      return Array();
    };
    CheckNear(named("norm/mean"), {0.25 * 4, 0.25 * 1.25});
    CheckNear(named("norm/variance"), {0.75 + 0.25 * 5, 0.75 + 0.25 * 3.6875});
    // Inference reads the running statistics and writes nothing.
    const Array inferred = sess.run(y, feeds, Mode::kInference);
    std::vector<double> expected;
    const double running[2] = {1, 0.3125}, spread[2] = {2, 1.671875};
    for (size_t i = 0; i < 8; ++i)
      expected.push_back((v[i] - running[i / 2 % 2]) / std::sqrt(spread[i / 2 % 2] + 1e-3));
    CheckNear(inferred, expected, 1e-5);
    CheckNear(named("norm/mean"), {1, 0.3125});
  }
}

TEST_CASE("dropout: the share that is kept, one mask forward and backward, a new one each step") {
  for (const char* config : {"cpu", "cpu fusion"}) {
    const Fresh fresh;
    set_random_seed(3);
    const Tensor x = placeholder(float32, {None}, "x");
    const Tensor a = nn::dropout(x, 0.25), b = nn::dropout(x, 0.25);
    const Tensor g = gradients(reduce_sum(a * 2), {x})[0];
    const Tensor step = group(update_ops());
    Session sess(config);
    sess.run(initialize_all_variables());
    const Feeds feeds{{x, Floats({8000}, std::vector<double>(8000, 1))}};
    const std::vector<Array> first = sess.run({a, g, b, step}, feeds);
    const std::vector<Array> second = sess.run({a, g, b, step}, feeds);
    int64_t kept = 0, both = 0;
    for (int64_t i = 0; i < 8000; ++i) {
      const double v = first[0]->at(i);
      CHECK((v == 0 || std::abs(v - 4.0 / 3) < 1e-6));
      CHECK(std::abs(first[1]->at(i) - 2 * v) < 1e-5);
      kept += v != 0;
      both += v != 0 && first[2]->at(i) != 0;
    }
    CHECK(std::abs(double(kept) / 8000 - 0.75) < 0.02);
    CHECK(std::abs(double(both) / 8000 - 0.5625) < 0.02);  // the two are independent
    CHECK(!SameBits(first[0], second[0]));
    CheckNear(sess.run(reduce_mean(a), feeds, Mode::kInference), {1});
  }
  CheckThrows([] { nn::dropout(placeholder(float32, {1}), 1); }, ErrorCode::kBadAttribute, "rate");
}

TEST_CASE("losses agree with each other and with the formula") {
  const Fresh fresh;
  const Tensor z = placeholder(float32, {None, 3}, "z"), k = placeholder(int64, {None}, "k");
  const Tensor sparse = nn::mean_sparse_softmax_cross_entropy_with_logits(z, k);
  const Tensor dense = reduce_mean(nn::softmax_cross_entropy_with_logits(z, one_hot(k, 3)));
  Session sess("cpu fusion");
  const std::vector<double> v{1, 2, 3, -50, 0, 50};
  const std::vector<Array> got =
      sess.run({sparse, dense, gradients(sparse, {z})[0], gradients(dense, {z})[0]},
               {{z, Floats({2, 3}, v)}, {k, Classes({0, 2})}});
  double loss = 0;
  std::vector<double> grad;
  for (int i = 0; i < 2; ++i) {
    double sum = 0;
    for (int j = 0; j < 3; ++j) sum += std::exp(v[size_t(3 * i + j)] - v[size_t(3 * i + 2)]);
    const int label = i == 0 ? 0 : 2;
    loss -= (v[size_t(3 * i + label)] - v[size_t(3 * i + 2)] - std::log(sum)) / 2;
    for (int j = 0; j < 3; ++j)
      grad.push_back((std::exp(v[size_t(3 * i + j)] - v[size_t(3 * i + 2)]) / sum - (j == label)) /
                     2);
  }
  for (int i = 0; i < 2; ++i) CheckNear(got[size_t(i)], {loss});
  for (int i = 2; i < 4; ++i) CheckNear(got[size_t(i)], grad);
}

TEST_CASE("shapes of variables follow from placeholders") {
  const Fresh fresh;
  const Tensor x = placeholder(float32, "x"), k = placeholder(int64, "k");
  Tensor h = nn::max_pool(nn::relu(nn::conv2d(x, {4, {3, 3}}, "conv")), 2);
  h = nn::batch_normalization(h, "norm");
  const Tensor logits = nn::linear(h, 10, "fc");
  const Tensor loss = nn::mean_sparse_softmax_cross_entropy_with_logits(logits, k);
  CheckThrows([] { initialize_all_variables(); }, ErrorCode::kShapeMismatch, "conv/weight");
  CheckThrows([&] { infer_variable_shapes(loss, {}); }, ErrorCode::kShapeMismatch, "conv/weight");
  const auto found = infer_variable_shapes(loss, {{x, {5, 2, 10, 10}}, {k, {5}}});
  std::vector<std::pair<std::string, Ints>> shapes;
  for (const InferredVariable& v : found) shapes.emplace_back(v.name, v.shape);
  const std::vector<std::pair<std::string, Ints>> want{
      {"conv/weight", {4, 2, 3, 3}}, {"conv/bias", {4}}, {"norm/scale", {4}},
      {"norm/offset", {4}},          {"norm/mean", {4}}, {"norm/variance", {4}},
      {"fc/weight", {64, 10}},       {"fc/bias", {10}}};
  CHECK(shapes == want);
  Session sess("cpu fusion");
  sess.run(initialize_all_variables());
  // The batch of the shapes that were given binds nobody.
  const Array y = sess.run(logits, {{x, Floats({3, 2, 10, 10}, Numbers(600))}});
  CHECK(y->dims() == Ints{3, 10});
}

TEST_CASE("first values of layers") {
  const Fresh fresh;
  const Tensor x = placeholder(float32, {None, 3, 8, 8}, "x");
  nn::Conv2d layer{32, {5, 5}};
  nn::conv2d(x, layer, "uniform");
  layer.init = nn::Init::kHeNormal;
  layer.bias = false;
  nn::conv2d(x, layer, "he");
  Session sess("cpu fusion");
  sess.run(initialize_all_variables());
  for (const Tensor& v : all_variables()) {
    double most = 0, squares = 0;
    for (const double e : Values(sess.value(v))) {
      most = std::max(most, std::abs(e));
      squares += e * e;
    }
    const double rms = std::sqrt(squares / double(sess.value(v)->num_elements()));
    CAPTURE(v.name());
    if (v.name() == "he/weight")
      CHECK(rms == doctest::Approx(std::sqrt(2.0 / 75)).epsilon(0.05));
    else
      CHECK(most <= 1 / std::sqrt(75.0));
    if (v.name() == "uniform/weight")
      CHECK(rms == doctest::Approx(1 / std::sqrt(3 * 75.0)).epsilon(0.05));
  }
  CHECK(all_variables().size() == 3);
}

}  // namespace
}  // namespace tf::test
