/// command_reproducer.h: the file that is left when a command fails by our fault
/// outside of any pass.
#pragma once

#include <string>
#include <vector>

#include "weft/support/error.h"

namespace weft::tool {

/// Written into the working folder.
constexpr const char* kReproducerFile = "weft-reproducer.weft";

/// The words behind `weft`, as main got them.
std::vector<std::string>& CommandArguments();

/// Set once a pass has left its reproducer, which says more than the command's.
bool& ReproducerWritten();

/// Writes the arguments and the model that they name, as far as it can be read, and says so in the
/// hint of `error`. Nothing happens where a reproducer has been written, or is being replayed.
void WriteCommandReproducer(const std::vector<std::string>& arguments, Error* error);

}  // namespace weft::tool
