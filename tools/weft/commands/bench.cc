/// bench.cc: `weft bench`: the time of a run in a steady loop that allocates nothing: outputs are
/// reused. The first run, which makes the binding for these extents, is not counted.
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "command_line.h"
#include "common.h"
#include "inputs.h"
#include "interrupt.h"
#include "program_report.h"
#include "trace.h"
#include "weft/codegen/compiler/kernel_compilers.h"
#include "weft/runtime/delegate_counts.h"
#include "weft/runtime/program/profile.h"
#include "weft/runtime/program/weights.h"
#include "weft/runtime/session/variable_store.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/strings.h"
#include "weft/support/timer.h"

namespace weft::tool {
namespace {

constexpr int kMinIterations = 3;  // a median of fewer says nothing
constexpr size_t kMaxSamples = 10'000'000;
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
  double cpu_us = 0;             // of all threads, a run
  double launches = 0, replays = 0, host_waits = 0;  // of a device, a run
  double delegate_copied_bytes = 0;                  // a run
  int64_t compiled = 0;  // programs and kernels, since the first run began
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

/// Time that the processors have spent on this process.
double CpuSeconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

/// State variables that the model gives no value begin with random ones in [-1, 1), as inputs do.
void FillVariables(const Program& program, uint64_t seed, VariableStore* store) {
  for (const IoSpec& v : program.variables()) {
    if (store->Has(v.name)) continue;
    WEFT_CHECK(v.shape.is_static() && IsFloat(v.dtype), kBadBinding,
               "variable '{}' has no value; random ones are made for floats of fixed dimensions",
               v.name);
    auto t = std::make_shared<Tensor>(v.dtype, v.shape.ints());
    const int64_t n = t->num_elements();
    float* f32 = v.dtype == DType::kF32 ? t->mutable_data_as<float>() : nullptr;
    for (int64_t i = 0; i < n; ++i) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      const float value = float(seed >> 40) * 0x1p-23f - 1;
      if (f32)
        f32[i] = value;
      else
        t->set(i, value);
    }
    store->Set(v.name, t);
  }
}

Times Measure(const Args& a, Session* session, const std::vector<TensorPtr>& inputs) {
  std::vector<std::shared_ptr<Tensor>> outputs;
  Times times;
  const CompileCounts at_start = CountCompiled();
  const Timer first;
  session->RunInto(inputs, &outputs);
  times.first_ms = first.milliseconds();
  const Timer warmup;
  while (warmup.milliseconds() < a.warmup_ms && !InterruptScope::Requested())
    session->RunInto(inputs, &outputs);
  const Timer all;
  const double cpu = CpuSeconds();
  const ProgramStats& stats = session->program().stats();
  const RunCount counts[] = {stats.launches, stats.replays, stats.host_waits};
  const int64_t before[] = {counts[0], counts[1], counts[2]};
  const int64_t copied_before = CountDelegates().copied_bytes;
  for (;;) {
    const Timer one;
    session->RunInto(inputs, &outputs);
    times.ms.push_back(one.milliseconds());
    if (a.iterations > 0 ? int64_t(times.ms.size()) >= a.iterations
                         : times.ms.size() >= kMinIterations && all.seconds() >= a.duration_s)
      break;
    if (times.ms.size() >= kMaxSamples || InterruptScope::Requested()) break;
  }
  times.cpu_us = 1e6 * (CpuSeconds() - cpu) / double(times.ms.size());
  double* const of_a_run[] = {&times.launches, &times.replays, &times.host_waits};
  for (size_t i = 0; i < 3; ++i)
    *of_a_run[i] = double(counts[i] - before[i]) / double(times.ms.size());
  times.delegate_copied_bytes =
      double(CountDelegates().copied_bytes - copied_before) / double(times.ms.size());
  const CompileCounts at_end = CountCompiled();
  times.compiled = at_end.programs - at_start.programs + at_end.kernels - at_start.kernels;
  times.in_order = times.ms;
  std::sort(times.ms.begin(), times.ms.end());
  return times;
}

/// The most memory that this program has held at once; 0 where the system does not tell. (That of
/// getrusage counts in whatever the process held before it became this program.)
int64_t PeakResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

/// Passes, laid end to end, and the steps of one run; the arena is there while steps run.
void ExportProfile(const std::string& path, const std::vector<PassRecord>& passes,
                   const std::vector<ProfileRow>& steps, const Session& session) {
  constexpr int kPasses = 1, kSteps = 2;
  constexpr const char* kArena = "planned arena bytes";
  ChromeTrace trace;
  trace.NameTrack(kPasses, "compile passes");
  const std::vector<ProfileTrack> tracks = TracksOf(steps);
  if (tracks.empty()) trace.NameTrack(kSteps, "steps of one run");
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
  // Tracks side by side, as they ran; a cycle is drawn as a microsecond.
  const TimeUnit counted = SumOf(steps).unit;
  const std::string unit = NameOf(counted);
  const std::string suffix = counted == TimeUnit::kCycles ? " (cycles)" : "";
  std::map<std::string, int> number_of;  // by track
  for (const ProfileTrack& t : tracks) {
    const int number = kSteps + int(number_of.size());
    number_of.emplace(t.name, number);
    trace.NameTrack(number, (t.name.empty() ? "steps" : t.name) + suffix);
  }
  double end_us = at_us;
  for (const PlacedRow& p : PlaceRows(steps)) {
    const ProfileRow& r = *p.row;
    const auto track = number_of.find(r.track);
    Json args = {{"step", r.step},   {"times", r.times}, {"runs", r.how},
                 {"bytes", r.bytes}, {"flops", r.flops}, {"floor_" + unit, r.floor}};
    if (r.origin) args["of"] = *r.origin;
    trace.Span(track == number_of.end() ? kSteps : track->second,
               r.in.empty() ? r.name : r.in + ": " + r.name, r.kind, at_us + p.start, r.duration,
               std::move(args));
    end_us = std::max(end_us, at_us + p.end);
  }
  trace.Counter(kArena, end_us, 0);
  trace.Write(path);
}

int RunBench(const Args& a) {
  const Prepared p = PrepareProgram(a.model, a.inputs, a.engine);
  const auto store = std::make_shared<VariableStore>();
  Session session(p.program, store);
  FillVariables(*p.program, a.inputs.seed, store.get());
  const InterruptScope interrupts;
  const Times times = Measure(a, &session, p.inputs);
  const bool interrupted = InterruptScope::Requested();
  ReportKernelFaults(session);
  const KernelCache::TextCounts tuning = KernelCache::Process().text_counts();
  Machine machine;
  std::vector<ProfileRow> profile;
  if ((a.profile || !a.export_profile.empty()) && !interrupted) {
    machine = MachineOf(p.program->backend(), a.engine.threads);
    std::vector<std::shared_ptr<Tensor>> outputs;
    session.RunInto(p.inputs, &outputs);
    profile = ProfileSteps([&] { return session.Profile(p.inputs, &outputs); }, machine);
  }
  const SessionMemory memory = session.memory();
  const ProgramStats& stats = p.program->stats();
  const WeightBytes weights = WeightsOf(*p.program);
  if (!a.export_profile.empty() && !interrupted)
    ExportProfile(a.export_profile, stats.passes, profile, session);
  if (!a.export_times.empty())
    WriteFileAtomic(
        a.export_times,
        Json{{"backend", p.engine.backend}, {"times_ms", times.in_order}}.ToString() + "\n");

  if (a.model.json) {
    Json shapes = Json::object();
    for (const auto& [name, t] : p.named) shapes[name] = TypeText(*t);
    Json out = {{"median_ms", times.Median()},
                {"min_ms", times.ms.front()},
                {"p95_ms", times.At(0.95)},
                {"mean_ms", times.Mean()},
                {"cpu_us", times.cpu_us},
                {"iterations", times.ms.size()},
                {"read_s", p.read_seconds},
                {"compile_s", stats.compile_seconds},
                {"first_run_ms", times.first_ms},
                {"kernels", stats.kernels},
                {"distinct_kernels", stats.distinct_kernels},
                {"library_calls", stats.library_calls},
                {"reorders", stats.reorders},
                {"delegated", stats.delegated},
                {"delegate_copied_bytes", times.delegate_copied_bytes},
                {"interpreted", stats.interpreted},
                {"kernels_failed", session.kernels_failed()},
                {"compiled_in_runs", times.compiled},
                {"launches", times.launches},
                {"replays", times.replays},
                {"host_waits", times.host_waits},
                {"arena_bytes", memory.arena_bytes},
                {"live_bytes", memory.bound_bytes},
                {"bound_bytes", memory.bound_bytes},
                {"scratch_bytes", memory.scratch_bytes},
                {"output_bytes", memory.output_bytes},
                {"recompute_flops", memory.recompute_flops},
                {"budget_bytes", memory.budget_bytes < 0 ? Json() : Json(memory.budget_bytes)},
                {"budget_met", memory.budget_met},
                {"constant_bytes", weights.constants},
                {"packed_bytes", weights.packed},
                {"bytes_moved", session.bytes_moved()},
                {"peak_rss_bytes", PeakResidentBytes()},
                {"backend", p.engine.backend},
                {"bindings", BindingsJson(p.dims.bindings)},
                {"inputs", std::move(shapes)},
                {"interrupted", interrupted}};
    if (a.engine.calls.tune) out["tuned"] = {{"timed", tuning.stored}, {"known", tuning.found}};
    if (a.profile && !interrupted) {
      Json rows = Json::array();
      const std::string unit = NameOf(SumOf(profile).unit);
      const std::vector<PlacedRow> placed = PlaceRows(profile);
      for (const ProfileRow& r : profile)
        rows.push_back({{"step", r.step},
                        {"name", r.name},
                        {"in", r.in},
                        {"kind", r.kind},
                        {"times", r.times},
                        {"runs", r.how},
                        {unit, r.duration},
                        {"bytes", r.bytes},
                        {"flops", r.flops},
                        {"floor_" + unit, r.floor},
                        {"track", r.track},
                        {"start", placed[r.step - 1].start}});
      out["profile"] = std::move(rows);
      out["floor_" + unit] = SumOf(profile).floor;
      Json tracks = Json::array();
      for (const ProfileTrack& t : TracksOf(profile))
        tracks.push_back(
            {{"track", t.name}, {"steps", t.steps}, {"busy", t.busy}, {"share", t.share}});
      if (tracks.size() > 0) out["tracks"] = std::move(tracks);
    }
    AddFields(session.fields(), p.engine.backend, &out);
    PrintJson(out);
    return interrupted ? kInterruptedCode : 0;
  }
  std::string text;
  for (const auto& [name, t] : p.named)
    text += fmt::format("input    {}: {}\n", name, TypeText(*t));
  text +=
      fmt::format("time     median {:.3f} ms, min {:.3f}, p95 {:.3f}, mean {:.3f} over {} runs\n",
                  times.Median(), times.ms.front(), times.At(0.95), times.Mean(), times.ms.size());
  text += fmt::format("start    file {:.3f} s, compile {:.3f} s on {}, first run {:.3f} ms\n",
                      p.read_seconds, stats.compile_seconds, p.engine.backend, times.first_ms);
  text += fmt::format(
      "steps    {} kernels ({} distinct), {} library calls, {} reorders, {} interpreted\n",
      stats.kernels, stats.distinct_kernels, stats.library_calls, stats.reorders,
      stats.interpreted);
  if (session.kernels_failed() > 0)
    text += fmt::format("failed   {} could not be generated: a bug in Weft\n",
                        Plural(session.kernels_failed(), "kernel"));
  if (times.launches + times.replays > 0)
    text +=
        fmt::format("device   {:g} launches, {:g} recordings, {:g} waits for the host per run\n",
                    times.launches, times.replays, times.host_waits);
  text += fmt::format(
      "memory   arena {}, weights {} and {} packed, memory traffic {} per run, process peak {}\n",
      FormatBytes(session.arena_bytes()), FormatBytes(weights.constants),
      FormatBytes(weights.packed), FormatBytes(session.bytes_moved()),
      FormatBytes(PeakResidentBytes()));
  text += FieldsText(session.fields());
  if (memory.budget_bytes >= 0)
    text +=
        fmt::format("budget   {} of {}, {:.3g} GFLOP done twice\n", FormatBytes(memory.peak_bytes),
                    FormatBytes(memory.budget_bytes), double(memory.recompute_flops) * 1e-9);
  if (a.engine.calls.tune)
    text += fmt::format("tuning   {} library calls timed, {} chosen by earlier ones\n",
                        tuning.stored, tuning.found);
  if (a.profile && !interrupted)
    text += "\n" + ProfileTable(profile, machine, times.Median() * 1e3);
  PrintText(text);
  if (times.Spread() > kNoisy)
    PrintNote(fmt::format(
        "half of the runs are more than {:.0f} % from the median; the machine may be busy",
        100 * times.Spread()));
  if (interrupted) PrintNote("interrupted; these are the runs until then");
  return interrupted ? kInterruptedCode : 0;
}

}  // namespace

Command MakeBench(Options& parent) {
  auto a = std::make_shared<Args>();
  a->inputs.random = true;
  Options app = parent.AddCommand(
      "bench", "time a model; inputs and variables that are not given are random");
  AddModel(app, &a->model);
  AddRandomWeights(app, &a->model);
  AddInputs(app, &a->inputs);
  app.AddFlag("--random", &a->inputs.random, "accepted as for run; always on here");
  AddEngine(app, &a->engine);
  app.Add("--warmup MS", &a->warmup_ms, "runs before the timed ones").ShowDefault().NonNegative();
  app.Add("--duration S", &a->duration_s, "time to measure").ShowDefault().NonNegative();
  app.Add("--iterations N", &a->iterations, "timed runs, instead of --duration").WholeNumber(1);
  app.AddFlag(
      "--profile", &a->profile,
      "every step with its time, bytes and operations, and the best that this machine could do");
  app.Add("--export-profile F", &a->export_profile,
          "passes, steps and memory as Chrome trace-event JSON (Perfetto opens it)");
  app.Add("--export-times F", &a->export_times, "the time of every run, in order, as JSON");
  return {app, [a] { return RunBench(*a); }};
}

}  // namespace weft::tool
