/// bench.cc: `weft bench`: the time of a run in a steady loop that allocates nothing: outputs are
/// reused. The first run, which makes the binding for these extents, is not counted.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "command_line.h"
#include "common.h"
#include "inputs.h"
#include "machine.h"
#include "table.h"
#include "trace.h"
#include "weft/codegen/kernel_compilers.h"
#include "weft/runtime/backend.h"
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
  double first_ms = 0;           // the run before them, which makes library calls and packs weights
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
  Times times;
  const Timer first;
  session->RunInto(inputs, &outputs);
  times.first_ms = first.milliseconds();
  const Timer warmup;
  while (warmup.milliseconds() < a.warmup_ms) session->RunInto(inputs, &outputs);
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

/// The most memory that this program has held at once; 0 where the system does not tell. (That of getrusage counts in whatever
/// the process held before it became this program.)
int64_t PeakResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

struct ProfileRow {
  size_t step = 0;
  std::string name, kind, how;
  int64_t bytes = 0, flops = 0;
  double us = 0, floor_us = 0;
};

/// The median of several profiled runs, step by step, in order of execution.
std::vector<ProfileRow> ProfileSteps(Session* session, const std::vector<TensorPtr>& inputs,
                                     const Machine& machine) {
  std::vector<ProfileRow> rows;
  std::vector<std::vector<double>> samples;
  const Timer timer;
  for (int i = 0; i < kProfileRuns && (i == 0 || timer.seconds() < kProfileSeconds); ++i) {
    const std::vector<StepTime> steps = session->Profile(inputs);
    samples.resize(steps.size());
    for (size_t k = 0; k < steps.size(); ++k) {
      if (i == 0)
        rows.push_back({k + 1, steps[k].name, steps[k].kind, steps[k].how, steps[k].bytes,
                        steps[k].flops, 0, machine.FloorUs(steps[k].bytes, steps[k].flops)});
      samples[k].push_back(steps[k].microseconds);
    }
  }
  for (size_t k = 0; k < rows.size(); ++k) {
    std::sort(samples[k].begin(), samples[k].end());
    rows[k].us = samples[k][samples[k].size() / 2];
  }
  return rows;
}

std::string Percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : "-";
}

std::string ProfileTable(std::vector<ProfileRow> rows, const Machine& m) {
  if (rows.empty()) return "this backend does not tell the time of its steps\n";
  ProfileRow all;
  for (const ProfileRow& r : rows) {
    all.us += r.us;
    all.floor_us += r.floor_us;
    all.bytes += r.bytes;
    all.flops += r.flops;
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ProfileRow& a, const ProfileRow& b) { return a.us > b.us; });
  Table table({">step", "name", "kind", ">us", ">share", ">MB", ">GB/s", ">GFLOP/s", ">floor us",
               ">of floor", "runs"});
  const auto add = [&](const std::string& step, const ProfileRow& r) {
    const double ns = r.us * 1e3;
    table.AddRow({step, r.name, r.kind, fmt::format("{:.1f}", r.us), Percent(r.us, all.us),
                  fmt::format("{:.2f}", double(r.bytes) / 1e6),
                  ns > 0 ? fmt::format("{:.1f}", double(r.bytes) / ns) : "-",
                  ns > 0 ? fmt::format("{:.1f}", double(r.flops) / ns) : "-",
                  fmt::format("{:.1f}", r.floor_us), Percent(r.floor_us, r.us), r.how});
  };
  for (const ProfileRow& r : rows) add(fmt::format("{}", r.step), r);
  all.name = "all";
  add("", all);
  if (!m.measured()) return table.ToString();
  return table.ToString() +
         fmt::format(
             "\nfloor: bytes / bandwidth + operations / peak, with {:.1f} GB/s from memory (above "
             "{}), {:.1f} GB/s in cache and {:.1f} GFLOP/s (f32), as measured here on {} threads "
             "(weft doctor --measure measures again)\n",
             m.memory_gbs, FormatBytes(m.cache_bytes), m.cache_gbs, m.gflops, m.threads);
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
    trace.Span(kSteps, r.name, r.kind, at_us, r.us,
               {{"step", r.step},
                {"runs", r.how},
                {"bytes", r.bytes},
                {"flops", r.flops},
                {"floor_us", r.floor_us}});
    at_us += r.us;
  }
  trace.Counter(kArena, at_us, 0);
  trace.Write(path);
}

int Run(const Args& a) {
  const Prepared p = Prepare(a.model, a.inputs, a.engine);
  Session session(p.program);
  const Times times = Measure(a, &session, p.inputs);
  const KernelCache::TextCounts tuning = KernelCache::Process().text_counts();
  Machine machine;
  std::vector<ProfileRow> profile;
  if (a.profile || !a.export_profile.empty()) {
    if (p.program->backend() == "cpu")
      machine =
          MeasuredMachine(a.engine.threads > 0 ? a.engine.threads : GetBackend("cpu")->threads());
    profile = ProfileSteps(&session, p.inputs, machine);
  }
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
                {"read_s", p.read_seconds},
                {"compile_s", stats.compile_seconds},
                {"first_run_ms", times.first_ms},
                {"kernels", stats.kernels},
                {"distinct_kernels", stats.distinct_kernels},
                {"library_calls", stats.library_calls},
                {"reorders", stats.reorders},
                {"interpreted", stats.interpreted},
                {"arena_bytes", session.arena_bytes()},
                {"bytes_moved", session.bytes_moved()},
                {"peak_rss_bytes", PeakResidentBytes()},
                {"backend", p.engine.text},
                {"inputs", std::move(shapes)}};
    if (a.engine.tune) out["tuned"] = {{"timed", tuning.stored}, {"known", tuning.found}};
    if (a.profile) {
      Json rows = Json::array();
      for (const ProfileRow& r : profile)
        rows.push_back({{"step", r.step},
                        {"name", r.name},
                        {"kind", r.kind},
                        {"runs", r.how},
                        {"us", r.us},
                        {"bytes", r.bytes},
                        {"flops", r.flops},
                        {"floor_us", r.floor_us}});
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
  text += fmt::format("start    file {:.3f} s, compile {:.3f} s on {}, first run {:.3f} ms\n",
                      p.read_seconds, stats.compile_seconds, p.engine.text, times.first_ms);
  text += fmt::format(
      "steps    {} kernels ({} distinct), {} library calls, {} reorders, {} interpreted\n",
      stats.kernels, stats.distinct_kernels, stats.library_calls, stats.reorders,
      stats.interpreted);
  text += fmt::format("memory   arena {}, moved {} a run, process {} at most\n",
                      FormatBytes(session.arena_bytes()), FormatBytes(session.bytes_moved()),
                      FormatBytes(PeakResidentBytes()));
  if (a.engine.tune)
    text += fmt::format("tuning   {} library calls timed, {} chosen by earlier ones\n",
                        tuning.stored, tuning.found);
  if (a.profile) text += "\n" + ProfileTable(profile, machine);
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
  app->add_flag(
      "--profile", a->profile,
      "every step with its time, bytes and operations, and what this machine could at best");
  app->add_option("--export-profile", a->export_profile,
                  "passes, steps and memory as Chrome trace-event JSON (Perfetto opens it)")
      ->type_name("F");
  app->add_option("--export-times", a->export_times, "the time of every run, in order, as JSON")
      ->type_name("F");
  return {app, [a] { return Run(*a); }};
}

}  // namespace weft::tool
