/// session_test.cc: programs kept, shapes that change, what must be refused, export.
#include <unistd.h>

#include <filesystem>

#include "tests/util.h"
#include "weft/onnx/import.h"
#include "weft/support/file.h"

namespace tf::test {
namespace {

namespace fs = std::filesystem;
using weft::ErrorCode;

/// y = x w + b with its loss and one step.
struct Line {
  Tensor x = placeholder(float32, {None, 2}, "x"), t = placeholder(float32, {None, 1}, "t");
  Tensor w = Variable(constant(Floats({2, 1}, {1, 2})), "w"), b = Variable(zeros({1}), "b");
  Tensor y = matmul(x, w) + b;
  Tensor loss = reduce_mean(square(y - t));
  Tensor step = train::GradientDescentOptimizer(0.1).minimize(loss);
};
Array Xs(int64_t n) { return Floats({n, 2}, Numbers(2 * n)); }
Array Ts(int64_t n) { return Floats({n, 1}, Numbers(n, 2)); }

TEST_CASE("runs that are started happen in order and give what run gives") {
  const Fresh fresh;
  const Tensor x = placeholder(float32, {2}, "x");
  const Tensor v = Variable(zeros({2}), "v");
  const Tensor add = assign(v, v + x);
  for (const char* config : {"cpu", "cpu fusion"}) {
    Session sess(config);
    sess.run(initialize_all_variables());
    const Array value = Floats({2}, {1, 10});
    std::vector<weft::PendingRun> pending;
    for (int i = 0; i < 4; ++i) pending.push_back(sess.start({add}, {{x, value}}));
    for (int i = 0; i < 4; ++i) CheckNear(pending[size_t(i)].Wait()[0], {i + 1., 10 * (i + 1.)});
    CheckNear(sess.run(add, {{x, value}}), {5, 50});
  }
}

TEST_CASE("programs are kept: training and evaluation take turns, batches change") {
  const Fresh fresh;
  const Line net;
  Session sess("cpu fusion");
  sess.run(initialize_all_variables());
  const int before = sess.compiled();
  for (int64_t n : {4, 4, 9, 1, 4}) {
    const Feeds feeds{{net.x, Xs(n)}, {net.t, Ts(n)}};
    sess.run({net.step, net.loss}, feeds);
    CHECK(sess.run(net.y, {{net.x, Xs(n)}}, Mode::kInference)->dims() == Ints{n, 1});
  }
  CHECK(sess.compiled() == before + 2);
}

TEST_CASE("a step does what the arithmetic says") {
  for (const char* config : {"cpu", "cpu fusion"}) {
    const Fresh fresh;
    const Line net;
    Session sess(config);
    sess.run(initialize_all_variables());
    double w[2] = {1, 2}, b = 0;
    for (int step = 0; step < 5; ++step) {
      const std::vector<double> x = Numbers(8), t = Numbers(4, 2);
      double gw[2] = {0, 0}, gb = 0, loss = 0;
      for (int i = 0; i < 4; ++i) {
        const double e = x[size_t(2 * i)] * w[0] + x[size_t(2 * i + 1)] * w[1] + b - t[size_t(i)];
        loss += e * e / 4;
        gw[0] += e * x[size_t(2 * i)] / 2;
        gw[1] += e * x[size_t(2 * i + 1)] / 2;
        gb += e / 2;
      }
      const auto got = sess.run({net.step, net.loss}, {{net.x, Xs(4)}, {net.t, Ts(4)}});
      CheckNear(got[1], {loss});
      w[0] -= 0.1 * gw[0];
      w[1] -= 0.1 * gw[1];
      b -= 0.1 * gb;
    }
    CheckNear(sess.value(net.w), {w[0], w[1]});
    CheckNear(sess.value(net.b), {b});
  }
}

TEST_CASE("placeholders without a declared shape take what they are fed") {
  const Fresh fresh;
  const Tensor x = placeholder(float32, "x");
  const Tensor y = reduce_sum(x * x);
  Session sess("cpu fusion");
  CheckNear(sess.run(y, {{x, Floats({2, 2}, {1, 2, 3, 4})}}), {30});
  CheckNear(sess.run(y, {{x, Floats({1, 2}, {3, 4})}}), {25});
  CHECK(sess.compiled() == 1);
  CheckNear(sess.run(y, {{x, Floats({3}, {1, 2, 2})}}), {9});
  CheckNear(sess.run(y, {{x, Floats({}, {3})}}), {9});
}

TEST_CASE("what must be refused") {
  const Fresh fresh;
  const Line net;
  Session sess("cpu fusion");
  const Feeds good{{net.x, Xs(2)}, {net.t, Ts(2)}};
  CheckThrows([&] { sess.run(net.loss, good); }, ErrorCode::kBadBinding, "'w'");
  sess.run(initialize_all_variables());
  sess.run(net.loss, good);
  SUBCASE("a missing feed") {
    CheckThrows([&] { sess.run(net.loss, {{net.x, Xs(2)}}); }, ErrorCode::kBadBinding, "'t'");
    CheckThrows([&] { sess.run(net.loss); }, ErrorCode::kBadBinding, "'x', 't'");
  }
  SUBCASE("a wrong shape") {
    CheckThrows(
        [&] {
          sess.run(net.y, {{net.x, Floats({2, 3}, Numbers(6))}});
        },
        ErrorCode::kBadInput, "x");
    CheckThrows(
        [&] {
          sess.run(net.y, {{net.x, Floats({2}, Numbers(2))}});
        },
        ErrorCode::kBadInput, "x");
    // Two batches at once.
    CHECK_THROWS_AS(sess.run(net.loss, {{net.x, Xs(2)}, {net.t, Ts(3)}}), weft::Error);
  }
  SUBCASE("a wrong dtype, twice, not a placeholder, nothing") {
    CheckThrows([&] { sess.run(net.y, {{net.x, Classes({1, 2})}}); }, ErrorCode::kBadInput, "i64");
    CheckThrows(
        [&] {
          sess.run(net.y, {{net.x, Xs(1)}, {net.x, Xs(1)}});
        },
        ErrorCode::kBadBinding, "twice");
    CheckThrows([&] { sess.run(net.y, {{net.w, Xs(1)}}); }, ErrorCode::kBadBinding, "'w'");
    CheckThrows([&] { sess.run(net.y, {{net.x, nullptr}}); }, ErrorCode::kBadInput, "'x'");
  }
  SUBCASE("tensors of another graph") {
    const GraphScope other;
    const Tensor z = placeholder(float32, {None}, "z");
    CheckThrows([&] { sess.run(z, {{z, Floats({1}, {1})}}); }, ErrorCode::kApiMisuse, "graph");
    CheckThrows([&] { z + net.x; }, ErrorCode::kApiMisuse, "two graphs");
  }
  SUBCASE("variables of another type") {
    CheckThrows([&] { sess.set(net.w, Floats({3}, {1, 2, 3})); }, ErrorCode::kBadInput, "'w'");
    CheckThrows([&] { assign(net.x, net.x); }, ErrorCode::kApiMisuse, "not a variable");
  }
  // None of it has hurt the session.
  sess.run({net.step, net.loss}, good);
}

TEST_CASE("where sessions run") {
  const Fresh fresh;
  CheckThrows([] { Session("tpu"); }, ErrorCode::kUnsupported, "there is no backend 'tpu'");
  CheckThrows([] { Session("cpu:no-fuson"); }, ErrorCode::kUsage, "did you mean 'no-fusion'");
  CheckThrows([] { Session("cpu fast"); }, ErrorCode::kUsage, "cpu fast");
  CheckThrows([] { Session(""); }, ErrorCode::kUsage, "cpu");
  CheckThrows([] { Session("gpu"); }, ErrorCode::kUnsupported, "GPU");
  CheckThrows([] { Session("gpu fusion"); }, ErrorCode::kUnsupported, "GPU");
}

TEST_CASE("a session runs on any backend") {
  const Fresh fresh;
  const Line net;
  const Feeds feeds{{net.x, Xs(4)}, {net.t, Ts(4)}};
  std::vector<double> losses;
  for (const char* config : {"cpu fusion", "cpu:no-fusion fusion", "ref", "ref fusion"}) {
    Session sess(config);
    sess.run(initialize_all_variables());
    for (int i = 0; i < 3; ++i) sess.run({net.step, net.loss}, feeds);
    losses.push_back(Values(sess.run(net.loss, feeds))[0]);
    CHECK(losses.back() == doctest::Approx(losses[0]));
  }
}

TEST_CASE("several sessions have their own variables") {
  const Fresh fresh;
  const Line net;
  Session a("cpu"), b("cpu fusion");
  const Tensor init = initialize_all_variables();
  a.run(init);
  b.run(init);
  a.run(net.step, {{net.x, Xs(3)}, {net.t, Ts(3)}});
  CHECK(!SameBits(a.value(net.w), b.value(net.w)));
  CheckNear(b.value(net.w), {1, 2});
}

TEST_CASE("assign gives the new value, reads built before see the old one") {
  for (const char* config : {"cpu", "cpu fusion"}) {
    const Fresh fresh;
    const Tensor v = Variable(constant(Floats({2}, {1, 2})), "v");
    const Tensor before = v * 10;
    const Tensor now = assign(v, v + 1);
    const Tensor after = v * 100;
    Session sess(config);
    sess.run(initialize_all_variables());
    const std::vector<Array> got = sess.run({after, now, before, group({now})});
    CheckNear(got[0], {200, 300});
    CheckNear(got[1], {2, 3});
    CheckNear(got[2], {10, 20});
    CHECK(got[3]->num_elements() == 0);
    CheckNear(sess.run(v), {2, 3});
  }
}

TEST_CASE("the least used program makes room") {
  const Fresh fresh;
  const Tensor x = placeholder(float32, {None}, "x");
  std::vector<Tensor> fetches;
  for (size_t i = 0; i <= Session::kKept; ++i) fetches.push_back(x + double(i));
  Session sess("cpu");
  const Feeds feeds{{x, Floats({1}, {1})}};
  for (const Tensor& t : fetches) sess.run(t, feeds);
  const int compiled = sess.compiled();
  sess.run(fetches.back(), feeds);
  CHECK(sess.compiled() == compiled);
  CheckNear(sess.run(fetches[0], feeds), {1});
  CHECK(sess.compiled() == compiled + 1);
}

TEST_CASE("a trained graph as ONNX") {
  const Fresh fresh;
  const Tensor x = placeholder(float32, {None, 1, 6, 6}, "x");
  Tensor h = nn::relu(nn::batch_normalization(nn::conv2d(x, {2, {3, 3}}, "conv"), "norm"));
  h = nn::dropout(nn::flatten(h), 0.5);
  const Tensor y = nn::linear(h, 3, "fc");
  const Tensor step = train::AdamOptimizer().minimize(reduce_mean(square(y)));
  Session sess("cpu fusion");
  sess.run(initialize_all_variables());
  const Feeds feeds{{x, Floats({4, 1, 6, 6}, Numbers(144))}};
  for (int i = 0; i < 3; ++i) sess.run(step, feeds);
  const fs::path file =
      fs::temp_directory_path() / ("tinyflow_export_" + std::to_string(getpid()) + ".onnx");
  sess.export_onnx({y}, {x}, file.string());
  weft::Graph g = weft::ImportOnnx(file.string());
  fs::remove(file);
  CHECK(g.inputs().size() == 1);
  weft::Session run(weft::Compile(std::move(g)));
  const Array want = sess.run(y, feeds, Mode::kInference);
  CheckNear(run.Run({feeds[0].second})[0], Values(want));
  CheckThrows([&] { sess.export_onnx({y}, {placeholder(float32, {1}, "z")}, file.string()); },
              ErrorCode::kApiMisuse, "'z'");
}

TEST_CASE("the first operator that makes a NaN is named") {
  for (const char* config : {"cpu", "cpu fusion"}) {
    const Fresh fresh;
    const Tensor x = placeholder(float32, {None}, "x");
    const Tensor v = Variable(zeros({1}), "v");
    const NameScope scope("head");
    const Tensor root = make_node("Sqrt", {x - 2}, {}, float32, "root");
    const Tensor y = reduce_sum(root * 3 + v);
    Session sess(config);
    sess.run(initialize_all_variables());
    CHECK(find_first_nan(&sess, y, {{x, Floats({2}, {3, 4})}}).empty());
    const std::string found = find_first_nan(&sess, y, {{x, Floats({2}, {3, 1})}});
    CHECK(found.find("head/root") != std::string::npos);
    CHECK(found.find("a NaN of numbers up to 1") != std::string::npos);
    CHECK(find_first_nan(&sess, y, {{x, Floats({1}, {NAN})}}) == "input 'x' holds a NaN");
    sess.set(v, Floats({1}, {INFINITY}));
    CHECK(find_first_nan(&sess, y, {{x, Floats({1}, {3})}}) == "variable 'v' holds an infinity");
  }
}

TEST_CASE("a gradient, or an update, that is not finite is named where the loss is") {
  for (const char* config : {"cpu", "cpu fusion"}) {
    const Fresh fresh;
    const Tensor v = Variable(zeros({2}), "v"), w = Variable(constant(Floats({1}, {1e30})), "w");
    const Tensor root = make_node("Sqrt", {v}, {}, float32, "root");
    const Tensor loss = reduce_sum(root) + 0 * w;
    const Tensor descent = train::GradientDescentOptimizer(0.1).minimize(loss, {v});
    const Tensor huge = assign(w, square(w));
    Session sess(config);
    sess.run(initialize_all_variables());
    CHECK(find_first_nan(&sess, loss, {}).empty());
    const std::string gradient = find_first_nan(&sess, descent, {});
    CAPTURE(gradient);
    CHECK(gradient.find("for 'root' made an infinity") != std::string::npos);
    const std::string update = find_first_nan(&sess, huge, {});
    CAPTURE(update);
    CHECK(update.find("made an infinity of numbers up to 1e+30") != std::string::npos);
    // Nothing has been assigned.
    CheckNear(sess.value(v), {0, 0});
    CheckNear(sess.value(w), {1e30});
  }
}

}  // namespace
}  // namespace tf::test
