/// main.cc: the `weft` command: picks the sub-command, turns what it throws into one message and an
/// exit code. 0 fine, 1 a comparison or check failed, 2 usage, 3 unsupported, 4 invalid input or
/// model, 5 a limit or out of memory, 70 internal error.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "command_line.h"
#include "command_reproducer.h"
#include "common.h"
#include "weft/core/module/plugin.h"
#include "weft/core/op/op.h"
#include "weft/support/check.h"

namespace weft::tool {
namespace {

/// Errors of the command line itself obey --error-format too, so it is looked for before parsing.
bool WantsJsonErrors(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--error-format=json") return true;
    if (arguments[i] == "--error-format" && i + 1 < arguments.size())
      return arguments[i + 1] == "json";
  }
  return false;
}

/// An error that is our fault leaves a reproducer.
int ReportInternal(InternalError error, bool json_errors) {
  WriteCommandReproducer(CommandArguments(), &error);
  return ReportError(error, json_errors);
}

int Main(const std::vector<std::string>& arguments) {
  const bool json_errors = WantsJsonErrors(arguments);
  CommandArguments() = arguments;
  try {
    const int code = RunCommandLine(arguments);
    if (std::fflush(stdout) != 0 || std::ferror(stdout))
      return ReportError(DeviceError(ErrorCode::kIo, "stdout cannot be written"), json_errors);
    return code;
  } catch (const InternalError& e) {
    return ReportInternal(e, json_errors);
  } catch (const Error& e) {
    return ReportError(e, json_errors);
  } catch (const std::bad_alloc&) {
    return ReportError(DeviceError(ErrorCode::kOutOfMemory, "out of memory"), json_errors);
  } catch (const std::exception& e) {
    return ReportInternal(InternalError(ErrorCode::kInternal, e.what()), json_errors);
  }
}

}  // namespace

int RunCommandLine(const std::vector<std::string>& arguments) {
  CommandLine line("weft",
                   "weft: turns a graph of operators into fast programs through a chain of passes",
                   "weft " WEFT_VERSION,
                   "Exit codes: 0 fine, 1 a comparison or check failed, 2 usage, 3 unsupported,\n"
                   "4 invalid input or model, 5 a limit or out of memory, 70 internal error,\n"
                   "130 interrupted (bench and reduce print what they have).");
  Options app = line.options();
  std::string error_format = "text";
  app.Add("--error-format", &error_format, "how errors are written to stderr")
      .OneOf({"text", "json"});
  // Loaded as the options are read, so that what follows on the line knows what they register.
  app.AddAction(
      "--plugin F", [](const std::string& file) { LoadPlugin(file); },
      "load a plugin first (repeatable)");
  const bool as_json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  app.AddAction(
      "--list-passes",
      [as_json](const std::string&) {
        PrintPasses(as_json);
        throw Answered();
      },
      "list the passes; with --json as JSON");
  app.AddAction(
      "--help-pass X",
      [](const std::string& name) {
        PrintPassHelp(name);
        throw Answered();
      },
      "what a pass does, needs, provides; its options");
  const Command commands[] = {
      MakeRun(app),      MakeBench(app),   MakeOpt(app),   MakeCompile(app), MakeGrad(app),
      MakeInspect(app),  MakeCompare(app), MakeCheck(app), MakeDoctor(app),  MakePlugins(app),
      MakeBisect(app),   MakeReduce(app),  MakeRepro(app), MakeCache(app),   MakePlan(app),
      MakeQuantise(app), MakeGenerate(app)};
  try {
    line.Parse(arguments);
  } catch (const Answered&) {
    return 0;
  }
  CheckRegistrations();
  for (const Command& c : commands)
    if (c.options.chosen()) return c.run();
  ThrowError(ErrorCode::kUsage, "a sub-command is needed", "command line", "see weft --help");
}

}  // namespace weft::tool

int main(int argc, char** argv) {
  // GNU's OpenMP lets idle threads spin for about 10 ms (300,000 rounds) and reads this when
  // the backend is loaded. On a machine with other work every fork and join then waits for a
  // time slice: ResNet-50 took 840 ms beside compilers on both cores, 44 ms with 1,000 rounds
  // (about 36 us, longer than what lies between two kernels: alone on the machine PP-OCR takes
  // 3.6 ms with either).
  if (!std::getenv("OMP_WAIT_POLICY")) setenv("GOMP_SPINCOUNT", "1000", /*overwrite=*/0);
  return weft::tool::Main({argv + std::min(argc, 1), argv + argc});
}
