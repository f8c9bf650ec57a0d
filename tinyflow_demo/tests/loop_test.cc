/// loop_test.cc: loops against the same loops in double precision, their gradients against
/// differences and against the steps written out.
#include <algorithm>
#include <functional>

#include "tests/util.h"

namespace tf::test {
namespace {

using weft::ErrorCode;

const char* const kSessions[] = {"cpu", "cpu fusion"};

TEST_CASE("while_loop: the data say how often, and the gradient is that of the steps") {
  for (const char* config : kSessions) {
    CAPTURE(config);
    const Fresh fresh;
    const Tensor a = placeholder(float32, {None}, "a");
    int built = 0;
    // Doubles until the greatest is above 100; squares are added up on the way.
    const Tensors end =
        while_loop([](const Tensors& s) { return reduce_max(s[0]) < 100; },
                   [&](const Tensors& s) {
                     ++built;
                     return Tensors{s[0] * 2 + 0.25 * a, s[1] + s[0] * s[0], s[2] + 1};
                   },
                   {a, zeros_like(a), constant(0, int64)});
    CHECK(built == 1);
    const Tensor y = reduce_sum(end[0]) + 0.125 * reduce_sum(end[1]);
    const Tensor g = gradients(y, {a})[0];
    Session sess(config);
    const auto f = [](std::vector<double> v, int* times) {
      const std::vector<double> a0 = v;
      double sum = 0;
      *times = 0;
      for (; *std::max_element(v.begin(), v.end()) < 100; ++*times)
        for (size_t i = 0; i < v.size(); ++i) {
          sum += 0.125 * v[i] * v[i];
          v[i] = v[i] * 2 + 0.25 * a0[i];
        }
      for (const double e : v) sum += e;
      return sum;
    };
    for (const std::vector<double>& v :
         {std::vector<double>{1, -0.5, 3}, {30, 1}, {0.4, 0.1, 0.2, 0.3, -1}, {200}}) {
      int times = 0;
      const double want = f(v, &times);
      const std::vector<Array> got =
          sess.run({end[2], y, g}, {{a, Floats({int64_t(v.size())}, v)}});
      CHECK(got[0]->at_int(0) == times);
      CheckNear(got[1], {want});
      std::vector<double> slopes;
      for (size_t i = 0; i < v.size(); ++i) {
        std::vector<double> up = v, down = v;
        up[i] += 1e-5, down[i] -= 1e-5;
        int ignored = 0;
        slopes.push_back((f(up, &ignored) - f(down, &ignored)) / 2e-5);
      }
      CheckNear(got[2], slopes, 1e-4);
    }
    CHECK(sess.compiled() == 1);  // as often as it runs, over as many numbers
  }
}

TEST_CASE("for_loop: a count that is fed; layers in it have one set of variables") {
  for (const char* config : kSessions) {
    CAPTURE(config);
    const Fresh fresh;
    set_random_seed(3);
    const Tensor count = placeholder(int64, {}, "count"), x = placeholder(float32, {None, 3}, "x");
    const auto layer = [](const Tensor& h, const Tensor& w, const Tensor& b, const Tensor& i) {
      return nn::tanh(matmul(h, w) + b) + 0.1 * cast(i, float32);
    };
    const Tensor h = for_loop(count,
                              [&](const Tensor& i, const Tensors& s) {
                                const NameScope scope("deep");
                                const Tensor y = nn::tanh(nn::linear(s[0], 3, "fc"));
                                return Tensors{y + 0.1 * cast(i, float32)};
                              },
                              {x})[0];
    const std::vector<Tensor> v = trainable_variables();
    REQUIRE(v.size() == 2);
    CHECK(v[0].name() == "deep/fc/weight");
    Tensor written = x;
    for (int i = 0; i < 4; ++i) written = layer(written, v[0], v[1], constant(i, int64));
    const auto fetches = [&](const Tensor& y) {
      Tensors f = gradients(reduce_sum(square(y)), {v[0], v[1], x});
      f.push_back(y);
      return f;
    };
    const Tensors looped = fetches(h), plain = fetches(written);
    Session sess(config);
    sess.run(initialize_all_variables());
    const Array fed = Floats({2, 3}, Numbers(6));
    const std::vector<Array> want = sess.run(plain, {{x, fed}});
    const std::vector<Array> got =
        sess.run(looped, {{x, fed}, {count, weft::Tensor::Scalar(int64, 4)}});
    for (size_t i = 0; i < want.size(); ++i) CheckNear(got[i], Values(want[i]));
    // No times at all.
    const std::vector<Array> none =
        sess.run(looped, {{x, fed}, {count, weft::Tensor::Scalar(int64, 0)}});
    CheckNear(none[3], Values(fed));
    for (const double e : Values(none[0])) CHECK(e == 0);
    for (int64_t i = 0; i < 6; ++i) CHECK(none[2]->at(i) == doctest::Approx(2 * fed->at(i)));
  }
}

TEST_CASE("scan: from either end, what is collected lies where its slice does") {
  for (const char* config : kSessions)
    for (const bool backwards : {false, true}) {
      CAPTURE(config);
      CAPTURE(backwards);
      const Fresh fresh;
      const Tensor x = placeholder(float32, {None, 2}, "x"), w = placeholder(float32, {2}, "w");
      const Scanned s = scan(
          [&](const Tensors& state, const Tensors& slices) {
            const Tensor now = state[0] * w + slices[0];
            return Scanned{{now}, {now * now, slices[0]}};
          },
          {zeros({2})}, {x}, backwards);
      const Tensor y = reduce_sum(s.outputs[0]) + reduce_sum(s.state[0]);
      const Tensors g = gradients(y, {x, w});
      Session sess(config);
      const std::vector<double> xs = Numbers(10), ws{0.5, -0.8};
      const auto f = [&](const std::vector<double>& v, const std::vector<double>& c,
                         std::vector<double>* out) {
        double h[2] = {0, 0}, sum = 0;
        out->assign(10, 0);
        for (int k = 0; k < 5; ++k) {
          const int t = backwards ? 4 - k : k;
          for (int j = 0; j < 2; ++j) {
            h[j] = h[j] * c[size_t(j)] + v[size_t(2 * t + j)];
            (*out)[size_t(2 * t + j)] = h[j] * h[j];
            sum += h[j] * h[j];
          }
        }
        return sum + h[0] + h[1];
      };
      std::vector<double> squares, ignored;
      const double want = f(xs, ws, &squares);
      const std::vector<Array> got = sess.run({y, s.outputs[0], s.outputs[1], g[0], g[1]},
                                              {{x, Floats({5, 2}, xs)}, {w, Floats({2}, ws)}});
      CheckNear(got[0], {want});
      CheckNear(got[1], squares);
      CheckNear(got[2], xs);
      std::vector<double> dx, dw;
      for (size_t i = 0; i < xs.size() + ws.size(); ++i) {
        std::vector<double> v = xs, c = ws;
        double& e = i < xs.size() ? v[i] : c[i - xs.size()];
        const double at = e;
        e = at + 1e-5;
        const double up = f(v, c, &ignored);
        e = at - 1e-5;
        (i < xs.size() ? dx : dw).push_back((up - f(v, c, &ignored)) / 2e-5);
      }
      CheckNear(got[3], dx, 1e-4);
      CheckNear(got[4], dw, 1e-4);
    }
}

TEST_CASE("a loop in a loop reads from all graphs around it") {
  for (const char* config : kSessions) {
    CAPTURE(config);
    const Fresh fresh;
    const Tensor x = placeholder(float32, {None}, "x"), w = Variable(constant(0.5), "w");
    const Tensor y = for_loop(
        constant(3, int64),
        [&](const Tensor& i, const Tensors& s) {
          const Tensor step = cast(i, float32) + w;
          return for_loop(
              i + 1,
              [&](const Tensor&, const Tensors& inner) { return Tensors{inner[0] * w + step * x}; },
              s);
        },
        {x})[0];
    const Tensors g = gradients(reduce_sum(y), {x, w});
    const auto f = [](double v, double c) {
      double s = v;
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j <= i; ++j) s = s * c + (i + c) * v;
      return s;
    };
    Session sess(config);
    sess.run(initialize_all_variables());
    const std::vector<double> xs{0.7, -1.2};
    const std::vector<Array> got = sess.run({y, g[0], g[1]}, {{x, Floats({2}, xs)}});
    std::vector<double> want, dx;
    double dw = 0;
    for (const double v : xs) {
      want.push_back(f(v, 0.5));
      dx.push_back((f(v + 1e-5, 0.5) - f(v - 1e-5, 0.5)) / 2e-5);
      dw += (f(v, 0.5 + 1e-5) - f(v, 0.5 - 1e-5)) / 2e-5;
    }
    CheckNear(got[0], want);
    CheckNear(got[1], dx, 1e-4);
    CheckNear(got[2], {dw}, 1e-4);
  }
}

TEST_CASE("dropout in a loop: one mask for all iterations, none in inference") {
  for (const char* config : kSessions) {
    CAPTURE(config);
    const Fresh fresh;
    const Tensor x = placeholder(float32, {1000}, "x");
    const Tensor y = for_loop(
        constant(3, int64),
        [](const Tensor&, const Tensors& s) { return Tensors{nn::dropout(s[0], 0.5)}; }, {x})[0];
    Session sess(config);
    sess.run(initialize_all_variables());
    const Feeds feeds{{x, Floats({1000}, std::vector<double>(1000, 1))}};
    int kept = 0;
    for (const double v : Values(sess.run(y, feeds))) {
      CHECK((v == 0 || v == 8));
      kept += v != 0;
    }
    CHECK(kept > 400);
    CHECK(kept < 600);
    for (const double v : Values(sess.run(y, feeds, Mode::kInference))) CHECK(v == 1);
  }
}

TEST_CASE("what a loop refuses") {
  const Fresh fresh;
  const Tensor x = placeholder(float32, {2}, "x"), n = constant(3, int64);
  const auto body = [&](const std::function<Tensors(const Tensors&)>& f) {
    return [&, f] { for_loop(n, [&](const Tensor&, const Tensors& s) { return f(s); }, {x}); };
  };
  CheckThrows(body([](const Tensors& s) {
                return Tensors{s[0], s[0]};
              }),
              ErrorCode::kArity, "a state of 1 tensors, the body gives 2");
  CheckThrows(body([](const Tensors& s) { return Tensors{cast(s[0], int64)}; }),
              ErrorCode::kTypeMismatch, "f32 before an iteration and i64 after it");
  CheckThrows(body([](const Tensors& s) {
                return Tensors{concat({s[0], s[0]}, 0)};
              }),
              ErrorCode::kShapeMismatch, "[2] before an iteration and [4] after it");
  CheckThrows(body([](const Tensors&) { return Tensors{Tensor()}; }), ErrorCode::kApiMisuse,
              "null");
  CheckThrows(body([](const Tensors& s) { return Tensors{placeholder(float32, {2}) + s[0]}; }),
              ErrorCode::kApiMisuse, "in the body of a loop");
  const Tensor v = Variable(zeros({2}), "v");
  CheckThrows(body([&](const Tensors& s) { return Tensors{assign(v, s[0])}; }),
              ErrorCode::kApiMisuse, "assign to 'v' in the body of a loop");
  CheckThrows(body([&](const Tensors& s) { return Tensors{s[0] + Variable(ones({2}), "w")}; }),
              ErrorCode::kApiMisuse, "'w'");
  CheckThrows(body([](const Tensors& s) {
                return Tensors{nn::batch_normalization(reshape(s[0], {1, 2}), "norm")};
              }),
              ErrorCode::kApiMisuse, "in the body of a loop");
  CheckThrows([&] { for_loop(x, [](const Tensor&, const Tensors& s) { return s; }, {x}); },
              ErrorCode::kTypeMismatch, "the count is not i64");
  const auto same = [](const Tensors& s) { return s; };
  CheckThrows([&] { while_loop([](const Tensors& s) { return s[0]; }, same, {x}); },
              ErrorCode::kTypeMismatch, "the condition is not a boolean");
  CheckThrows(
      [&] {
        scan([](const Tensors& s, const Tensors&) { return Scanned{s, {}}; }, {x}, {});
      },
      ErrorCode::kArity, "nothing to go along");
  Tensor leaked;
  body([&](const Tensors& s) { return Tensors{leaked = s[0] * 2}; })();
  CheckThrows([&] { leaked + leaked; }, ErrorCode::kApiMisuse, "body of a loop");
  CheckThrows([&] { leaked + x; }, ErrorCode::kApiMisuse, "body of a loop");
}

}  // namespace
}  // namespace tf::test
