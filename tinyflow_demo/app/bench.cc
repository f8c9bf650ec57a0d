/// bench.cc: see bench.h.
#include "app/bench.h"

#include <algorithm>
#include <cmath>

#include "tinyflow/random.h"
#include "weft/support/check.h"
#include "weft/support/timer.h"

namespace app {
namespace {

constexpr int kWarmSteps = 5, kFewestSteps = 5, kMostSteps = 20'000, kProfiledSteps = 15;
constexpr int kClasses = 10;
constexpr double kRate = 1e-3;
constexpr double kTwoPi = 6.283185307179586;

double Unit(uint64_t mixed) { return (double(mixed >> 11) + 0.5) * 0x1p-53; }

}  // namespace

tf::data::Batch RandomBatch(const tf::data::Layout& layout, int64_t batch, uint64_t seed) {
  const int64_t row = layout.channels * layout.size * layout.size;
  tf::data::Batch b;
  b.x = std::make_shared<weft::Tensor>(
      tf::float32, layout.flat ? tf::Ints{batch, row}
                               : tf::Ints{batch, layout.channels, layout.size, layout.size});
  b.y = std::make_shared<weft::Tensor>(tf::int64, tf::Ints{batch});
  float* x = b.x->mutable_data_as<float>();
  for (int64_t i = 0; i < b.x->num_elements(); ++i)
    x[i] = float(std::sqrt(-2 * std::log(Unit(tf::Mix(seed, 1, uint64_t(i))))) *
                 std::cos(kTwoPi * Unit(tf::Mix(seed, 2, uint64_t(i)))));
  int64_t* y = b.y->mutable_data_as<int64_t>();
  for (int64_t i = 0; i < batch; ++i)
    y[i] = int64_t(tf::Below(tf::Mix(seed, 3, uint64_t(i)), kClasses));
  return b;
}

BenchResult Bench(const BenchOptions& options) {
  const programs::Program& program = programs::Find(options.program);
  WEFT_CHECK(options.batch > 0, kUsage, "a batch of {} pictures", options.batch);
  WEFT_CHECK(options.seconds >= 0 && std::isfinite(options.seconds), kUsage,
             "{} seconds to measure", options.seconds);
  BenchResult result;
  const weft::Timer build;
  tf::reset_default_graph();
  tf::set_random_seed(options.seed);
  programs::Settings settings;
  settings.rate = programs::CheckedRate(options.rate.value_or(kRate));
  settings.steps_per_epoch = 1e3;
  const programs::Model model = program.build(settings);
  result.build_seconds = build.seconds();
  tf::Session session(options.device + (options.fusion ? " fusion" : ""), options.threads,
                      options.tune);
  session.run(tf::initialize_all_variables());
  for (const tf::Tensor& t : model.initialize) session.run(t);

  const tf::data::Batch batch = RandomBatch(program.layout, options.batch, options.seed);
  const tf::Feeds feeds{{model.x, batch.x}, {model.y, batch.y}};
  const std::vector<tf::Tensor> fetches{model.train_step, model.loss};
  for (int i = 0; i < kWarmSteps; ++i) session.run(fetches, feeds);
  std::vector<double> ms;
  const weft::Timer all;
  while (int(ms.size()) < kFewestSteps ||
         (all.seconds() < options.seconds && int(ms.size()) < kMostSteps)) {
    const weft::Timer one;
    const std::vector<tf::Array> values = session.run(fetches, feeds);
    ms.push_back(one.milliseconds());
    result.loss = values[1]->at(0);
  }
  std::sort(ms.begin(), ms.end());
  result.step_ms = ms[ms.size() / 2];
  result.min_ms = ms.front();
  result.steps = int64_t(ms.size());
  result.program = session.info(fetches, feeds);
  if (options.profile) {
    std::vector<std::vector<double>> us;
    for (int i = 0; i < kProfiledSteps; ++i) {
      result.profile = session.profile(fetches, feeds);
      us.resize(result.profile.size());
      for (size_t k = 0; k < us.size(); ++k) us[k].push_back(result.profile[k].microseconds);
    }
    for (size_t k = 0; k < us.size(); ++k) {
      std::sort(us[k].begin(), us[k].end());
      result.profile[k].microseconds = us[k][us[k].size() / 2];
    }
  }
  return result;
}

}  // namespace app
