/// main.cc: the command `hsimd`: looks at machines, layouts, moves and programs without a graph.
///
/// Exit codes are weft's: 0 fine, 1 a check failed, 2 usage, 3 unsupported, 4 invalid input, 5 a
/// limit or out of memory, 70 internal error.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <new>

#include "command.h"
#include "weft/support/check.h"

namespace {

int Report(const weft::Error& error, bool json) {
  std::fprintf(stderr, "%s\n", json ? weft::ToJson(error).c_str() : error.what());
  return weft::ExitCode(error.code());
}

int Run(int argc, char** argv) {
  CLI::App app(
      "hsimd: machines, layouts, moves and programs of lock-step accelerators.\n"
      "MACHINE is a built-in one (see hsimd machine) or a file, ./mine.json.",
      "hsimd");
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 fine, 2 usage, 3 unsupported, 4 invalid input or a hazard, 5 a limit or out "
      "of\n"
      "memory, 70 internal error. --json prints the answer, and errors, as JSON.");
  hsimd::AddMachineCommand(&app);
  hsimd::AddLayoutCommand(&app);
  hsimd::AddMoveCommand(&app);
  hsimd::AddCheckCommand(&app);
  hsimd::AddSimCommand(&app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help
    weft::ThrowError(weft::ErrorCode::kUsage, e.what(), "command line", "see hsimd --help");
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    weft::ThrowError(weft::ErrorCode::kIo, "stdout cannot be written");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool json =
      std::any_of(argv, argv + argc, [](const char* a) { return std::string_view(a) == "--json"; });
  try {
    return Run(argc, argv);
  } catch (const weft::Error& e) {
    return Report(e, json);
  } catch (const std::bad_alloc&) {
    return Report(weft::DeviceError(weft::ErrorCode::kOutOfMemory, "out of memory"), json);
  } catch (const std::exception& e) {
    return Report(weft::InternalError(weft::ErrorCode::kInternal, e.what()), json);
  }
}
