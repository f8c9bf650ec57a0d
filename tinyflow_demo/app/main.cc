/// main.cc: the `tinyflow` command: trains a program, or times a step of it. Exit codes as of the
/// weft command: 0 fine, 1 a check failed, 2 usage, 3 unsupported, 4 invalid input, 5 a limit or
/// out of memory, 70 internal error.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>

#include "app/bench.h"
#include "app/trainer.h"
#include "weft/core/module/plugin.h"
#include "weft/support/check.h"
#include "weft/support/strings.h"

namespace {

using Json = nlohmann::ordered_json;

/// A finite number, or null: JSON has no other.
Json Number(double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); }

void PrintPrograms() {
  for (const programs::Program& p : programs::All())
    fmt::print("{:40} {}\n", p.name + (p.alias.empty() ? "" : " (" + p.alias + ")"), p.summary);
}

/// What a step takes.
void AddMemory(const weft::SessionMemory& m, Json* out) {
  (*out)["peak_bytes"] = m.peak_bytes;
  (*out)["scratch_bytes"] = m.scratch_bytes;
  (*out)["recompute_flops"] = m.recompute_flops;
  (*out)["budget_bytes"] = m.budget_bytes < 0 ? Json() : Json(m.budget_bytes);
  (*out)["budget_met"] = m.budget_met;
}

int RunTrain(const app::TrainOptions& options, bool json) {
  const app::TrainResult r = app::Train(options);
  if (json) {
    Json out = {{"loss", Number(r.loss)},
                {"train_accuracy", r.train_accuracy},
                {"test_accuracy", r.test_accuracy},
                {"epochs", r.epochs},
                {"step_ms", r.step_ms},
                {"steps", r.steps},
                {"first_loss", r.losses.empty() ? Json(nullptr) : Number(r.losses[0])},
                {"last_loss", r.losses.empty() ? Json(nullptr) : Number(r.losses.back())},
                {"kernels", r.program.kernels},
                {"library_calls", r.program.library_calls},
                {"compile_s", r.program.compile_seconds},
                {"arena_bytes", r.program.arena_bytes}};
    AddMemory(r.program.memory, &out);
    if (r.text) {
      out["test_perplexity"] = Number(r.text->perplexity());
      out["bits_per_character"] = Number(r.text->bits());
      out["written"] = r.written;
    }
    fmt::print("{}\n", out.dump());
    return 0;
  }
  fmt::print(
      "{} {:.2f} % on test {}, {:.2f} % on training {}; {:.3f} ms per step, {} "
      "kernels and {} library calls\n",
      r.score, 100 * r.test_accuracy, r.examples, 100 * r.train_accuracy, r.examples, r.step_ms,
      r.program.kernels, r.program.library_calls);
  if (!r.written.empty()) fmt::print("it writes: {}\n", r.written);
  return 0;
}

int RunBench(const app::BenchOptions& options, bool json) {
  const app::BenchResult r = app::Bench(options);
  if (json) {
    Json out = {{"step_ms", r.step_ms},
                {"compile_s", r.program.compile_seconds},
                {"kernels", r.program.kernels},
                {"library_calls", r.program.library_calls},
                {"reorders", r.program.reorders},
                {"arena_bytes", r.program.arena_bytes},
                {"live_bytes", r.program.live_bytes},
                {"loss", Number(r.loss)},
                {"min_ms", r.min_ms},
                {"unwaited_ms", r.unwaited_ms},
                {"cpu_us", r.cpu_us},
                {"steps", r.steps},
                {"losses", Json::array()},
                {"distinct_kernels", r.program.distinct_kernels},
                {"interpreted", r.program.interpreted},
                {"launches", r.program.launches},
                {"replays", r.program.replays},
                {"host_waits", r.program.host_waits},
                {"build_s", r.build_seconds}};
    AddMemory(r.program.memory, &out);
    for (const double loss : r.losses) out["losses"].push_back(Number(loss));
    if (options.profile) {
      out["profile"] = Json::array();
      const weft::ProfileRow all = weft::SumOf(r.profile);
      const std::string unit = weft::NameOf(all.unit);
      for (const weft::ProfileRow& s : r.profile)
        out["profile"].push_back({{"name", s.name},
                                  {"kind", s.kind},
                                  {"runs", s.how},
                                  {unit, s.duration},
                                  {"bytes", s.bytes},
                                  {"flops", s.flops},
                                  {"floor_" + unit, s.floor}});
      out["floor_" + unit] = all.floor;
    }
    fmt::print("{}\n", out.dump());
    return 0;
  }
  fmt::print(
      "step     median {:.3f} ms, min {:.3f} over {} steps\n"
      "compile  {:.3f} s, graph built in {:.3f} s\n"
      "steps    {} kernels ({} distinct), {} library calls, {} reorders, {} interpreted\n"
      "memory   arena {}, of which {} at once\nloss     {:.6f}\n",
      r.step_ms, r.min_ms, r.steps, r.program.compile_seconds, r.build_seconds, r.program.kernels,
      r.program.distinct_kernels, r.program.library_calls, r.program.reorders,
      r.program.interpreted, weft::FormatBytes(r.program.arena_bytes),
      weft::FormatBytes(r.program.live_bytes), r.loss);
  if (options.device == "gpu" && r.unwaited_ms > 0)
    fmt::print(
        "started  {:.3f} ms per step that is not waited for, {:.1f} us of processor time to start "
        "one\n",
        r.unwaited_ms, r.cpu_us);
  if (options.profile)
    fmt::print("\n{}", weft::ProfileTable(r.profile, r.machine, r.step_ms * 1e3));
  return 0;
}

int Dispatch(int argc, char** argv) {
  CLI::App cli("tinyflow: trains small networks with a framework built on Weft", "tinyflow");
  cli.get_formatter()->column_width(30);
  // CLI11 takes -1, and what is larger than 64 bits, for a large number.
  const CLI::Validator seed(
      [](const std::string& text) {
        const auto n = weft::TryParseInt64(text);
        return n && *n >= 0 ? std::string() : "'" + text + "' is not an integer from 0 to 2^63 - 1";
      },
      "");
  // A session's word for it.
  const CLI::Transformer device(std::map<std::string, std::string>{{"cuda", "gpu"}});
  constexpr const char* kDevice = "cpu, cuda, or another backend of Weft, as in npu:v2";
  std::vector<std::string> plugins;
  const auto add_delegates = [&plugins](CLI::App* of, auto* options) {
    of->add_option("--plugin", plugins, "a plugin to load (repeatable)");
    of->add_option("--delegate", options->delegates,
                   "engines of plugins that take parts of the graph: libtorch,openvino:streams=2");
    of->add_option("--delegate-only", options->division.only,
                   "operators that may be given away, as in Conv;ConvGradData");
    of->add_option("--delegate-choice", options->division.choice, "all, auto or random");
  };
  bool list = false;
  cli.add_flag("--list", list, "the programs");

  app::TrainOptions train;
  bool train_json = false, train_plain = false;
  CLI::App* train_app = cli.add_subcommand("train", "train a program on its data");
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 40);
  train_app->add_option("PROGRAM", train.program, "see --list")->required();
  train_app->add_option("--epochs", train.epochs, "in all, those of a checkpoint included")
      ->check(positive);
  train_app->add_option("--batch", train.batch, "examples per step")->check(positive);
  train_app->add_option("--lr", train.rate, "learning rate");
  train_app->add_flag("--no-fusion", train_plain, "one operator a kernel, to compare with");
  train_app->add_option("--seed", train.seed, "of first values, order, crops and dropout")
      ->check(seed);
  train_app->add_option("--save", train.save, "checkpoint, written after every epoch");
  train_app->add_option("--load", train.load, "checkpoint to go on from");
  train_app->add_option("--report", train.report, "an HTML file with curves and times");
  train_app->add_option("--export", train.export_onnx, "the trained model as ONNX");
  train_app
      ->add_option("--images", train.images, "train on the first so many images, or other examples")
      ->check(positive);
  train_app->add_option("--steps", train.steps, "stop after so many steps")->check(positive);
  train_app->add_option("--threads", train.threads, "default: what the process may use")
      ->check(CLI::Range(1, 4096));
  train_app->add_flag("--tune", train.tune,
                      "choose library calls by timing, where no earlier run has");
  std::string train_memory, bench_memory;
  constexpr const char* kMemory =
      "bytes that a step may add, by computing values twice: 300M, 50% (of what it takes without), "
      "min";
  train_app->add_option("--memory-budget", train_memory, kMemory);
  train_app->add_option("--device", train.device, kDevice)->transform(device);
  add_delegates(train_app, &train);
  train_app
      ->add_option("--size", train.size,
                   "units of layers or channels, where the program has a choice")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}));
  train_app->add_option("--blocks", train.blocks, "or layers, where the program has a choice")
      ->check(CLI::Range(1, 64));
  train_app->add_option("--data", train.data, "folder of the data set, or file of the text");
  train_app->add_flag("--check-nan", train.check_nan,
                      "stop at the first NaN or infinity, and name the operator that made it");
  train_app->add_flag("--json", train_json, "the last line is one JSON object");

  app::BenchOptions bench;
  bool bench_json = false, bench_plain = false;
  CLI::App* bench_app = cli.add_subcommand("bench", "time a training step on random operands");
  bench_app->add_option("PROGRAM", bench.program, "see --list")->required();
  bench_app->add_option("--batch", bench.batch, "examples per step")->check(positive);
  bench_app->add_option("--lr", bench.rate, "learning rate");
  bench_app->add_flag("--no-fusion", bench_plain, "one operator a kernel, to compare with");
  bench_app->add_option("--seconds", bench.seconds, "to measure");
  bench_app->add_option("--seed", bench.seed, "of operands and first values")->check(seed);
  bench_app->add_option("--threads", bench.threads, "default: what the process may use")
      ->check(CLI::Range(1, 4096));
  bench_app->add_flag("--tune", bench.tune,
                      "choose library calls by timing, where no earlier run has");
  bench_app->add_option("--memory-budget", bench_memory, kMemory);
  bench_app->add_option("--device", bench.device, kDevice)->transform(device);
  add_delegates(bench_app, &bench);
  bench_app
      ->add_option("--dtype", bench.dtype,
                   "of activations: float32 or bfloat16, where the program has a choice")
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  bench_app->add_option("--size", bench.size, "of images or layers, where the program has a choice")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}));
  bench_app
      ->add_option("--blocks", bench.blocks,
                   "of a stage, or layers, where the program has a choice")
      ->check(CLI::Range(1, 64));
  bench_app->add_flag("--resident", bench.resident,
                      "operands are on the device from the beginning, not fed every step");
  bench_app->add_flag(
      "--profile", bench.profile,
      "every step with its time, bytes and operations, and the best that this machine could do");
  bench_app->add_flag("--json", bench_json, "one JSON object");
  cli.require_subcommand(0, 1);
  try {
    cli.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return cli.exit(e);
    weft::ThrowError(weft::ErrorCode::kUsage, e.what(), "command line", "see tinyflow --help");
  }
  for (const std::string& p : plugins) weft::LoadPlugin(p);
  if (train_app->parsed()) {
    train.fusion = !train_plain;
    train.memory = weft::MemoryBudget::Parse(train_memory, "--memory-budget");
    train.show_progress = isatty(STDERR_FILENO) != 0;
    return RunTrain(train, train_json);
  }
  if (bench_app->parsed()) {
    bench.fusion = !bench_plain;
    bench.memory = weft::MemoryBudget::Parse(bench_memory, "--memory-budget");
    return RunBench(bench, bench_json);
  }
  if (!list) fmt::print("{}\n", cli.help());
  PrintPrograms();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // As the weft command: idle threads of the OpenMP team spin for about 36 us, not for
  // milliseconds, so that a machine with other work does not wait for them. Read when
  // the backend is loaded.
  if (!std::getenv("OMP_WAIT_POLICY")) setenv("GOMP_SPINCOUNT", "1000", /*overwrite=*/0);
  try {
    return Dispatch(argc, argv);
  } catch (const weft::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return weft::ExitCode(e.code());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory\n");
    return weft::ExitCode(weft::ErrorCode::kOutOfMemory);
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
    return weft::ExitCode(weft::ErrorCode::kInternal);
  }
}
