/// inputs.h: the tensors that a run reads, from files or at random.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "command_line.h"
#include "weft/core/graph/graph.h"
#include "weft/core/pass/evaluator.h"
#include "weft/runtime/program/program.h"

namespace weft::tool {

using NamedTensors = std::map<std::string, TensorPtr>;

/// "NAME=F" options as (name, file), each name once.
std::vector<std::pair<std::string, std::string>> SplitAssignments(
    const std::vector<std::string>& options, const std::string& option);
/// "SYM=N" options; N >= 0.
SymBindings ParseBindings(const std::vector<std::string>& binds);
/// Symbols of the declared inputs, by name.
std::vector<std::string> InputSymbols(const Graph& graph);
/// Every symbol of the inputs that has no value gets 1; names the model has not are kBadBinding.
SymBindings CompleteBindings(const Graph& graph, const SymBindings& given);

/// One tensor per input of the graph, checked against its declaration. Random ones are a function
/// of the model, the seed and the bindings, whatever the engine, so that runs can be compared.
NamedTensors MakeInputs(const Graph& graph, const InputArgs& args, const Limits& limits);
/// In the order of the program's inputs.
std::vector<TensorPtr> OrderInputs(const Program& program, const NamedTensors& inputs);

/// A value of `type` from a file, by its extension: .npy or .pb.
TensorPtr ReadTensor(const std::string& path, const Limits& limits, Type type = {});

}  // namespace weft::tool
