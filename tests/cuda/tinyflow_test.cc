/// tinyflow_test.cc: the framework on "gpu" and "gpu fusion", on a driver of ours whose kernels run
/// on emulated threads (emulated_gpu.h): it trains as on the CPU, draws the same numbers, and keeps
/// variables and checkpoints as ever.
#include "tinyflow/tinyflow.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "app/bench.h"
#include "app/source.h"
#include "tests/support/e2e_util.h"
#include "tests/support/emulated_gpu.h"
#include "tests/support/temp_folder.h"

namespace {

using namespace weft::e2e;

bool HasEmulatedGpu() {
  static const bool has = HasCpu() && EmulatedGpu::StandInForCuda();
  tf::reset_default_graph();
  tf::set_random_seed(11);
  return has;
}
void CheckDriver() {
  for (const std::string& p : EmulatedGpu::TakeProblems()) FAIL_CHECK(p);
}

struct Net {
  tf::Tensor x, label, loss, step;
  std::vector<tf::Tensor> others;  ///< fetched in inference
  tf::Feeds Feeds(const tf::data::Layout& layout, int64_t batch, uint64_t seed) const {
    const tf::data::Batch b = app::RandomBatch(layout, batch, seed);
    return {{x, b.x}, {label, b.y}};
  }
};

double WorstDifference(const tf::Array& a, const tf::Array& b) {
  REQUIRE(a);
  REQUIRE(b);
  REQUIRE(a->dims() == b->dims());
  double largest = 1e-6, worst = 0;
  for (int64_t i = 0; i < a->num_elements(); ++i) {
    largest = std::max(largest, std::fabs(a->at(i)));
    worst = std::max(worst, std::fabs(a->at(i) - b->at(i)));
  }
  return worst / largest;
}

/// Trains `net` in both sessions and compares losses, every variable, and what
/// is fetched in inference.
void TrainBoth(const Net& net, const std::string& config, const tf::data::Layout& layout,
               int64_t batch, int steps) {
  CAPTURE(config);
  tf::Session cpu("cpu fusion", 2), gpu(config);
  const tf::Tensor first = tf::initialize_all_variables();
  const std::vector<tf::Tensor> fetches{net.step, net.loss};
  const tf::Feeds feeds = net.Feeds(layout, batch, 5);
  // Compiled first, so that all kernels are built at once.
  gpu.info({first}, {});
  gpu.info(fetches, feeds);
  if (!net.others.empty()) gpu.info(net.others, feeds, tf::Mode::kInference);
  EmulatedGpu::BuildKernels();

  cpu.run(first);
  gpu.run(first);
  for (const tf::Tensor& v : tf::all_variables()) {
    CAPTURE(v.name());
    CHECK(WorstDifference(gpu.value(v), cpu.value(v)) <= 1e-6);
  }
  for (int i = 0; i < steps; ++i) {
    CAPTURE(i);
    const tf::Feeds now = net.Feeds(layout, batch, uint64_t(i % 2));
    const double want = cpu.run(fetches, now)[1]->at(0), got = gpu.run(fetches, now)[1]->at(0);
    CHECK(got == doctest::Approx(want).epsilon(1e-4));
  }
  // The optimizer's state and the step of what is drawn at random are variables too.
  for (const tf::Tensor& v : tf::all_variables()) {
    CAPTURE(v.name());
    CHECK(WorstDifference(gpu.value(v), cpu.value(v)) <= (v.name() == "random_state" ? 0 : 1e-3));
  }
  for (size_t i = 0; i < net.others.size(); ++i) {
    const tf::Array want = cpu.run(net.others, feeds, tf::Mode::kInference)[i],
                    got = gpu.run(net.others, feeds, tf::Mode::kInference)[i];
    CHECK(WorstDifference(got, want) <= 1e-3);
  }
  CheckDriver();
}

Net Perceptron() {
  Net net;
  net.x = tf::placeholder(tf::float32, {tf::None, 36}, "x");
  net.label = tf::placeholder(tf::int64, {tf::None}, "label");
  tf::Tensor h = tf::nn::relu(tf::nn::linear(net.x, 24, "fc1"));
  h = tf::nn::dropout(h, 0.25);
  h = tf::nn::tanh(tf::nn::linear(h, 12, "fc2"));
  const tf::Tensor logits = tf::nn::linear(h, 10, "fc3");
  net.loss = tf::nn::mean_sparse_softmax_cross_entropy_with_logits(logits, net.label);
  net.step = tf::train::AdamOptimizer(0.01).minimize(net.loss);
  net.others = {tf::nn::softmax(logits), tf::argmax(logits, 1)};
  return net;
}
Net Convolutions() {
  Net net;
  net.x = tf::placeholder(tf::float32, {tf::None, 1, 12, 12}, "x");
  net.label = tf::placeholder(tf::int64, {tf::None}, "label");
  tf::Tensor h = tf::nn::tanh(tf::nn::conv2d(net.x, {6, {5, 5}}, "conv1"));
  h = tf::nn::max_pool(h, 2);
  tf::nn::Conv2d second{8, {3, 3}, tf::nn::Window().same()};
  second.bias = false;
  second.init = tf::nn::Init::kHeNormal;
  h = tf::nn::relu(tf::nn::batch_normalization(tf::nn::conv2d(h, second, "conv2"), "norm"));
  h = tf::nn::tanh(tf::nn::linear(h, 20, "fc1"));
  const tf::Tensor logits = tf::nn::linear(h, 10, "fc2");
  net.loss = tf::nn::mean_sparse_softmax_cross_entropy_with_logits(logits, net.label);
  net.step = tf::train::MomentumOptimizer(tf::train::Rate::Decaying(0.05, 0.5, 10), 0.9, true)
                 .minimize(net.loss);
  net.others = {logits};
  return net;
}

}  // namespace

TEST_CASE("tinyflow on an emulated GPU: a perceptron with dropout and Adam") {
  for (const char* config : {"gpu fusion", "gpu"}) {
    if (!HasEmulatedGpu()) return;
    const Net net = Perceptron();
    tf::data::Layout layout;
    layout.flat = true;
    layout.size = 6;
    TrainBoth(net, config, layout, 5, 8);
  }
  // A static step is a graph from its third run on.
  CHECK(EmulatedGpu::replays() > 0);
}

TEST_CASE("tinyflow on an emulated GPU: convolutions, pooling, normalization, momentum") {
  if (!HasEmulatedGpu()) return;
  const Net net = Convolutions();
  tf::data::Layout layout;
  layout.size = 12;
  TrainBoth(net, "gpu fusion", layout, 3, 6);
}

TEST_CASE("tinyflow on an emulated GPU: every program takes the steps that it takes on the CPU") {
  if (!HasEmulatedGpu()) return;
  for (const programs::Program& p : programs::All()) {
    CAPTURE(p.name);
    tf::reset_default_graph();
    tf::set_random_seed(3);
    programs::Settings settings;
    settings.rate = 1e-3;
    settings.steps_per_epoch = 10;
    // Where little is left of a picture, normalization over two of them would magnify
    // every rounding.
    settings.batch = p.any_dtype ? 4 : 2;
    if (p.size_is) settings.size = p.any_dtype ? 32 : 8;
    if (p.blocks_are) settings.blocks = 1;
    if (p.any_dtype) settings.dtype = tf::bfloat16;
    const programs::Model model = p.build(settings);
    tf::Session cpu("cpu fusion", 2), gpu("gpu fusion");
    const tf::data::Batch batch = app::RandomBatch(p, settings.batch, 1, settings.size);
    const tf::Feeds feeds{{model.x, batch.x}, {model.y, batch.y}};
    const std::vector<tf::Tensor> fetches{model.train_step, model.loss};
    std::vector<tf::Tensor> firsts{tf::initialize_all_variables()};
    firsts.insert(firsts.end(), model.initialize.begin(), model.initialize.end());
    for (const tf::Tensor& t : firsts) gpu.info({t}, {});
    gpu.info(fetches, feeds);
    EmulatedGpu::BuildKernels();
    for (const tf::Tensor& t : firsts) {
      cpu.run(t);
      gpu.run(t);
    }
    for (int i = 0; i < 2; ++i) {
      const double want = cpu.run(fetches, feeds)[1]->at(0),
                   got = gpu.run(fetches, feeds)[1]->at(0);
      // A sum in another order may round to the next number of 8 bits.
      CHECK(got == doctest::Approx(want).epsilon(p.any_dtype ? 2e-2 : 1e-3));
    }
  }
  CheckDriver();
}

TEST_CASE("tinyflow on an emulated GPU: both devices draw the same numbers") {
  if (!HasEmulatedGpu()) return;
  const tf::Tensor x = tf::placeholder(tf::float32, {tf::None, 7}, "x");
  const tf::Tensor dropped = tf::nn::dropout(x, 0.5), drawn = tf::uniform_like(x);
  const tf::Tensor normal = tf::normal({1001}, 2, 1);
  const tf::Tensor first = tf::initialize_all_variables();
  const tf::Tensor next = tf::group(tf::update_ops());
  const tf::Array value =
      weft::Tensor::FromDoubles(tf::float32, {9, 7}, std::vector<double>(63, 1));
  tf::Session cpu("cpu fusion", 2), gpu("gpu fusion");
  gpu.info({first}, {});
  gpu.info({next, dropped, drawn}, {{x, value}});
  gpu.info({normal}, {});
  EmulatedGpu::BuildKernels();
  cpu.run(first);
  gpu.run(first);
  CHECK(WorstDifference(gpu.run(normal), cpu.run(normal)) <= 1e-6);
  std::vector<double> before;
  for (int i = 0; i < 5; ++i) {
    const auto want = cpu.run({next, dropped, drawn}, {{x, value}}),
               got = gpu.run({next, dropped, drawn}, {{x, value}});
    CHECK(got[1]->Equals(*want[1]));
    CHECK(got[2]->Equals(*want[2]));
    std::vector<double> now;
    for (int64_t k = 0; k < 63; ++k) now.push_back(got[2]->at(k));
    CHECK(now != before);
    before = now;
  }
  CheckDriver();
}

TEST_CASE("tinyflow on an emulated GPU: variables are set, read and kept in checkpoints") {
  if (!HasEmulatedGpu()) return;
  const TempFolder dir;
  const tf::Tensor x = tf::placeholder(tf::float32, {3}, "x");
  const tf::Tensor v = tf::Variable(tf::zeros({3}), "v");
  const tf::Tensor add = tf::assign(v, v + x);
  const tf::Tensor first = tf::initialize_all_variables();
  const tf::Array one = weft::Tensor::FromDoubles(tf::float32, {3}, {1, 2, 3});
  tf::Session gpu("gpu fusion"), other("gpu fusion"), cpu("cpu fusion", 2);
  gpu.info({first}, {});
  gpu.info({add}, {{x, one}});
  EmulatedGpu::BuildKernels();
  gpu.run(first);
  for (int i = 0; i < 4; ++i) gpu.run(add, {{x, one}});
  CHECK(gpu.value(v)->at(2) == 12);
  std::vector<weft::PendingRun> started;
  for (int i = 0; i < 3; ++i) started.push_back(gpu.start({add}, {{x, one}}));
  for (int i = 0; i < 3; ++i) CHECK(started[size_t(i)].Wait()[0]->at(2) == 15 + 3 * i);
  gpu.set(v, one);
  gpu.run(add, {{x, one}});
  CHECK(gpu.value(v)->at(2) == 6);
  tf::save_checkpoint(gpu, dir / "a", {});
  // What one device wrote, both read.
  tf::load_checkpoint(&other, dir / "a");
  tf::load_checkpoint(&cpu, dir / "a");
  CHECK(other.run(add, {{x, one}})->at(2) == 9);
  CHECK(cpu.run(add, {{x, one}})->at(2) == 9);
  CheckDriver();
}

TEST_CASE("tinyflow on an emulated GPU: a step is timed, waited for and not") {
  if (!HasEmulatedGpu()) return;
  app::BenchOptions options;
  options.program = "my_sigmoid";
  options.batch = 3;
  options.seconds = 0.05;
  options.resident = options.profile = true;
  const app::BenchResult want = app::Bench(options);
  options.device = "gpu";
  app::BenchResult got;
  // What has been asked for is built after an attempt that lacked it: first values, then the step.
  for (int attempt = 0; attempt < 4 && got.steps == 0; ++attempt) {
    try {
      got = app::Bench(options);
    } catch (const weft::Error&) {
      EmulatedGpu::BuildKernels();
    }
  }
  REQUIRE(got.steps > 0);
  EmulatedGpu::TakeProblems();
  const int64_t launched = EmulatedGpu::replays();
  got = app::Bench(options);
  // All steps but the first two, and those that are profiled, are one recording.
  CHECK(EmulatedGpu::replays() - launched >= got.steps);
  REQUIRE(got.losses.size() == want.losses.size());
  for (size_t i = 0; i < want.losses.size(); ++i)
    CHECK(got.losses[i] == doctest::Approx(want.losses[i]).epsilon(1e-4));
  CHECK(got.step_ms > 0);
  CHECK(got.unwaited_ms > 0);
  CHECK(got.cpu_us > 0);
  CHECK(got.program.kernels > 0);
  REQUIRE(got.profile.size() == size_t(got.program.kernels + got.program.library_calls));
  for (const weft::ProfileRow& r : got.profile) CHECK(r.bytes > 0);

  options.seconds = 0;
  CHECK(app::Bench(options).unwaited_ms == 0);
  CheckDriver();
}
