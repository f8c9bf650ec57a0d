/// machine_command.cc: `hsimd machine`: the built-in machines, or one of any kind as JSON.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "command.h"
#include "weft/support/check.h"

namespace hsimd {
namespace {

void ListMachines() {
  for (const std::string& name : BuiltInMachines()) {
    const Machine m = FindMachine(name);
    std::string levels;
    for (size_t l = 1; l < m.levels.size(); ++l)
      levels += fmt::format("{}{} {}", l > 1 ? " x " : "", m.levels[l].count, m.levels[l].name);
    fmt::print("{:<8} {} PEs: {}; {} numbers without a public source\n", name, m.PlacesOf(m.pe()),
               levels, m.assumed.size());
  }
}

}  // namespace

void AddMachineCommand(CLI::App* app) {
  struct Options {
    std::string machine;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app->add_subcommand(
      "machine", "list the built-in machines, or print one as JSON, every number written out");
  command->add_option("MACHINE", options->machine, "a built-in machine or a file");
  command->add_flag("--json", "accepted; a machine is JSON");
  command->callback([options] {
    if (options->machine.empty())
      ListMachines();
    else
      fmt::print("{}", PrintMachine(FindMachine(options->machine)));
  });
}

}  // namespace hsimd
