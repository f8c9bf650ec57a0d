/// inputs.h: the tensors that a run reads: from files, from the command line, or made up.
#pragma once

#include <string>
#include <vector>

#include "command_line.h"
#include "tensor_files.h"
#include "weft/core/graph/graph.h"
#include "weft/runtime/inputs/sample_inputs.h"
#include "weft/runtime/program/program.h"

namespace weft::tool {

/// "NAME=VALUE" options as (name, value), each name once.
std::vector<std::pair<std::string, std::string>> SplitAssignments(
    const std::vector<std::string>& options, const std::string& option);
/// Names of the inputs that --input gives.
std::vector<std::string> GivenInputs(const InputArgs& args);

/// What --bind and --shape say of the model's dimensions. Throws kUsage, kBadBinding for a name
/// that the model has not, kBadInput where they contradict each other or the model.
struct GivenDims {
  SymBindings bindings;
  InputDims shapes;
};
GivenDims ParseDims(const Graph& graph, const InputArgs& args);
/// With those that nobody has given.
ChosenDims CompleteDims(const Graph& graph, const GivenDims& given, const InputArgs& args);
/// "batch=1, seq=128".
std::string DimsText(const SymBindings& bindings, const std::vector<std::string>& names);

struct RunInputs {
  NamedTensors tensors;  ///< one per input of the graph
  ChosenDims dims;
};
/// Each checked against its declaration. Made-up ones are a function of the model, the seed and the
/// dimensions, whatever the engine, so that runs can be compared. Says on stderr which dimensions
/// were chosen, and writes the inputs where the arguments say so.
RunInputs MakeInputs(const Graph& graph, const InputArgs& args, const Limits& limits);
/// In the order of the program's inputs.
std::vector<TensorPtr> OrderInputs(const Program& program, const NamedTensors& inputs);

}  // namespace weft::tool
