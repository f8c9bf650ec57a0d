/// shell_check.h: a command of the user that says whether a model is good: `--check CMD`
/// of bisect and reduce.
#pragma once

#include <string>
#include <vector>

#include "options.h"
#include "weft/core/graph/graph.h"
#include "weft/support/limits.h"
#include "weft/support/scratch_folder.h"

namespace weft::tool {

/// One word for the shell, whatever it holds.
std::string ShellWord(const std::string& text);
/// Exit code, or 128 + signal. The command's output goes to our stderr or nowhere: stdout is for
/// results.
int RunShell(const std::string& line, bool show_output);

struct CheckArgs {
  std::string command;
  std::vector<int> fail_codes;  ///< empty: every code but 0
  bool show_output = false;
};
void AddCheck(Options& app, CheckArgs* args);

/// Writes models and runs the command on them. The command is a line for /bin/sh; every {} in it is
/// the model's file, which is appended where there is none. Exit code 0 is good, others (or those
/// of --fail-code) are bad; a signal counts as 128 + its number. Code 126 or 127, the shell's for a
/// command that cannot be run, throws kUsage.
class CheckCommand {
 public:
  /// `extension`: of the files, with its dot.
  CheckCommand(CheckArgs args, std::string extension, Limits limits);
  /// Throws what writing the model throws.
  bool IsBad(const Graph& graph);
  int runs() const { return runs_; }

 private:
  CheckArgs args_;
  Limits limits_;
  ScratchFolder folder_;
  std::string file_;
  int runs_ = 0;
};

/// ".onnx", ".weft" or ".json" of a path, in lower case.
std::string ExtensionOf(const std::string& path);

}  // namespace weft::tool
