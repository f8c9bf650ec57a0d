/// transpose_launcher.h: kernels that do nothing but transpose matrices, by tiles instead of by
/// their code.
#pragma once

#include <memory>

#include "backends/cpu/util/threads.h"
#include "weft/runtime/backend/backend.h"

namespace weft::cpu {

/// Null where the kernel is anything else. Vectors that read one side of a matrix in steps of the
/// other take a cache line an element; tiles of 16 x 16 take it once.
std::shared_ptr<KernelLauncher> MakeTransposeLauncher(const Kernel& kernel,
                                                      std::shared_ptr<const Team> team);

}  // namespace weft::cpu
