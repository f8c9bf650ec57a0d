/// region_report.h: what a program of regions takes. Private to the runtime.
#pragma once

#include <vector>

#include "runtime/program/program_impl.h"

namespace weft {

/// Each region is a block, and so is what they give each other. `tensors`: Program::Impl::Report.
MemoryReport ReportRegions(const Program::Impl& program, Backend& backend,
                           const std::vector<TensorPtr>& tensors);

}  // namespace weft
