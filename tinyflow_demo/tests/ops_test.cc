/// ops_test.cc: functions on tensors against the same arithmetic in double
/// precision, gradients against differences.
#include "tests/util.h"
#include "weft/codegen/expr/op_codegen.h"

namespace tf::test {
namespace {

/// Runs, and has no gradient.
WEFT_REGISTER_OP_IN(tinyflow_test, Opaque)
    .describe("y = 2 x")
    .set_num_inputs(1)
    .set_attr<weft::FInferType>("FInferType",
                                [](weft::InferTypeContext& c) { c.set_out(0, c.in(0)); })
    .set_attr<weft::FInferShape>("FInferShape",
                                 [](weft::InferShapeContext& c) { c.set_out(0, c.in(0)); })
    // In the general form: of an element-wise one the gradient would be derived.
    .set_attr<weft::FCodeGen>("FCodeGen",
                              [](const weft::NodePtr&, const std::vector<weft::TensorArg>& x,
                                 const weft::OutputAt& at) {
                                return weft::Exprs{x[0](at(0)) * 2};
                              });

const char* const kSessions[] = {"cpu", "cpu fusion"};

TEST_CASE("numbers stand on either side of every operator") {
  const std::vector<double> v = Numbers(7, 0.3);
  struct Row {
    const char* name;
    Tensor (*build)(const Tensor&);
    double (*value)(double);
  };
  const Row rows[] = {
      {"x + 2", [](const Tensor& x) { return x + 2; }, [](double x) { return x + 2; }},
      {"2 + x", [](const Tensor& x) { return 2 + x; }, [](double x) { return 2 + x; }},
      {"x - 2", [](const Tensor& x) { return x - 2; }, [](double x) { return x - 2; }},
      {"2 - x", [](const Tensor& x) { return 2 - x; }, [](double x) { return 2 - x; }},
      {"x * 2.5", [](const Tensor& x) { return x * 2.5; }, [](double x) { return x * 2.5; }},
      {"2.5 * x", [](const Tensor& x) { return 2.5 * x; }, [](double x) { return 2.5 * x; }},
      {"x / 3", [](const Tensor& x) { return x / 3; }, [](double x) { return x / 3; }},
      {"3 / x", [](const Tensor& x) { return 3 / x; }, [](double x) { return 3 / x; }},
      {"-x", [](const Tensor& x) { return -x; }, [](double x) { return -x; }},
      {"pow(x, 2)", [](const Tensor& x) { return pow(x, 2); }, [](double x) { return x * x; }},
      {"pow(2, x)", [](const Tensor& x) { return pow(2, x); },
       [](double x) { return std::pow(2, x); }},
      {"maximum(x, 0.1)", [](const Tensor& x) { return maximum(x, 0.1); },
       [](double x) { return std::max(x, 0.1); }},
      {"minimum(0.1, x)", [](const Tensor& x) { return minimum(0.1, x); },
       [](double x) { return std::min(x, 0.1); }},
      {"x > 0", [](const Tensor& x) { return cast(x > 0, float32); },
       [](double x) { return x > 0 ? 1.0 : 0.0; }},
      {"0 >= x", [](const Tensor& x) { return cast(0 >= x, float32); },
       [](double x) { return 0 >= x ? 1.0 : 0.0; }},
      {"1 / (1 + exp(-x))", [](const Tensor& x) { return 1 / (1 + exp(-x)); },
       [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"sqrt(square(x))", [](const Tensor& x) { return sqrt(square(x)); },
       [](double x) { return std::abs(x); }},
      {"log(abs(x))", [](const Tensor& x) { return log(abs(x)); },
       [](double x) { return std::log(std::abs(x)); }},
  };
  for (const char* config : kSessions) {
    const Fresh fresh;
    const Tensor x = placeholder(float32, {None}, "x");
    std::vector<Tensor> fetches;
    for (const Row& r : rows) fetches.push_back(r.build(x));
    Session sess(config);
    const std::vector<Array> got = sess.run(fetches, {{x, Floats({7}, v)}});
    for (size_t i = 0; i < fetches.size(); ++i) {
      CAPTURE(rows[i].name);
      std::vector<double> want;
      for (const double e : v) want.push_back(rows[i].value(float(e)));
      CheckNear(got[i], want, 2e-6);
    }
  }
}

TEST_CASE("a number takes the dtype of the tensor beside it") {
  const Fresh fresh;
  const Tensor n = placeholder(int64, {None}, "n");
  const Tensor twice = 2 * n + 1;
  CHECK(twice.dtype() == int64);
  Session sess("cpu");
  const Array got = sess.run(twice, {{n, Classes({1, -4, int64_t{1} << 40})}});
  CHECK(got->at_int(2) == (int64_t{1} << 41) + 1);
  const Tensor x = placeholder(float32, {None}, "x");
  CheckThrows([&] { x + n; }, weft::ErrorCode::kTypeMismatch, "cast one of them");
}

TEST_CASE("reductions, movement, comparison") {
  const Fresh fresh;
  const Tensor x = placeholder(float32, {None, 3}, "x");
  Session sess("cpu fusion");
  const Feeds feeds{{x, Floats({2, 3}, {1, 5, 3, 4, 2, 6})}};
  const std::vector<Array> got =
      sess.run({reduce_sum(x), reduce_mean(x, {0}), reduce_max(x, {1}, true), argmax(x, 1),
                transpose(x, {1, 0}), reshape(x, {3, -1}), concat({x, x}, 1),
                pad(x, {0, 1, 0, 0}, 9), where(x > 3, x, -x), equal(argmax(x, 1), argmax(-x, 1)),
                one_hot(argmax(x, 1), 3), zeros_like(x), matmul(x, transpose(x, {1, 0}))},
               feeds);
  CheckNear(got[0], {21});
  CheckNear(got[1], {2.5, 3.5, 4.5});
  CheckNear(got[2], {5, 6});
  CheckNear(got[3], {1, 2});
  CheckNear(got[4], {1, 4, 5, 2, 3, 6});
  CHECK(got[5]->dims() == Ints{3, 2});
  CheckNear(got[6], {1, 5, 3, 1, 5, 3, 4, 2, 6, 4, 2, 6});
  CheckNear(got[7], {9, 1, 5, 3, 9, 4, 2, 6});
  CheckNear(got[8], {-1, 5, -3, 4, -2, 6});
  CheckNear(got[9], {0, 0});
  CheckNear(got[10], {0, 1, 0, 0, 0, 1});
  CheckNear(got[11], {0, 0, 0, 0, 0, 0});
  CheckNear(got[12], {35, 32, 32, 56});
}

TEST_CASE("gradients of what a user composes") {
  for (const char* config : kSessions) {
    const Fresh fresh;
    const Tensor x = placeholder(float32, {None}, "x"), unused = placeholder(float32, {None}, "z");
    const Tensor y = reduce_sum(1 / (1 + exp(-x)) * pow(x, 2) + unused * 0);
    const std::vector<Tensor> g = gradients(y, {x});
    const Tensor second = gradients(reduce_sum(g[0]), {x})[0];
    const std::vector<double> v = Numbers(5);
    Session sess(config);
    const std::vector<Array> got =
        sess.run({g[0], second}, {{x, Floats({5}, v)}, {unused, Floats({5}, v)}});
    const auto f = [](double t) { return t * t / (1 + std::exp(-t)); };
    const double h = 1e-4;
    std::vector<double> d1, d2;
    for (const double t : v) {
      d1.push_back((f(t + h) - f(t - h)) / (2 * h));
      d2.push_back((f(t + h) - 2 * f(t) + f(t - h)) / (h * h));
    }
    CheckNear(got[0], d1, 1e-4);
    CheckNear(got[1], d2, 1e-3);
  }
}

TEST_CASE("gradients: zeros where nothing depends, errors where there are none") {
  const Fresh fresh;
  const Tensor x = placeholder(float32, {None}, "x"), z = placeholder(float32, {None}, "z"),
               n = placeholder(int64, {None}, "n");
  const Tensor y = reduce_sum(x * 2);
  Session sess("cpu");
  CheckNear(sess.run(gradients(y, {z})[0], {{z, Floats({3}, {1, 2, 3})}}), {0, 0, 0});
  CheckThrows([&] { gradients(y, {n}); }, weft::ErrorCode::kTypeMismatch, "'n'");
  CheckThrows([&] { gradients(n, {x}); }, weft::ErrorCode::kTypeMismatch, "floats");
  // All operators on the way that have no gradient are named.
  const Tensor a = make_node("tinyflow_test::Opaque", {x}, {}, float32, "first");
  const Tensor b = make_node("tinyflow_test::Opaque", {a * 2}, {}, float32, "second");
  CheckThrows([&] { gradients(reduce_sum(b), {x}); }, weft::ErrorCode::kUnsupported, "'first'");
  CheckThrows([&] { gradients(reduce_sum(b), {x}); }, weft::ErrorCode::kUnsupported, "'second'");
  CheckNear(sess.run(gradients(y, {x})[0], {{x, Floats({2}, {1, 2})}}), {2, 2});
}

TEST_CASE("names and scopes") {
  const Fresh fresh;
  const NameScope a("net");
  const Tensor w = Variable(zeros({2}), "w"), again = Variable(zeros({2}), "w");
  CHECK(w.name() == "net/w");
  CHECK(again.name() == "net/w_1");
  {
    const NameScope b("layer");
    CHECK(Variable(zeros({1}), "w").name() == "net/layer/w");
  }
  const NameScope second("layer");
  CHECK(Variable(zeros({1}), "w").name() == "net/layer_1/w");
  const GraphScope other;
  CHECK(Variable(zeros({1}), "w").name() == "w");
}

TEST_CASE("random values: seeded, of the right spread, independent") {
  const auto draw = [](uint64_t seed) {
    const Fresh fresh;
    set_random_seed(seed);
    const Tensor u = uniform({10000}, -2, 4), n = normal({10000}, 3, 1),
                 other = uniform({10000}, -2, 4);
    Session sess("cpu fusion");
    return sess.run({u, n, other});
  };
  const std::vector<Array> a = draw(1), b = draw(1), c = draw(2);
  for (int i = 0; i < 3; ++i) CHECK(SameBits(a[size_t(i)], b[size_t(i)]));
  CHECK(!SameBits(a[0], c[0]));
  CHECK(!SameBits(a[0], a[2]));
  const auto moments = [](const Array& t) {
    double sum = 0, squares = 0;
    for (const double v : Values(t)) {
      sum += v;
      squares += v * v;
    }
    const double mean = sum / double(t->num_elements());
    return std::pair(mean, std::sqrt(squares / double(t->num_elements()) - mean * mean));
  };
  CHECK(moments(a[0]).first == doctest::Approx(1).epsilon(0.06));
  CHECK(moments(a[0]).second == doctest::Approx(6 / std::sqrt(12.0)).epsilon(0.03));
  CHECK(moments(a[1]).first == doctest::Approx(1).epsilon(0.1));
  CHECK(moments(a[1]).second == doctest::Approx(3).epsilon(0.03));
}

}  // namespace
}  // namespace tf::test
