/// bench.cc: see bench.h.
#include "app/bench.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

#include "app/source.h"
#include "app/trainer.h"
#include "tinyflow/random.h"
#include "weft/support/check.h"
#include "weft/support/timer.h"

namespace app {
namespace {

constexpr int kWarmSteps = 5, kFewestSteps = 5, kMostSteps = 20'000;
constexpr int kStarted = 8, kWarmRounds = 3;
constexpr double kRate = 1e-3;

/// Time that the processors have spent on this process. A round of starts takes tens of
/// microseconds, which getrusage cannot tell well.
double CpuSeconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

/// A variable in the place of a placeholder.
tf::Tensor Resident(const tf::Tensor& placeholder, const tf::Array& value) {
  const tf::Tensor v =
      tf::Variable(tf::zeros(value->dims(), value->dtype()), placeholder.name() + "_here", false);
  v.graph()->graph.ReplaceUses(placeholder.entry(), v.entry());
  return v;
}

/// Milliseconds of a step, and microseconds of processor time that starting it takes, of steps
/// that are not waited for one by one. What the first rounds alone do (memory for what is under
/// way) is not counted.
std::pair<double, double> Unwaited(const std::function<weft::PendingRun()>& start, double seconds) {
  double cpu = 0;
  const auto round = [&] {
    std::vector<weft::PendingRun> started;
    const double before = CpuSeconds();
    for (int i = 0; i < kStarted; ++i) started.push_back(start());
    cpu += CpuSeconds() - before;
    for (weft::PendingRun& run : started) run.Wait();
  };
  const weft::Timer warm;
  for (int i = 0; i < kWarmRounds && warm.seconds() <= seconds; ++i) round();
  cpu = 0;
  int64_t steps = 0;
  const weft::Timer all;
  do {
    round();
    steps += kStarted;
  } while (all.seconds() < seconds);
  return {all.milliseconds() / double(steps), 1e6 * cpu / double(steps)};
}

}  // namespace

tf::data::Batch RandomBatch(const tf::data::Layout& layout, int64_t batch, uint64_t seed,
                            int64_t classes) {
  const int64_t row = layout.channels * layout.size * layout.size;
  tf::data::Batch b;
  b.x = std::make_shared<weft::Tensor>(
      tf::float32, layout.flat ? tf::Ints{batch, row}
                               : tf::Ints{batch, layout.channels, layout.size, layout.size});
  const auto fill = [](weft::Tensor* t, uint64_t from) {
    float* x = t->mutable_data_as<float>();
    for (int64_t i = 0; i < t->num_elements(); ++i) x[i] = float(tf::Normal(from, uint64_t(i)));
  };
  fill(b.x.get(), seed);
  if (layout.noise > 0) {
    b.y = std::make_shared<weft::Tensor>(tf::float32, b.x->dims());
    fill(b.y.get(), tf::Mix(seed, 3));
    return b;
  }
  b.y = std::make_shared<weft::Tensor>(tf::int64, tf::Ints{batch});
  int64_t* y = b.y->mutable_data_as<int64_t>();
  for (int64_t i = 0; i < batch; ++i)
    y[i] = int64_t(tf::Below(tf::Mix(seed, 3, uint64_t(i)), uint64_t(classes)));
  return b;
}

BenchResult Bench(const BenchOptions& options) {
  const programs::Program& program = programs::Find(options.program);
  WEFT_CHECK(options.batch > 0, kUsage, "a batch of {} images", options.batch);
  WEFT_CHECK(options.seconds >= 0 && std::isfinite(options.seconds), kUsage,
             "{} seconds to measure", options.seconds);
  programs::CheckChoices(program, options.size, options.blocks);
  WEFT_CHECK(program.any_dtype || options.dtype == "float32", kUsage,
             "program '{}' has no choice of dtype", program.name);
  WEFT_CHECK(options.dtype == "float32" || options.dtype == "bfloat16", kUsage,
             "dtype '{}' is neither float32 nor bfloat16", options.dtype);
  BenchResult result;
  const weft::Timer build;
  tf::reset_default_graph();
  tf::set_random_seed(options.seed);
  programs::Settings settings;
  settings.rate = programs::CheckedRate(options.rate.value_or(kRate));
  settings.steps_per_epoch = 1e3;
  settings.dtype = options.dtype == "bfloat16" ? tf::bfloat16 : tf::float32;
  settings.size = options.size;
  settings.blocks = options.blocks;
  settings.batch = options.batch;
  const programs::Model model = program.build(settings);
  const tf::data::Batch batch = RandomBatch(program, options.batch, options.seed, options.size);
  tf::Feeds feeds{{model.x, batch.x}, {model.y, batch.y}};
  tf::Feeds here;
  if (options.resident) {
    for (const auto& [placeholder, value] : feeds)
      here.emplace_back(Resident(placeholder, value), value);
    feeds.clear();
  }
  result.build_seconds = build.seconds();
  tf::Session session(SessionConfig(options.device, options.delegates, options.fusion),
                      options.threads, options.tune, options.memory, options.division);
  session.run(tf::initialize_all_variables());
  for (const tf::Tensor& t : model.initialize) session.run(t);
  for (const auto& [variable, value] : here) session.set(variable, value);

  const std::vector<tf::Tensor> fetches{model.train_step, model.loss};
  for (int i = 0; i < kWarmSteps; ++i)
    result.losses.push_back(session.run(fetches, feeds)[1]->at(0));
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
  if (options.seconds > 0)
    std::tie(result.unwaited_ms, result.cpu_us) =
        Unwaited([&] { return session.start(fetches, feeds); }, options.seconds / 2);
  result.program = session.info(fetches, feeds);
  if (options.profile) {
    result.machine = weft::MachineOf(result.program.backend, options.threads);
    result.profile =
        weft::ProfileSteps([&] { return session.profile(fetches, feeds); }, result.machine);
  }
  return result;
}

}  // namespace app
