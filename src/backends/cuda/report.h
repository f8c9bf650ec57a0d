/// report.h: what `weft doctor` tells about CUDA on this machine. Private to src/backends/cuda.
#pragma once

#include <vector>

#include "backends/cuda/driver/driver_api.h"
#include "weft/core/module/backend_module.h"

namespace weft::cuda {

/// The driver and its devices, one row each; a failing call is told in the row that it spoils.
std::vector<ReportRow> ReportDevices(const DriverApi& api);
/// NVRTC, cuBLASLt and cuDNN: version and where found, or why not. NVRTC is that for the device of
/// that number, where there is one, and compiles a line for it.
std::vector<ReportRow> ReportLibraries(const DriverApi& driver, int ordinal);

}  // namespace weft::cuda
