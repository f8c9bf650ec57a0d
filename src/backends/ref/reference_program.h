/// reference_program.h: every node of a graph in the Evaluator, on tensors of the sizes that come.
#pragma once

#include <memory>
#include <string>

#include "weft/runtime/program/backend_program.h"

namespace weft {

/// Empty: the Evaluator runs it.
std::string WhyNotInterpreted(const NodePtr& node);
/// Throws kUnsupported with every node that the Evaluator cannot run.
std::shared_ptr<const BackendProgram> MakeReferenceProgram(const Graph& graph);

}  // namespace weft
