/// tensors_at.h: stand-ins for the tensors of a run, by which programs tell what it would take.
/// Private to the runtime.
#pragma once

#include <vector>

#include "program_impl.h"

namespace weft {

/// Tensors without memory, of the inputs and variables of a program at these values of its symbols.
std::vector<TensorPtr> TensorsAt(const Program::Impl& program, const SymBindings& bindings);

}  // namespace weft
