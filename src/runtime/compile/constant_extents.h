/// constant_extents.h: graphs with numbers in the place of symbols, and programs of backends that
/// compile such graphs only (Backend::constant_extents). Private to the runtime.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/program/program_impl.h"

namespace weft {

/// Symbols of the dimensions of inputs and state variables, sorted.
std::vector<std::string> ExtentSymbols(const Graph& graph);
/// The graph with values for symbols, wherever nodes name them, with types and shapes.
Graph WithValues(Graph graph, const std::unordered_map<SymInt, SymInt>& values,
                 const PassOptions& passes);
/// The graph at these extents of inputs and state variables, with types and shapes.
Graph AtExtents(Graph graph, const SymBindings& extents, const PassOptions& passes);

/// The backend asks for constant extents, and the graph has others.
bool CompilesPerExtents(const Graph& graph, const Backend& backend);
/// One program for each set of extents, made when a run first comes with it: its graph goes through
/// the pipeline with numbers as extents. Made at once for options.memory.hints that tell all of
/// them.
std::unique_ptr<Program::Impl> CompilePerExtents(Graph graph, const CompileOptions& options,
                                                 const std::shared_ptr<Backend>& backend);

}  // namespace weft
