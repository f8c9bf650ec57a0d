/// pieces.h: see pieces.cc; private to src/codegen.
#pragma once

#include <optional>

#include "weft/codegen/lower/lower.h"

namespace weft {

/// The copies of an output that is made of consecutive pieces along one axis, more of them
/// than one kernel reads; nothing where it is something else. `flat`: by kernels of one loop,
/// which CUDA launches together.
std::optional<LoweredKernel> LowerPieces(const ComputeSpec& spec, bool flat);

}  // namespace weft
