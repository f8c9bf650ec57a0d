/// copy_launcher.h: kernels that only move elements run as strided copies instead of by their code,
/// where that is faster.
#pragma once

#include <memory>

#include "backends/cpu/util/threads.h"
#include "weft/runtime/backend/backend.h"

namespace weft::cpu {

/// `code` where the kernel does anything else. Else launches with extents at which copies are
/// faster are copies, the others are left to `code`.
std::shared_ptr<KernelLauncher> WithCopies(const Kernel& kernel,
                                           std::shared_ptr<KernelLauncher> code,
                                           std::shared_ptr<const Team> team);

}  // namespace weft::cpu
