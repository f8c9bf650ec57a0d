/// tensors_at.h: stand-ins for the tensors of a run, by which programs tell what it would take, and
/// what extents say of symbols.
/// Private to the runtime.
#pragma once

#include <vector>

#include "program_impl.h"

namespace weft {

/// Tensors without memory, of the inputs and variables of a program at these values of its symbols.
std::vector<TensorPtr> TensorsAt(const Program::Impl& program, const SymBindings& bindings);
/// And back: the values that the extents of such tensors give the symbols of the program.
SymBindings SymbolsOf(const Program::Impl& program, const std::vector<TensorPtr>& tensors);

}  // namespace weft
