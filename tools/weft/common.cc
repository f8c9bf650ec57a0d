/// common.cc: see common.h.
#include "common.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>

#include "command_reproducer.h"
#include "shell_check.h"
#include "weft/api/random_weight.h"
#include "weft/core/module/backend_module.h"
#include "weft/core/module/delegate.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/pipelines.h"
#include "weft/runtime/saved/saved_program.h"
#include "weft/support/check.h"
#include "weft/support/file.h"
#include "weft/support/log.h"
#include "weft/support/strings.h"
#include "weft/support/timer.h"

namespace weft::tool {
namespace {

constexpr double kProgressAfterSeconds = 2;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Names come from models: nothing in them may drive the terminal.
std::string Printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if ((u < 0x20 && c != '\n') || u == 0x7f) {
      out += fmt::format("\\x{:02x}", u);
    } else {
      out += c;
    }
  }
  return out;
}

bool Colour(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  return isatty(fd) != 0 && (no_color == nullptr || *no_color == '\0');
}

/// Into the working folder; false, with a warning, where that cannot be written.
bool MoveReproducer(const std::string& from) {
  try {
    WriteFileAtomic(kReproducerFile, ReadFile(from));
    return ReproducerWritten() = true;
  } catch (const Error& e) {
    WEFT_LOG(kWarning, "no reproducer: {}", e.message());
    return false;
  }
}

/// Runs `work`; when it fails by our fault, runs it again with a reproducer file and says so.
template <class Work>
auto WithReproducer(PassOptions* options, const Work& work) {
  try {
    return work();
  } catch (const InternalError&) {
    if (!options->reproducer.empty()) {
      ReproducerWritten() = FileExists(options->reproducer);
      throw;
    }
    const ScratchFolder folder;  // an older one stays until it is known that there is a new one
    options->reproducer = folder / "reproducer.weft";
    try {
      return work();
    } catch (Error& e) {
      if (FileExists(options->reproducer) && MoveReproducer(options->reproducer) &&
          e.hint().empty())
        e.SetHint(fmt::format("this is a bug in Weft; please report it with the file {}",
                              kReproducerFile));
      throw;
    }
  }
}

/// Says on stderr that something was done without kernels that should be there. `again` does the
/// work once more with a reproducer file.
template <class Work>
void ReportFaults(const std::vector<PassRecord>& passes, PassOptions* options, const Work& again) {
  std::vector<std::string> faults;
  for (const PassRecord& r : passes) faults.insert(faults.end(), r.faults.begin(), r.faults.end());
  if (faults.empty()) return;
  InternalError error(ErrorCode::kInternal,
                      fmt::format("{} could not be generated: {}", Plural(faults.size(), "kernel"),
                                  faults.front()));
  if (options->reproducer.empty()) {
    const ScratchFolder folder;
    options->reproducer = folder / "reproducer.weft";
    options->records = nullptr;
    again();
    if (FileExists(options->reproducer)) MoveReproducer(options->reproducer);
  } else {
    ReproducerWritten() = FileExists(options->reproducer);
  }
  if (ReproducerWritten())
    error.SetHint(
        fmt::format("this is a bug in Weft; please report it with the file {}", kReproducerFile));
  ReportError(error, false);
}

}  // namespace

void PrintJson(const Json& json) {
  const std::string text = json.ToString() + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void PrintText(const std::string& text) {
  const std::string safe = Printable(text);
  std::fwrite(safe.data(), 1, safe.size(), stdout);
}

Json BindingsJson(const SymBindings& bindings) {
  return std::map<std::string, int64_t>(bindings.begin(), bindings.end());
}

bool ColourErrors() { return Colour(STDERR_FILENO); }
bool ColourResults() { return Colour(STDOUT_FILENO); }

std::string Paint(const std::string& text, const char* ansi, bool colour) {
  return colour ? fmt::format("\x1b[{}m{}\x1b[0m", ansi, text) : text;
}

int ReportError(const Error& error, bool as_json) {
  std::fflush(stdout);
  std::string text = as_json ? ToJson(error) : Printable(error.what());
  if (!as_json && ColourErrors() && StartsWith(text, "error[")) {
    const size_t end = text.find(']') + 1;
    text = Paint(text.substr(0, end), "1;31", true) + text.substr(end);
  }
  std::fprintf(stderr, "%s\n", text.c_str());
  return ExitCode(error.code());
}

/// Results or errors are asked for as JSON: then so is everything else.
static bool WantsJson() {
  const std::vector<std::string>& words = CommandArguments();
  const auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  return has("--json") || has("--error-format=json") || (has("--error-format") && has("json"));
}

static void PrintJsonLine(const Json& json) { std::fprintf(stderr, "%s\n", json.ToLine().c_str()); }

void PrintNote(const std::string& text) {
  if (WantsJson())
    PrintJsonLine({{"kind", "note"}, {"message", text}});
  else
    std::fprintf(stderr, "note: %s\n", Printable(text).c_str());
}

Progress::Progress() : terminal_(isatty(STDERR_FILENO) != 0), start_(Now()) {}

Progress::~Progress() {
  if (shown_) std::fprintf(stderr, "\r\x1b[K");
}

void Progress::Show(const std::string& text) {
  if (!terminal_ || Now() - start_ < kProgressAfterSeconds) return;
  shown_ = true;
  std::fprintf(stderr, "\r\x1b[K%s", text.c_str());
}

std::function<void(const PassRecord&)> Progress::Hook() {
  return [this](const PassRecord& r) {
    Show(fmt::format("{:.0f} s: {} passes, last {}", Now() - start_, r.number, r.name));
  };
}

/// Where there is none, the message says where to learn more.
static std::shared_ptr<Backend> BackendOf(const std::string& name) {
  try {
    return GetBackend(name);
  } catch (Error& e) {
    if (e.hint().empty()) e.SetHint("weft doctor shows what this machine has");
    throw;
  }
}

std::string EngineName(const std::string& backend, const DelegateArgs& delegates) {
  return delegates.to.empty() ? backend : backend + "+" + delegates.to;
}

bool IsEngine(const std::string& name) {
  const std::string text = SplitDelegates(name).first;
  const std::vector<std::string> names = AvailableBackendModules();
  return std::find(names.begin(), names.end(), SplitTarget(text).first) != names.end();
}

Engine ParseEngine(const std::string& text, const std::string& passes) {
  Engine e;
  e.backend = text;
  const std::shared_ptr<Backend> backend = BackendOf(text);
  ParseDelegates(SplitDelegates(text).second);
  if (!passes.empty())
    e.pipeline =
        (backend->target().traits().kernels ? ToPlan(ParsePipeline(passes)) : ParsePipeline(passes))
            .ToString();
  return e;
}

namespace {

/// `model`: asked once, and again where a fault is reported.
std::shared_ptr<const Program> CompileModel(const std::function<Graph()>& model,
                                            const Engine& engine, int threads, const Limits& limits,
                                            const CallOptions& calls, const MemoryOptions& memory) {
  CompileOptions options;
  options.memory = memory;
  options.backend = engine.backend;
  options.pipeline = engine.pipeline;
  options.division = engine.division;
  options.threads = threads;
  options.calls = calls;
  options.passes.limits = limits;
  Progress progress;
  options.passes.on_pass = progress.Hook();
  const auto compile = [&] { return Compile(model(), options); };
  const std::shared_ptr<const Program> program = WithReproducer(&options.passes, compile);
  ReportFaults(program->stats().passes, &options.passes, compile);
  return program;
}

}  // namespace

std::shared_ptr<const Program> CompileProgram(Graph graph, const Engine& engine, int threads,
                                              const Limits& limits, const CallOptions& calls,
                                              const MemoryOptions& memory) {
  return CompileModel([&] { return graph; }, engine, threads, limits, calls, memory);
}

void ReportKernelFaults(const Session& session) {
  const int failed = session.kernels_failed() - session.program().stats().kernels_failed;
  if (failed == 0) return;  // those of the program are told when it is compiled
  InternalError error(ErrorCode::kInternal,
                      fmt::format("{} could not be generated for these dimensions; the operators "
                                  "run in the interpreter",
                                  Plural(failed, "kernel")));
  WriteCommandReproducer(CommandArguments(), &error);
  ReportError(error, false);
}

bool IsProgramFile(const std::string& path) {
  return path != "-" && FormatOfPath(path).is_program();
}

namespace {

/// Values for what a file leaves out, the same in every run.
struct RandomWeights {
  uint64_t seed = 0;
  TensorPtr operator()(DType dtype, const std::vector<int64_t>& dims) {
    return RandomWeight(dtype, dims, ++seed);
  }
};

Graph ReadStdinGraph(ImportOptions options) {
  const std::string bytes = ReadStdin("the model", options.limits);
  const std::string_view text = Trim(bytes);
  const bool is_text = StartsWith(text, "weft ") || StartsWith(text, "//");
  const char* format = StartsWith(text, "WEFTX") ? "weftx"
                       : is_text                 ? "weft"
                       : StartsWith(text, "{")   ? "json"
                                                 : "onnx";
  return LoadModelBytes(bytes, GetModelFormat(format), options);
}

void ReportOddities(const std::string& file, const std::vector<Finding>& findings) {
  for (const Finding& f : findings) {
    if (f.oddity.empty()) continue;
    if (WantsJson()) {
      PrintJsonLine({{"kind", "warning"},
                     {"oddity", f.oddity},
                     {"file", file},
                     {"place", f.place},
                     {"message", f.message},
                     {"count", f.count},
                     {"hint", f.hint}});
      continue;
    }
    std::string text = file + ": ";
    if (!f.place.empty()) text += f.place + ": ";
    text += f.message;
    if (f.count > 1) text += fmt::format("; {} in all", f.count);
    std::fprintf(stderr, "%s %s\n",
                 Paint(fmt::format("warning[{}]", f.oddity), "1;33", ColourErrors()).c_str(),
                 Printable(fmt::format("{} (hint: {})", text, f.hint)).c_str());
  }
}

}  // namespace

ImportOptions ImportFor(const InputArgs& inputs) {
  ImportOptions options;
  options.overridable = GivenInputs(inputs);
  return options;
}

Graph ReadModel(const ModelArgs& args, ImportOptions options) {
  options.limits = args.Check();
  options.strict = args.strict;
  if (args.random_weights) options.make_missing = RandomWeights();
  std::vector<Finding> own;
  if (!options.findings) options.findings = &own;
  const bool from_stdin = args.path == "-";
  if (from_stdin) options.source_name = "<stdin>";
  Graph graph = from_stdin ? ReadStdinGraph(options) : LoadModel(args.path, options);
  ReportOddities(from_stdin ? options.source_name : args.path, *options.findings);
  return graph;
}

Prepared PrepareProgram(const ModelArgs& model, const InputArgs& inputs, const EngineArgs& engine) {
  const Limits limits = model.Check();
  const MemoryOptions memory = engine.memory.Check();
  Prepared p;
  const auto make_inputs = [&](const Graph& graph) {
    RunInputs made = MakeInputs(graph, inputs, limits);
    p.named = std::move(made.tensors);
    p.dims = std::move(made.dims);
    p.engine.division.at = p.dims.bindings;
  };
  if (IsProgramFile(model.path)) {
    WEFT_CHECK(engine.passes.empty(), kUsage, "--passes: '{}' is compiled already", model.path);
    p.program = LoadProgram(model.path,
                            {engine.backend, engine.threads, limits, engine.calls, memory.budget});
    p.engine.backend = p.program->backend();
    make_inputs(p.program->graph());
    p.inputs = OrderInputs(*p.program, p.named);
    return p;
  }
  const std::string backend = engine.backend.empty() ? kDefaultBackend : engine.backend;
  p.engine = ParseEngine(EngineName(backend, engine.delegates), engine.passes);
  p.engine.division = engine.delegates.Division();
  const Timer timer;
  std::optional<Graph> graph = ReadModel(model, ImportFor(inputs));
  p.read_seconds = timer.seconds();
  make_inputs(*graph);
  // Nobody else holds it while it is compiled, so weights that a pass replaces go; a second time it
  // is read again, where that can be.
  const auto take = [&] {
    if (model.path == "-") return Graph(*graph);
    Graph taken = graph ? std::move(*graph) : ReadModel(model, ImportFor(inputs));
    graph.reset();
    return taken;
  };
  p.program = CompileModel(take, p.engine, engine.threads, limits, engine.calls, memory);
  p.inputs = OrderInputs(*p.program, p.named);
  return p;
}

Graph RunPasses(const Graph& graph, const Pipeline& pipeline, PassOptions options,
                Graph (*apply)(Graph, const Pipeline&, const PassOptions&)) {
  Progress progress;
  if (!options.on_pass) options.on_pass = progress.Hook();
  std::vector<PassRecord> own;
  if (!options.records) options.records = &own;
  std::vector<PassRecord>& records = *options.records;
  const auto run = [&] {
    if (options.records) options.records->clear();
    return apply(graph, pipeline, options);
  };
  Graph out = WithReproducer(&options, run);
  ReportFaults(records, &options, run);
  return out;
}

std::string ListNames(const std::vector<std::string>& names) {
  return names.empty() ? "there are none" : "there are: " + Join(names, ", ");
}

std::string TypeText(const Tensor& t) {
  return std::string(DTypeName(t.dtype())) + t.shape().ToString();
}

std::string Milliseconds(double seconds) { return fmt::format("{:.3f} ms", seconds * 1e3); }

}  // namespace weft::tool
