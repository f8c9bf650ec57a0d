/// main.cc: the `weft` command: picks the sub-command, turns what it throws into one message and an
/// exit code. 0 fine, 1 a comparison or check failed, 2 usage, 3 unsupported, 4 invalid input or
/// model, 5 a limit or out of memory, 70 internal error.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "command_line.h"
#include "command_reproducer.h"
#include "common.h"
#include "weft/core/module/plugin.h"
#include "weft/core/op/op.h"
#include "weft/support/check.h"
#include "weft/support/edit_distance.h"
#include "weft/support/strings.h"

namespace weft::tool {
namespace {

bool HasWord(int argc, char** argv, const char* word) {
  return std::any_of(argv + std::min(argc, 1), argv + argc,
                     [&](const char* a) { return std::strcmp(a, word) == 0; });
}

/// Errors of the command line itself obey --error-format too, so it is looked for before parsing.
bool WantsJsonErrors(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--error-format=json") == 0) return true;
    if (std::strcmp(argv[i], "--error-format") == 0 && i + 1 < argc)
      return std::strcmp(argv[i + 1], "json") == 0;
  }
  return false;
}

std::vector<std::string> OptionNames(const CLI::App* app) {
  std::vector<std::string> names;
  for (; app; app = app->get_parent())
    for (const CLI::Option* o : app->get_options())
      for (const std::string& n : o->get_lnames()) names.push_back("--" + n);
  return names;
}

[[noreturn]] void ThrowUsage(const CLI::App& app, const CLI::ParseError& e) {
  const auto chosen = app.get_subcommands();
  const CLI::App* at = chosen.empty() ? &app : chosen[0];
  std::string message = e.what(), hint;
  if (dynamic_cast<const CLI::ExtrasError*>(&e)) {
    // Left-over words end up with the parent; the option among them is the culprit.
    std::vector<std::string> words = app.remaining(true);
    std::stable_sort(words.begin(), words.end(), [](const std::string& a, const std::string& b) {
      return StartsWith(a, "-") > StartsWith(b, "-");
    });
    if (!words.empty()) {
      message = fmt::format("unexpected argument '{}'", words[0]);
      if (StartsWith(words[0], "-"))
        hint = DidYouMean(words[0].substr(0, words[0].find('=')), OptionNames(at));
    }
  }
  // "weft cache foo": what is missing is a sub-command, and what is wrong is the word in its place.
  if (dynamic_cast<const CLI::RequiredError*>(&e)) {
    std::vector<std::string> names;
    for (const CLI::App* sub : at->get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(sub->get_name());
    const std::vector<std::string> words = app.remaining(true);
    if (!names.empty() && at != &app) {
      message = words.empty()
                    ? fmt::format("weft {} needs a sub-command", at->get_name())
                    : fmt::format("weft {} has no sub-command '{}'", at->get_name(), words[0]);
      hint = words.empty() ? std::string() : DidYouMean(words[0], names);
      if (hint.empty()) hint = ListNames(names);
    }
  }
  if (hint.empty())
    hint = fmt::format("see {} --help", chosen.empty() ? "weft" : "weft " + at->get_name());
  ThrowError(ErrorCode::kUsage, message, "command line", hint);
}

int Dispatch(int argc, char** argv) {
  CLI::App app("weft: turns a graph of operators into fast programs through a chain of passes",
               "weft");
  app.set_version_flag("--version", "weft " WEFT_VERSION);
  app.fallthrough();
  app.get_formatter()->column_width(34);
  std::string error_format = "text";
  app.add_option("--error-format", error_format, "how errors are written to stderr")
      ->check(CLI::IsMember({"text", "json"}));
  // Loaded as the options are read, so that what follows on the line knows what they register.
  app.add_option_function<std::vector<std::string>>(
         "--plugin",
         [](const std::vector<std::string>& files) {
           for (const std::string& f : files) LoadPlugin(f);
         },
         "load a plugin first (repeatable)")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all()
      ->type_name("F");
  app.add_flag_callback(
      "--list-passes",
      [as_json = HasWord(argc, argv, "--json")] {
        PrintPasses(as_json);
        throw CLI::Success();
      },
      "list the passes; with --json as JSON");
  app.add_option_function<std::string>(
         "--help-pass",
         [](const std::string& name) {
           PrintPassHelp(name);
           throw CLI::Success();
         },
         "what a pass does, needs, provides; its options")
      ->type_name("X");
  const std::vector<Command> commands = {
      MakeRun(app),     MakeBench(app),   MakeOpt(app),   MakeCompile(app), MakeGrad(app),
      MakeInspect(app), MakeCompare(app), MakeCheck(app), MakeDoctor(app),  MakePlugins(app),
      MakeBisect(app),  MakeReduce(app),  MakeRepro(app), MakeCache(app)};
  for (const Command& c : commands) c.app->fallthrough();
  app.footer(
      "Exit codes: 0 fine, 1 a comparison or check failed, 2 usage, 3 unsupported,\n"
      "4 invalid input or model, 5 a limit or out of memory, 70 internal error,\n"
      "130 interrupted (bench and reduce print what they have).");

  if (argc > 1 && argv[1][0] != '-') {
    std::vector<std::string> names;
    for (const Command& c : commands) names.push_back(c.app->get_name());
    if (std::find(names.begin(), names.end(), argv[1]) == names.end()) {
      const std::string near = DidYouMean(argv[1], names);
      ThrowError(ErrorCode::kUsage, fmt::format("there is no sub-command '{}'", argv[1]),
                 "command line", near.empty() ? ListNames(names) : near);
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) ThrowUsage(app, e);
    app.exit(e);  // prints help or version
    return 0;
  }
  CheckRegistrations();
  for (const Command& c : commands)
    if (c.app->parsed()) return c.run();
  ThrowError(ErrorCode::kUsage, "a sub-command is needed", "command line", "see weft --help");
}

/// An error that is our fault leaves a reproducer.
int ReportInternal(InternalError error, bool json_errors) {
  WriteCommandReproducer(CommandArguments(), &error);
  return ReportError(error, json_errors);
}

int Main(int argc, char** argv) {
  const bool json_errors = WantsJsonErrors(argc, argv);
  CommandArguments().assign(argv + std::min(argc, 1), argv + argc);
  try {
    const int code = Dispatch(argc, argv);
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
  std::vector<std::string> words = {"weft"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  return Dispatch(int(words.size()), argv.data());
}

}  // namespace weft::tool

int main(int argc, char** argv) {
  // GNU's OpenMP lets idle threads spin for about 10 ms (300,000 rounds) and reads this when
  // the backend is loaded. On a machine with other work every fork and join then waits for a
  // time slice: ResNet-50 took 840 ms beside compilers on both cores, 44 ms with 1,000 rounds
  // (about 36 us, longer than what lies between two kernels: alone on the machine PP-OCR takes
  // 3.6 ms with either).
  if (!std::getenv("OMP_WAIT_POLICY")) setenv("GOMP_SPINCOUNT", "1000", /*overwrite=*/0);
  return weft::tool::Main(argc, argv);
}
