/// multi_launcher.h: runs the parts of one launch (form multi) on the team.
#pragma once

#include <memory>
#include <vector>

#include "backends/cpu/util/threads.h"
#include "weft/runtime/backend/backend.h"

namespace weft::cpu {

/// `codes`: one for each of lowered.Kernels().
std::shared_ptr<KernelLauncher> MakeCpuMultiLauncher(const LoweredKernel& lowered,
                                                     std::vector<CpuKernel> codes,
                                                     std::shared_ptr<const Team> team);

}  // namespace weft::cpu
