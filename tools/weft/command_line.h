/// command_line.h: options that several sub-commands take, and the table of sub-commands.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "options.h"
#include "weft/runtime/backend/compute.h"
#include "weft/runtime/program/program.h"
#include "weft/support/limits.h"

namespace weft::tool {

/// A sub-command: its options are filled by parsing, then `run` gives the exit code.
struct Command {
  Options options;
  std::function<int()> run;
};

Command MakeRun(Options& parent);
Command MakeBench(Options& parent);
Command MakeOpt(Options& parent);
Command MakeCompile(Options& parent);
Command MakeGrad(Options& parent);
Command MakeInspect(Options& parent);
Command MakeCompare(Options& parent);
Command MakeCheck(Options& parent);
Command MakeDoctor(Options& parent);
Command MakePlugins(Options& parent);
Command MakeBisect(Options& parent);
Command MakeReduce(Options& parent);
Command MakeRepro(Options& parent);
Command MakeCache(Options& parent);
Command MakePlan(Options& parent);
Command MakeQuantise(Options& parent);
Command MakeGenerate(Options& parent);

/// Does what `weft ARGUMENTS..` does, but for reporting errors, which it throws; main.cc.
int RunCommandLine(const std::vector<std::string>& arguments);

/// Registered passes by name, and one pass with its options; opt.cc.
void PrintPasses(bool as_json);
void PrintPassHelp(const std::string& name);

/// Where inputs come from, and how large they are.
struct InputArgs {
  std::vector<std::string> values;  ///< NAME=F, NAME=VALUES
  std::vector<std::string> binds;   ///< SYM=N,..
  std::vector<std::string> shapes;  ///< NAME=AxBxC
  std::optional<int64_t> bind_all;
  std::string load, save;  ///< folders, or a .npz to load
  bool random = false;     ///< what nothing else gives is random
  /// Dimensions that nobody has given are as small as the model allows: for an engine that is slow.
  bool smallest = false;
  uint64_t seed = 1;
  bool given_dims() const { return !binds.empty() || !shapes.empty() || bind_all; }
};
/// MODEL, and what every reader of models takes.
struct ModelArgs {
  std::string path, limits;  ///< path "-": stdin
  bool json = false, strict = false, random_weights = false;
  /// The limits as parsed; throws kUsage.
  Limits Check() const;
};

/// How much memory a run may take.
struct MemoryArgs {
  std::string budget;
  std::vector<std::string> hints;  ///< SYM=N,..
  /// Parsed; throws kUsage.
  MemoryOptions Check() const;
};

/// Which engines take parts of a model.
struct DelegateArgs {
  std::string to, choice = "all", only;
  DivisionOptions Division() const { return {choice, only, -1, {}}; }
};

/// What a model runs on.
struct EngineArgs {
  std::string backend, passes;  ///< backend empty: cpu, or the one that a compiled program names
  int threads = 0;
  CallOptions calls;
  MemoryArgs memory;
  DelegateArgs delegates;
};

void AddModel(Options& app, ModelArgs* args);
void AddRandomWeights(Options& app, ModelArgs* args);
void AddEngine(Options& app, EngineArgs* args);
void AddMemory(Options& app, MemoryArgs* args);
void AddDelegates(Options& app, DelegateArgs* args);
/// The same where engines are named otherwise.
void AddDivision(Options& app, DelegateArgs* args);
void AddInputs(Options& app, InputArgs* args);
void AddBind(Options& app, InputArgs* args);

}  // namespace weft::tool
