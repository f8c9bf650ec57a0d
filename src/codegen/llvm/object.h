/// object.h: what is in an object file besides the code of its kernel.
#pragma once

#include <string>

#include "weft/codegen/kernel.h"

namespace weft::llvmgen {

/// Names a string: the bytes of scratch per call, an expression over the canonical symbols.
inline std::string ScratchSymbol(const Kernel& kernel) { return kernel.Name() + "_scratch"; }

}  // namespace weft::llvmgen
