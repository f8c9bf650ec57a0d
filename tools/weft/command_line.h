/// command_line.h: options that several sub-commands take, and the table of sub-commands.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/runtime/backend/compute.h"
#include "weft/support/limits.h"

namespace weft::tool {

/// A sub-command: its options are filled by parsing, then `run` gives the exit code.
struct Command {
  CLI::App* app = nullptr;
  std::function<int()> run;
};

Command MakeRun(CLI::App& parent);
Command MakeBench(CLI::App& parent);
Command MakeOpt(CLI::App& parent);
Command MakeCompile(CLI::App& parent);
Command MakeGrad(CLI::App& parent);
Command MakeInspect(CLI::App& parent);
Command MakeCompare(CLI::App& parent);
Command MakeCheck(CLI::App& parent);
Command MakeDoctor(CLI::App& parent);
Command MakePlugins(CLI::App& parent);
Command MakeBisect(CLI::App& parent);
Command MakeReduce(CLI::App& parent);
Command MakeRepro(CLI::App& parent);
Command MakeCache(CLI::App& parent);

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

/// What a model runs on.
struct EngineArgs {
  std::string backend, passes;  ///< backend empty: cpu, or the one that a compiled program names
  int threads = 0;
  CallOptions calls;
};

void AddModel(CLI::App* app, ModelArgs* args);
void AddRandomWeights(CLI::App* app, ModelArgs* args);
void AddEngine(CLI::App* app, EngineArgs* args);
void AddInputs(CLI::App* app, InputArgs* args);
void AddBind(CLI::App* app, InputArgs* args);
/// Checks of numbers, with messages that name what was expected.
CLI::Validator WholeNumber(int64_t lowest, int64_t highest);
CLI::Validator NonNegative();
/// A repeatable option that takes one value each time.
CLI::Option* AddList(CLI::App* app, const std::string& name, std::vector<std::string>* values,
                     const std::string& doc);

}  // namespace weft::tool
