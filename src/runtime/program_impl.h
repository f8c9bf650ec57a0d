/// program_impl.h: the kinds of program. Private to the runtime.
#pragma once

#include <memory>

#include "weft/runtime/program.h"

namespace weft {

/// Runs every node in the Evaluator on tensors of the sizes that come: the reference.
std::shared_ptr<Program> MakeReferenceProgram(Graph graph);
/// Runs the planned instruction list on host memory.
std::shared_ptr<Program> MakeHostProgram(Graph graph, std::shared_ptr<Backend> backend);

}  // namespace weft
