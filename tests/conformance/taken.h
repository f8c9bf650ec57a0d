/// taken.h: what of a case an engine of delegates takes.
#pragma once

#include <string>

#include "weft/core/graph/graph.h"
#include "weft/runtime/program/program.h"

namespace weft::conformance {

/// How much of the graph the delegates behind `engine` ("cpu+libtorch") run in `program`, and why
/// not the rest: "all", "part: reasons", "none: reasons", "nothing to run". A reason begins with
/// its operator and names no nodes.
std::string WhatIsTaken(const Graph& graph, const Program& program, const std::string& engine);

/// Lines of a table for `results` = what WhatIsTaken said, by name of the case: counts, then what
/// was left, by reason, each with its cases.
std::string TakenTable(const std::string& engine,
                       const std::vector<std::pair<std::string, std::string>>& results);

}  // namespace weft::conformance
