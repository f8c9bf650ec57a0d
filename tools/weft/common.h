/// common.h: what the sub-commands share: models, engines, programs, reports.
///
/// Results go to stdout and only there; errors, warnings and progress go to stderr. A sub-command
/// throws weft::Error (or returns an exit code); main.cc prints it and turns it into an exit code.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "command_line.h"
#include "inputs.h"
#include "json.h"
#include "weft/api/model.h"
#include "weft/core/graph/graph.h"
#include "weft/core/pass/pass.h"
#include "weft/runtime/program/program.h"

namespace weft::tool {

/// One value on stdout.
void PrintJson(const Json& json);
/// Text on stdout, with control characters escaped (names come from models).
void PrintText(const std::string& text);
/// Values of symbols, by name.
Json BindingsJson(const SymBindings& bindings);

/// Prints an error on stderr in the chosen format and gives its exit code.
int ReportError(const Error& error, bool as_json);
/// A remark on stderr: a line behind "note:", or where the command gives JSON, an object on a line.
void PrintNote(const std::string& text);
/// stderr is a terminal, and NO_COLOR is not set.
bool ColourErrors();
bool ColourResults();
/// `text` in an ANSI colour ("1;31") where `colour` is true.
std::string Paint(const std::string& text, const char* ansi, bool colour);

/// A line on stderr that shows which pass ran last, only when stderr is a terminal and the work has
/// taken 2 s; removed at the end.
class Progress {
 public:
  Progress();
  ~Progress();
  std::function<void(const PassRecord&)> Hook();
  void Show(const std::string& text);

 private:
  bool terminal_, shown_ = false;
  double start_;
};

/// What a program runs on: "cpu", "ref", or a variant as in "cpu:no-fusion".
struct Engine {
  /// As Compile takes it: "cpu", "cpu:no-fusion", "cuda:1", "cpu+openvino".
  std::string backend;
  std::string pipeline;  ///< empty: the backend's own
  DivisionOptions division;
};
/// "cpu" and what --delegate says.
std::string EngineName(const std::string& backend, const DelegateArgs& delegates);
/// Is there a backend module of that name, whatever its parameters?
bool IsEngine(const std::string& text);
/// Throws kUsage for parameters that the backend does not know, kUnsupported for an unknown
/// backend. `passes` (may be empty) replaces the engine's pipeline; what a run cannot do without is
/// added at its end.
Engine ParseEngine(const std::string& text, const std::string& passes = {});

/// Compile; an internal error writes a reproducer beside the caller and names it in its hint.
std::shared_ptr<const Program> CompileProgram(Graph graph, const Engine& engine, int threads,
                                              const Limits& limits, const CallOptions& calls = {},
                                              const MemoryOptions& memory = {});
/// A compiled program is to be run, not read.
bool IsProgramFile(const std::string& path);
/// The model of the arguments; of stdin in the format that its first bytes tell. Oddities of the
/// file are warnings on stderr, one line a kind, or errors where `args` is strict.
Graph ReadModel(const ModelArgs& args, ImportOptions options = {});
/// For a model whose inputs are given so.
ImportOptions ImportFor(const InputArgs& inputs);

/// A program and the tensors that it is run on: what `run` and `bench` begin with.
struct Prepared {
  Engine engine;
  NamedTensors named;
  ChosenDims dims;
  std::shared_ptr<const Program> program;
  std::vector<TensorPtr> inputs;  ///< `named` in the order of the program's inputs
  double read_seconds = 0;        ///< of the model's file
};
/// Reads the model, makes its inputs and compiles it; in this order, so that wrong
/// inputs cost no compilation.
Prepared PrepareProgram(const ModelArgs& model, const InputArgs& inputs, const EngineArgs& engine);
/// Kernels that could not be generated while the session ran (calls that no library takes):
/// an error on stderr, and a reproducer of the command.
void ReportKernelFaults(const Session& session);
/// Runs a pipeline under the same care; `apply`: what it is run by.
Graph RunPasses(const Graph& graph, const Pipeline& pipeline, PassOptions options,
                Graph (*apply)(Graph, const Pipeline&, const PassOptions&) = ApplyPasses);

/// The names, joined, as a hint: "the model has: x, y".
std::string ListNames(const std::vector<std::string>& names);
/// "1 check", "2 checks".
template <class Count>
std::string Plural(Count n, const std::string& word) {
  return std::to_string(n) + " " + word + (n == 1 ? "" : "s");
}
/// "f32[2, 3]".
std::string TypeText(const Tensor& t);
std::string Milliseconds(double seconds);

}  // namespace weft::tool
