/// own_program.h: programs that backends make of whole graphs (backend_program.h), and which
/// program a graph gets. Private to the runtime.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/program/program_impl.h"
#include "weft/runtime/program/backend_program.h"

namespace weft {

/// Of a graph that its passes have left: the backend's own program, where it makes one, else one of
/// kernels and calls. `saved`: sections of the backend's program that was in a file. Throws
/// kUnsupported for a backend that has neither.
std::unique_ptr<Program::Impl> MakeAnyProgram(Graph compiled,
                                              const std::shared_ptr<Backend>& backend,
                                              const CompileOptions& options,
                                              const std::vector<NamedBytes>& saved = {});

/// A dimension of an input or state variable that is a symbol by itself: a run tells its value.
struct SymbolPlace {
  size_t operand;  ///< of inputs, then state variables
  size_t axis;
  std::string symbol;
  std::string where;  ///< for messages
};
std::vector<SymbolPlace> SymbolPlaces(const Graph& graph);

/// Makes the program for these values of symbols; called by any thread; never null.
using MakeAtExtents =
    std::function<std::shared_ptr<const BackendProgram>(const SymBindings& extents)>;
/// One for each set of extents that runs come with, the last ones kept. `graph` has types and
/// shapes. `first`: made at once, where they are all symbols.
std::unique_ptr<Program::Impl> MakeProgramPerExtents(Graph graph, std::shared_ptr<Backend> backend,
                                                     MakeAtExtents make, const SymBindings& first);

}  // namespace weft
