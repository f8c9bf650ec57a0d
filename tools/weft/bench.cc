/// bench.cc: `weft bench`: the time of a run in a steady loop that allocates nothing: outputs are
/// reused. The first run, which makes the binding for these extents, is not counted.
#include <algorithm>
#include <limits>
#include <cmath>

#include "command_line.h"
#include "common.h"
#include "inputs.h"
#include "table.h"
#include "trace.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"
#include "weft/support/timer.h"

namespace weft::tool {
namespace {

constexpr int kMinIterations = 3;  // a median of fewer says nothing
constexpr size_t kMaxSamples = 10'000'000;
constexpr int kProfileRuns = 25;
constexpr double kProfileSeconds = 1.0;
constexpr double kNoisy = 0.05;  // spread from which a reader is told

struct Args {
  ModelArgs model;
  InputArgs inputs;
  EngineArgs engine;
  double warmup_ms = 100, duration_s = 1.5;
  int64_t iterations = 0;
  bool profile = false;
  std::string export_times, export_profile;
};

struct Times {
  std::vector<double> ms;        // sorted
  std::vector<double> in_order;  // as they were taken
  double At(double quantile) const {
    return ms[std::min(ms.size() - 1, size_t(quantile * double(ms.size())))];
  }
  double Median() const {
    const size_t n = ms.size();
    return n % 2 ? ms[n / 2] : (ms[n / 2 - 1] + ms[n / 2]) / 2;
  }
  double Mean() const {
    double sum = 0;
    for (const double t : ms) sum += t;
    return sum / double(ms.size());
  }
  /// Half the distance of the quartiles to the median: what outliers cannot blow up.
  double Spread() const { return (At(0.75) - At(0.25)) / 2 / Median(); }
};

Times Measure(const Args& a, Session* session, const std::vector<TensorPtr>& inputs) {
  std::vector<std::shared_ptr<Tensor>> outputs;
  session->RunInto(inputs, &outputs);
  const Timer warmup;
  while (warmup.milliseconds() < a.warmup_ms) session->RunInto(inputs, &outputs);
  Times times;
  const Timer all;
  for (;;) {
    const Timer one;
    session->RunInto(inputs, &outputs);
    times.ms.push_back(one.milliseconds());
    if (a.iterations > 0 ? int64_t(times.ms.size()) >= a.iterations
                         : times.ms.size() >= kMinIterations && all.seconds() >= a.duration_s)
      break;
    if (times.ms.size() >= kMaxSamples) break;
  }
  times.in_order = times.ms;
  std::sort(times.ms.begin(), times.ms.end());
  return times;
}

struct ProfileRow {
  size_t step = 0;
  std::string name, kind;
  double us = 0;
};

/// The median of several profiled runs, step by step, in order of execution.
std::vector<ProfileRow> ProfileSteps(Session* session, const std::vector<TensorPtr>& inputs) {
  std::vector<ProfileRow> rows;
  std::vector<std::vector<double>> samples;
  const Timer timer;
  for (int i = 0; i < kProfileRuns && (i == 0 || timer.seconds() < kProfileSeconds); ++i) {
    const std::vector<StepTime> steps = session->Profile(inputs);
    samples.resize(steps.size());
    for (size_t k = 0; k < steps.size(); ++k) {
      if (i == 0) rows.push_back({k + 1, steps[k].name, steps[k].kind, 0});
      samples[k].push_back(steps[k].microseconds);
    }
  }
  for (size_t k = 0; k < rows.size(); ++k) {
    std::sort(samples[k].begin(), samples[k].end());
    rows[k].us = samples[k][samples[k].size() / 2];
  }
  return rows;
}

std::string ProfileTable(std::vector<ProfileRow> rows) {
  if (rows.empty()) return "this backend does not tell the time of its steps\n";
  double total = 0;
  for (const ProfileRow& r : rows) total += r.us;
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ProfileRow& a, const ProfileRow& b) { return a.us > b.us; });
  Table table({">step", "name", "kind", ">us", ">share"});
  for (const ProfileRow& r : rows)
    table.AddRow({fmt::format("{}", r.step), r.name, r.kind, fmt::format("{:.1f}", r.us),
                  fmt::format("{:.1f} %", total > 0 ? 100 * r.us / total : 0)});
  return table.ToString();
}

/// Passes and the steps of one run, each laid end to end; the arena is there while steps run.
void ExportProfile(const std::string& path, const std::vector<PassRecord>& passes,
                   const std::vector<ProfileRow>& steps, const Session& session) {
  constexpr int kPasses = 1, kSteps = 2;
  constexpr const char* kArena = "planned arena bytes";
  ChromeTrace trace;
  trace.NameTrack(kPasses, "compile passes");
  trace.NameTrack(kSteps, "steps of one run");
  trace.Counter(kArena, 0, 0);
  double at_us = 0;
  for (const PassRecord& r : passes) {
    Json args = {{"number", r.number},
                 {"reason", r.trigger == Trigger::kAsked ? "asked" : r.reason},
                 {"nodes_before", r.nodes_before},
                 {"nodes_after", r.nodes_after}};
    for (const auto& [name, value] : r.statistics) args[name] = value;
    trace.Span(kPasses, r.name, "pass", at_us, r.seconds * 1e6, std::move(args));
    at_us += r.seconds * 1e6;
  }
  trace.Counter(kArena, at_us, session.arena_bytes());
  for (const ProfileRow& r : steps) {
    trace.Span(kSteps, r.name, r.kind, at_us, r.us, {{"step", r.step}});
    at_us += r.us;
  }
  trace.Counter(kArena, at_us, 0);
  trace.Write(path);
}

int Run(const Args& a) {
  const Prepared p = Prepare(a.model, a.inputs, a.engine);
  Session session(p.program);
  const Times times = Measure(a, &session, p.inputs);
  const std::vector<ProfileRow> profile = a.profile || !a.export_profile.empty()
                                              ? ProfileSteps(&session, p.inputs)
                                              : std::vector<ProfileRow>();
  const ProgramStats& stats = p.program->stats();
  if (!a.export_profile.empty()) ExportProfile(a.export_profile, stats.passes, profile, session);
  if (!a.export_times.empty())
    WriteFileAtomic(a.export_times,
                    Json{{"backend", p.engine.text}, {"times_ms", times.in_order}}.dump(1) + "\n");

  if (a.model.json) {
    Json shapes = Json::object();
    for (const auto& [name, t] : p.named) shapes[name] = TypeText(*t);
    Json out = {{"median_ms", times.Median()},
                {"min_ms", times.ms.front()},
                {"p95_ms", times.At(0.95)},
                {"mean_ms", times.Mean()},
                {"iterations", times.ms.size()},
                {"compile_s", stats.compile_seconds},
                {"kernels", stats.kernels},
                {"distinct_kernels", stats.distinct_kernels},
                {"library_calls", stats.library_calls},
                {"interpreted", stats.interpreted},
                {"arena_bytes", session.arena_bytes()},
                {"bytes_moved", session.bytes_moved()},
                {"backend", p.engine.text},
                {"inputs", std::move(shapes)}};
    if (a.profile) {
      Json rows = Json::array();
      for (const ProfileRow& r : profile)
        rows.push_back({{"step", r.step}, {"name", r.name}, {"kind", r.kind}, {"us", r.us}});
      out["profile"] = std::move(rows);
    }
    PrintJson(out);
    return 0;
  }
  std::string text;
  for (const auto& [name, t] : p.named)
    text += fmt::format("input    {}: {}\n", name, TypeText(*t));
  text +=
      fmt::format("time     median {:.3f} ms, min {:.3f}, p95 {:.3f}, mean {:.3f} over {} runs\n",
                  times.Median(), times.ms.front(), times.At(0.95), times.Mean(), times.ms.size());
  text += fmt::format("compile  {:.3f} s on {}\n", stats.compile_seconds, p.engine.text);
  text +=
      fmt::format("steps    {} kernels ({} distinct), {} library calls, {} interpreted\n",
                  stats.kernels, stats.distinct_kernels, stats.library_calls, stats.interpreted);
  text += fmt::format("memory   arena {}, moved {} a run\n", FormatBytes(session.arena_bytes()),
                      FormatBytes(session.bytes_moved()));
  if (a.profile) text += "\n" + ProfileTable(profile);
  Print(text);
  if (times.Spread() > kNoisy)
    fmt::print(
        stderr,
        "note: half of the runs lie more than {:.0f} % from the median; the machine may be busy\n",
        100 * times.Spread());
  return 0;
}

}  // namespace

Command MakeBench(CLI::App& parent) {
  auto a = std::make_shared<Args>();
  a->inputs.random = true;
  CLI::App* app = parent.add_subcommand(
      "bench", "time a model; inputs that are not given are random, unbound symbols 1");
  AddModel(app, &a->model);
  AddInputs(app, &a->inputs);
  bool* random = &a->inputs.random;
  app->add_flag_callback(
      "--random", [random] { *random = true; }, "accepted as for run; always on here");
  AddEngine(app, &a->engine);
  app->add_option("--warmup", a->warmup_ms, "runs before the timed ones")
      ->type_name("MS")
      ->check(NonNegative());
  app->add_option("--duration", a->duration_s, "time to measure")
      ->type_name("S")
      ->check(NonNegative());
  app->add_option("--iterations", a->iterations, "timed runs, instead of --duration")
      ->type_name("N")
      ->check(WholeNumber(1, std::numeric_limits<int64_t>::max()));
  app->add_flag("--profile", a->profile, "time of every step");
  app->add_option("--export-profile", a->export_profile,
                  "passes, steps and memory as Chrome trace-event JSON (Perfetto opens it)")
      ->type_name("F");
  app->add_option("--export-times", a->export_times, "the time of every run, in order, as JSON")
      ->type_name("F");
  return {app, [a] { return Run(*a); }};
}

}  // namespace weft::tool
