/// c_printer.h: a kernel as portable C99, for people (`--save-kernels`) and as an independent check
/// of the other printers.
///
/// The text needs <math.h> only, compiles as it is, and defines one function of type `CpuKernelFn`
/// under `kernel.Name()`. `scratch` is not used. Build it with -ffp-contract=off: the language
/// rounds every operation.
#pragma once

#include <string>

#include "weft/codegen/kernel/kernel.h"

namespace weft {

/// Deterministic; holds no name of the model.
WEFT_API std::string PrintC(const Kernel& kernel);

}  // namespace weft
