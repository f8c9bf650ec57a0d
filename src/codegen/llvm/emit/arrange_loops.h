/// arrange_loops.h: the loop of a kernel that goes along the vector lanes of a CPU.
#pragma once

#include "weft/codegen/kernel/kernel.h"

namespace weft::llvmgen {

/// The kernel with the loop in lanes that suits a CPU: what it says, or the rows where a row is too
/// short; short rows of windows change places with the loop around them.
Kernel ArrangeLoops(const Kernel& kernel);

}  // namespace weft::llvmgen
