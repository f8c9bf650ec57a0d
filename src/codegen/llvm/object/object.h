/// object.h: what is in an object file besides the code of its kernel.
#pragma once

#include <string>

#include "weft/codegen/kernel/kernel.h"

namespace weft::llvmgen {

/// Names a string, a line a number, each an expression over extents: CpuKernel::named, a "= "
/// before each; the bytes of scratch per call; where there are phases, then shared_bytes,
/// phase_gain, and the items of each.
inline std::string ScratchSymbol(const Kernel& kernel) { return kernel.Name() + "_scratch"; }
/// The entry of a phase.
inline std::string PhaseSymbol(const Kernel& kernel, size_t phase) {
  return kernel.Name() + "_" + std::to_string(phase);
}

}  // namespace weft::llvmgen
