/// train_test.cc: update rules and schedules against the same rules in double precision.
#include <functional>

#include "tests/util.h"

namespace tf::test {
namespace {

using train::AdamOptimizer;
using train::AdamWOptimizer;
using train::GradientDescentOptimizer;
using train::MomentumOptimizer;

constexpr int kSteps = 25;
constexpr double kFirst = 0.8, kTarget = -0.3;

/// f(x) = (x - target)^4 + x^2 on one number, and on a vector of the same.
double Gradient(double x) { return 4 * std::pow(x - kTarget, 3) + 2 * x; }

/// Minimizes f with `optimizer` in a session and with `rule(x, g, step from 1)` here.
void Compare(train::Optimizer& optimizer, const std::function<double(double, double, int)>& rule,
             double tolerance = 2e-5) {
  for (const char* config : {"cpu", "cpu fusion"}) {
    CAPTURE(config);
    const Tensor x = Variable(constant(Floats({3}, {kFirst, kFirst, kFirst})), "x");
    const Tensor y = Variable(constant(Floats({}, {kFirst})), "y");
    const Tensor loss = reduce_sum(pow(x - kTarget, 4) + x * x) + pow(y - kTarget, 4) + y * y;
    const Tensor step = optimizer.minimize(loss, {x, y});
    Session sess(config);
    sess.run(initialize_all_variables());
    for (int t = 1; t <= kSteps; ++t) sess.run(step);
    double want = kFirst;
    for (int t = 1; t <= kSteps; ++t) want = rule(want, Gradient(want), t);
    CheckNear(sess.value(x), {want, want, want}, tolerance);
    CheckNear(sess.value(y), {want}, tolerance);
    reset_default_graph();
  }
}

TEST_CASE("gradient descent") {
  const Fresh fresh;
  GradientDescentOptimizer o(0.05);
  Compare(o, [](double x, double g, int) { return x - 0.05 * g; });
}

TEST_CASE("momentum, plain, with Nesterov's look ahead, with decay") {
  for (const bool nesterov : {false, true}) {
    const Fresh fresh;
    double v = 0;
    MomentumOptimizer o(0.02, 0.8, nesterov, 0.1);
    Compare(o, [&](double x, double g, int t) {
      if (t == 1) v = 0;
      g += 0.1 * x;
      v = 0.8 * v + g;
      return x - 0.02 * (nesterov ? g + 0.8 * v : v);
    });
  }
}

double Adam(double x, double g, int t, double rate, double* m, double* v) {
  if (t == 1) *m = *v = 0;
  *m = 0.9 * *m + 0.1 * g;
  *v = 0.999 * *v + 0.001 * g * g;
  const double c1 = 1 - std::pow(0.9, t), c2 = 1 - std::pow(0.999, t);
  return x - rate / c1 * *m / (std::sqrt(*v / c2) + 1e-8);
}

TEST_CASE("Adam") {
  const Fresh fresh;
  double m = 0, v = 0;
  AdamOptimizer o(0.05);
  Compare(o, [&](double x, double g, int t) { return Adam(x, g, t, 0.05, &m, &v); });
}

TEST_CASE("AdamW takes its decay off the variable") {
  const Fresh fresh;
  double m = 0, v = 0;
  AdamWOptimizer o(0.05, 0.3);
  Compare(o,
          [&](double x, double g, int t) { return Adam(x, g, t, 0.05, &m, &v) - 0.05 * 0.3 * x; });
}

TEST_CASE("schedules") {
  const Fresh fresh;
  const Tensor step = train::global_step();
  const Tensor exponential = train::exponential_decay(0.5, 10, 0.25),
               cosine = train::cosine_decay(2, 100, 10, 0.5), plain = train::cosine_decay(1, 100),
               pieces = train::piecewise_constant({3, 7}, {1, 0.1, 0.01});
  CHECK(train::global_step().name() == step.name());
  Session sess("cpu fusion");
  for (const int t : {0, 2, 3, 6, 7, 10, 55, 100, 130}) {
    CAPTURE(t);
    sess.set(step, Floats({}, {double(t)}));
    const std::vector<Array> got = sess.run({exponential, cosine, plain, pieces});
    const double pi = std::acos(-1.0), done = std::min(1.0, std::max(0, t - 10) / 90.0);
    CheckNear(got[0], {0.5 * std::pow(0.25, t / 10.0)});
    CheckNear(got[1], {t < 10 ? 2 * (t + 1) / 10.0 : 0.5 + 1.5 * 0.5 * (1 + std::cos(pi * done))});
    CheckNear(got[2], {0.5 * (1 + std::cos(pi * std::min(1.0, t / 100.0)))});
    CheckNear(got[3], {t < 3 ? 1 : t < 7 ? 0.1 : 0.01});
  }
  CheckThrows([] { train::piecewise_constant({1}, {1}); }, weft::ErrorCode::kApiMisuse, "need 2");
}

TEST_CASE("a schedule moves with the steps of an optimizer") {
  const Fresh fresh;
  const Tensor x = Variable(zeros({}), "x");
  const Tensor step =
      GradientDescentOptimizer(train::piecewise_constant({2}, {1, 0.5})).minimize(x * 1.0);
  Session sess("cpu fusion");
  sess.run(initialize_all_variables());
  for (int i = 0; i < 4; ++i) sess.run(step);
  CheckNear(sess.value(x), {-3});  // 1 + 1 + 0.5 + 0.5
  CheckNear(sess.value(train::global_step()), {4});
}

TEST_CASE("a rate that decays by itself") {
  const Fresh fresh;
  const Tensor x = Variable(zeros({}), "x");
  const Tensor step = GradientDescentOptimizer(train::Rate::Decaying(1, 0.25, 2)).minimize(x * 1.0);
  Session sess("cpu fusion");
  sess.run(initialize_all_variables());
  for (int i = 0; i < 4; ++i) sess.run(step);
  CheckNear(sess.value(x), {-(1 + 0.5 + 0.25 + 0.125)});
}

TEST_CASE("the learning rate is a variable that can be set") {
  const Fresh fresh;
  const Tensor x = Variable(zeros({}), "x");
  const Tensor step = GradientDescentOptimizer(1).minimize(x * 1.0);
  Session sess("cpu");
  sess.run(initialize_all_variables());
  sess.run(step);
  for (const Tensor& v : all_variables())
    if (v.name() == "optimizer/learning_rate") sess.set(v, Floats({}, {0.25}));
  sess.run(step);
  CheckNear(sess.value(x), {-1.25});
}

TEST_CASE("optimizers ask for shapes that are known") {
  const Fresh fresh;
  const Tensor loss = reduce_sum(nn::linear(placeholder(float32, "x"), 3, "fc"));
  CheckThrows([&] { AdamOptimizer().minimize(loss); }, weft::ErrorCode::kShapeMismatch,
              "infer_variable_shapes");
}

}  // namespace
}  // namespace tf::test
