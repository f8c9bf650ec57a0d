/// normalization_test.cc: normalisations of data whose mean is large against its deviation, as operators and as the function
/// bodies of ONNX write them out, against float64 computed from the same inputs.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "e2e_util.h"
#include "large_mean.h"
#include "weft/core/builtin_ops.h"

namespace {

using namespace weft;
using namespace weft::e2e;

/// In double: elements of one key are normalised together.
std::vector<double> Normalized(const Tensor& x, const std::function<int64_t(int64_t)>& key,
                               double epsilon) {
  std::vector<double> mean(size_t(x.num_elements())), square = mean, count = mean;
  for (int64_t i = 0; i < x.num_elements(); ++i)
    mean[size_t(key(i))] += x.at(i), ++count[size_t(key(i))];
  for (size_t k = 0; k < mean.size(); ++k) mean[k] /= std::max(count[k], 1.0);
  for (int64_t i = 0; i < x.num_elements(); ++i)
    square[size_t(key(i))] += std::pow(x.at(i) - mean[size_t(key(i))], 2) / count[size_t(key(i))];
  std::vector<double> y;
  for (int64_t i = 0; i < x.num_elements(); ++i)
    y.push_back((x.at(i) - mean[size_t(key(i))]) / std::sqrt(square[size_t(key(i))] + epsilon));
  return y;
}

struct Form {
  const char* name;
  std::string body;  ///< from %x, %s and %b to %y
  int64_t (*key)(int64_t);
  double epsilon = 1e-5;
};

const std::string kConstants =
    "  %ax = Constant() {value = tensor i64[1] [2]} : ?\n"
    "  %two = Constant() {value = tensor f32[] [2.0]} : ?\n"
    "  %n = Constant() {value = tensor f32[] [96.0]} : ?\n"
    "  %over = Constant() {value = tensor f32[] [0.010416667]} : ?\n"
    "  %e = Constant() {value = tensor f32[] [0.00001]} : ?\n";
const std::string kRest =
    "  %ve = Add(%v, %e) : ?\n  %sd = Sqrt(%ve) : ?\n  %c = Sub(%x, %m) : ?\n  %y = Div(%c, %sd) : "
    "?\n";
const std::string kMean = "  %m = ReduceMean(%x, %ax) : ?\n";

std::vector<Form> Operators() {
  return {
      {"GroupNormalization", "  %y = GroupNormalization(%x, %s, %b) {num_groups = 2} : ?\n", Group},
      {"MeanVarianceNormalization", "  %y = MeanVarianceNormalization(%x) {axes = [0, 2]} : ?\n",
       Channel, 0},
      {"InstanceNormalization", "  %y = InstanceNormalization(%x, %s, %b) : ?\n", Row},
      {"LayerNormalization",
       "  %w = Constant() {value = tensor f32[1] [1.0]} : ?\n"
       "  %y, %lm, %li = LayerNormalization(%x, %w) : ?, ?, ?\n",
       Row},
      {"BatchNormalization in training",
       "  %y, %rm, %rv = BatchNormalization(%x, %s, %b, %b, %s) {training_mode = 1} : ?, ?, ?\n",
       Channel},
  };
}
std::vector<Form> WrittenOut() {
  return {
      {"products",
       kMean + "  %q = Mul(%x, %x) : ?\n  %mq = ReduceMean(%q, %ax) : ?\n  %mm = Mul(%m, %m) : ?\n"
               "  %v = Sub(%mq, %mm) : ?\n",
       Row},
      {"powers",
       kMean + "  %q = Pow(%x, %two) : ?\n  %mq = ReduceMean(%q, %ax) : ?\n"
               "  %mm = Pow(%m, %two) : ?\n  %v = Sub(%mq, %mm) : ?\n",
       Row},
      {"sums of squares divided by the count",
       "  %sm = ReduceSum(%x, %ax) : ?\n  %m = Div(%sm, %n) : ?\n"
       "  %sq = ReduceSumSquare(%x, %ax) : ?\n  %mq = Div(%sq, %n) : ?\n"
       "  %mm = Mul(%m, %m) : ?\n  %v = Sub(%mq, %mm) : ?\n",
       Row},
      {"the square of the sum",
       kMean + "  %sm = ReduceSum(%x, %ax) : ?\n  %sq = ReduceSumSquare(%x, %ax) : ?\n"
               "  %ss = Mul(%sm, %sm) : ?\n  %sn = Mul(%ss, %over) : ?\n  %dv = Sub(%sq, %sn) : ?\n"
               "  %v = Mul(%dv, %over) : ?\n",
       Row},
      {"a negative term",
       kMean + "  %q = Mul(%x, %x) : ?\n  %mq = ReduceMean(%q, %ax) : ?\n  %mm = Mul(%m, %m) : ?\n"
               "  %nm = Neg(%mm) : ?\n  %v = Add(%nm, %mq) : ?\n",
       Row},
      {"global pooling",
       "  %m = GlobalAveragePool(%x) : ?\n  %q = Mul(%x, %x) : ?\n"
       "  %mq = GlobalAveragePool(%q) : ?\n  %mm = Mul(%m, %m) : ?\n  %v = Sub(%mq, %mm) : ?\n",
       Row},
      {"axes that go and come back",
       kMean + "  %q = Mul(%x, %x) : ?\n  %mq = ReduceMean(%q, %ax) {keepdims = 0} : ?\n"
               "  %m0 = ReduceMean(%x, %ax) {keepdims = 0} : ?\n  %mm = Mul(%m0, %m0) : ?\n"
               "  %v0 = Sub(%mq, %mm) : ?\n  %v = Unsqueeze(%v0, %ax) : ?\n",
       Row},
  };
}

Graph GraphOf(const Form& f, bool written, const std::string& images = "2") {
  return FromText("graph (%x: f32[" + images + ", 4, 96]) -> (%y) {\n" +
                  "  %s = Constant() {value = tensor f32[4] [1.0, 1.0, 1.0, 1.0]} : ?\n"
                  "  %b = Constant() {value = tensor f32[4] [0.0, 0.0, 0.0, 0.0]} : ?\n" +
                  (written ? kConstants : "") + f.body + (written ? kRest : "") + "}");
}

void CheckNormal(const Tensor& y, const Tensor& x, const Form& f, double tolerance) {
  const std::vector<double> want = Normalized(x, f.key, f.epsilon);
  double worst = 0;
  for (int64_t i = 0; i < y.num_elements(); ++i) {
    const double off = std::fabs(y.at(i) - want[size_t(i)]);
    if (!(off <= worst)) worst = off;
  }
  CHECK(worst <= tolerance);
}

TEST_CASE("normalisations at mean / deviation up to 1e6: cpu, cpu:no-fusion, ref") {
  for (const Form& f : Operators()) {
    CAPTURE(f.name);
    for (const std::string& images : {std::string("2"), std::string("n")}) {
      CAPTURE(images);
      const Graph g = GraphOf(f, false, images);
      std::vector<std::shared_ptr<const Program>> programs;
      if (HasCpu()) {
        CompileOptions options;
        programs.push_back(Compile(g, options));
        options.fusion = false;
        programs.push_back(Compile(g, options));
      }
      programs.push_back(CompileFor(g, "ref"));
      for (double ratio : {0.0, 1e2, 1e4, 1e6}) {
        CAPTURE(ratio);
        const TensorPtr x = Around(0.6 * ratio);
        // Sums in f64 over rows of unknown length lose 2^-53 of the ratio squared; else nothing depends on it.
        const double tolerance = images == "n" && ratio > 1e5 ? 5e-3 : 1e-5;
        for (size_t p = 0; p < programs.size(); ++p) {
          CAPTURE(p);
          CheckNormal(*Session(programs[p]).Run({x})[0], *x, f, tolerance);
        }
      }
    }
  }
}

TEST_CASE("variances written out as E[x^2] - E[x]^2 at mean / deviation up to 1e6") {
  if (!HasCpu()) return;
  for (const Form& f : WrittenOut()) {
    CAPTURE(f.name);
    const auto program = CompileFor(GraphOf(f, true), "cpu");
    CHECK(program->stats().kernels == 1);
    for (double ratio : {0.0, 1e2, 1e4, 1e6}) {
      CAPTURE(ratio);
      const TensorPtr x = Around(0.6 * ratio);
      CheckNormal(*Session(program).Run({x})[0], *x, f, 1e-5);
    }
  }
}

TEST_CASE("normalisations of one number that is far from all others") {
  if (!HasCpu()) return;
  for (const Form& f : Operators()) {
    CAPTURE(f.name);
    const auto program = CompileFor(GraphOf(f, false), "cpu");
    for (const int64_t at : {int64_t{0}, kPoints / 2, kPoints - 1}) {
      CAPTURE(at);
      auto x = std::make_shared<Tensor>(*Around(1e4));
      for (int64_t row = 0; row < kImages * kChannels; ++row) x->set(row * kPoints + at, 0);
      CheckNormal(*Session(program).Run({x})[0], *x, f, 2e-4);
    }
  }
}

TEST_CASE("one kernel: normalisations with what is before and behind them") {
  if (!HasCpu()) return;
  for (const Form& f : Operators()) {
    CAPTURE(f.name);
    std::string body = f.body;
    body.replace(body.find("(%x"), 3, "(%u");
    body.replace(body.find("%y"), 2, "%z");
    const Graph g = FromText(
        "graph (%x: f32[2, 4, 96]) -> (%y) {\n"
        "  %s = Constant() {value = tensor f32[4] [1.0, 1.0, 1.0, 1.0]} : ?\n"
        "  %b = Constant() {value = tensor f32[4] [0.0, 0.0, 0.0, 0.0]} : ?\n"
        "  %u = Exp(%x) : ?\n" +
        body + "  %y = Sigmoid(%z) : ?\n}");
    const auto program = CompileFor(g, "cpu");
    // A view lies between a group and what is before it.
    CHECK(program->stats().kernels <= (f.key == Group ? 2 : 1));
    const Reference want = RunReference(g, 5);
    CHECK(Difference(Session(program).Run(want.inputs), want.outputs, 1e-5, 1e-5) <= 1);
  }
}

}  // namespace
