/// command.h: what the sub-commands of `hsimd` share.
#pragma once

#include <string>
#include <string_view>

#include "../l1/program.h"

namespace CLI {
class App;
}

namespace hsimd {

/// Each adds one sub-command; what it throws, main turns into one line and an exit code.
void AddMachineCommand(CLI::App* app);
void AddCheckCommand(CLI::App* app);
void AddSimCommand(CLI::App* app);
void AddLayoutCommand(CLI::App* app);
void AddMoveCommand(CLI::App* app);

/// A program and the machine that it is for: a built-in one by the name in its text, or what
/// `machine` names. Throws kIo, kSyntax, kUsage.
struct LoadedProgram {
  Machine machine;
  Program program;
};
LoadedProgram LoadProgram(const std::string& path, const std::string& machine);

}  // namespace hsimd
