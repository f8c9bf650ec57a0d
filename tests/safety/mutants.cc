/// mutants.cc: damaged models of ONNX's own node tests, through import, the default
/// pipeline and a run on small random inputs. Each may end well or in a weft::Error that is
/// not our fault; nothing else.
///
///   mutants [--only N [--save F]]
///
/// WEFT_FUZZ_SEED (1) and WEFT_FUZZ_COUNT (5,000) choose the mutants; a failure names its number.
/// WEFT_FUZZ_MODELS (paths joined by ':') damages these files instead, and WEFT_FUZZ_SECONDS (2) is
/// the deadline of the import, of the compilation and of the run.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "mutate.h"
#include "watchdog.h"
#include "weft/core/pass/evaluator.h"
#include "weft/onnx/import.h"
#include "weft/runtime/program/program.h"
#include "weft/support/file.h"
#include "weft/support/log.h"
#include "weft/support/request.h"
#include "weft/support/strings.h"

namespace weft::safety {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kCpuSeconds = 40;  // of one mutant
constexpr int64_t kLargestSeed = int64_t{256} << 20;

int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::atoll(text) : otherwise;
}

std::vector<std::string> SeedPaths() {
  std::vector<std::string> paths;
  if (const char* models = std::getenv("WEFT_FUZZ_MODELS"); models && *models)
    return Split(models, ':');
  const char* data = std::getenv("WEFT_DATA_DIR");
  if (!data) return paths;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::path(data) / "onnx" / "node", ignored)) {
    const fs::path model = entry.path() / "model.onnx";
    if (fs::exists(model) && fs::file_size(model) < (1 << 20)) paths.push_back(model.string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

struct Mutant {
  std::string bytes, seed;
};

/// Mutant `number` of `seed`, whatever others were made before.
Mutant Make(const std::vector<std::string>& paths, uint64_t seed, uint64_t number) {
  Choices choices(seed * 0x9E3779B97F4A7C15u + number);
  Mutant m;
  m.seed = choices.Of(paths);
  m.bytes = ReadFile(m.seed, kLargestSeed);
  pb::ModelProto model;
  if (!choices.OneIn(10) && model.ParseFromString(m.bytes)) {
    MutateModel(&model, &choices);
    m.bytes = model.SerializeAsString();
  } else {
    MutateBytes(&m.bytes, &choices);
  }
  return m;
}

Limits SmallLimits() {
  Limits limits;
  limits.tensor_bytes = int64_t{64} << 20;
  limits.folded_bytes_each = int64_t{8} << 20;
  limits.folded_bytes_total = int64_t{64} << 20;
  limits.nodes = 10'000;
  limits.expanded_nodes = 10'000;
  const char* seconds = std::getenv("WEFT_FUZZ_SECONDS");
  limits.deadline_s = seconds ? std::atof(seconds) : 2;
  return limits;
}

/// "imported", "compiled", "ran": how far it came. Empty, with the complaint in `fault`, where the
/// answer is no answer.
std::string Try(const Mutant& m, const std::string& backend, std::map<std::string, int>* codes,
                std::string* fault) {
  std::string stage = "refused";
  const Limits limits = SmallLimits();
  try {
    ImportOptions import;
    import.limits = limits;
    Graph graph = ImportOnnxBytes(m.bytes, import);
    VerifyGraph(graph);
    stage = "imported";
    CompileOptions options;
    options.backend = backend;
    options.threads = 1;
    options.passes.limits = limits;
    const auto program = Compile(std::move(graph), options);
    stage = "compiled";
    std::vector<TensorPtr> inputs;
    {
      RequestScope scope(limits);
      inputs = RandomProgramInputs(*program, 1, {});
    }
    Session(program).Run(inputs);
    stage = "ran";
  } catch (const Error& e) {
    ++(*codes)[ErrorCodeName(e.code())];
    if (e.code() == ErrorCode::kInternal) *fault = e.what();
  } catch (const std::exception& e) {
    *fault = fmt::format("another exception: {}", e.what());
  }
  return stage;
}

int Main(int argc, char** argv) {
  const std::vector<std::string> paths = SeedPaths();
  if (paths.empty()) {
    std::puts("no node tests in WEFT_DATA_DIR: nothing to mutate");
    return 1;
  }
  const auto seed = uint64_t(FromEnvironment("WEFT_FUZZ_SEED", 1));
  uint64_t first = 0, count = uint64_t(FromEnvironment("WEFT_FUZZ_COUNT", 5000));
  std::string save;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--only")) first = uint64_t(std::atoll(argv[i + 1])), count = 1;
    if (!std::strcmp(argv[i], "--save")) save = argv[i + 1];
  }
  SetLogLevel(LogLevel::kError);
  StartWatchdog();
  std::vector<std::string> backends = {"ref"};
  try {
    GetBackend("cpu");
    backends.push_back("cpu");
  } catch (const Error&) {
  }
  std::map<std::string, int> stages, codes;
  int faults = 0;
  double slowest = 0;
  uint64_t slowest_number = 0;
  for (uint64_t number = first; number < first + count; ++number) {
    const Mutant m = Make(paths, seed, number);
    const std::string& backend = backends[number % backends.size()];
    if (!save.empty()) std::ofstream(save, std::ios::binary) << m.bytes;
    const std::string what =
        fmt::format("mutant {} of seed {} on {}, made of {}", number, seed, backend, m.seed);
    Watch(what, kCpuSeconds);
    const auto begin = std::chrono::steady_clock::now();
    std::string fault;
    const std::string stage = Try(m, backend, &codes, &fault);
    ++stages[stage];
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (seconds > slowest) slowest = seconds, slowest_number = number;
    if (count == 1) fmt::print("{}: {} after {:.3f} s\n", what, stage, seconds);
    if (fault.empty()) continue;
    ++faults;
    fmt::print("FAULT {}: after {}: {}\n", what, stage, fault);
  }
  Watch("the end", 0);
  fmt::print("{} mutants of {} models, seed {}:", count, paths.size(), seed);
  for (const auto& [stage, n] : stages) fmt::print(" {} {}", n, stage);
  fmt::print("\nerrors:");
  for (const auto& [code, n] : codes) fmt::print(" {} x{}", code, n);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  fmt::print("\nslowest: mutant {}, {:.2f} s; most memory {} MiB\n{} faults\n", slowest_number,
             slowest, used.ru_maxrss >> 10, faults);
  return faults ? 1 : 0;
}

}  // namespace
}  // namespace weft::safety

int main(int argc, char** argv) {
  setenv("WEFT_FAULTS", "throw", 1);
  return weft::safety::Main(argc, argv);
}
