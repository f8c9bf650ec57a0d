/// cuda_library.h: where the libraries of the CUDA Toolkit are looked for; private to
/// src/codegen/cuda and src/backends/cuda. Weft links none of them: each is opened when it
/// is first asked for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/support/shared_library.h"

namespace weft::cuda {

/// The driver's file: what WEFT_LIBCUDA names, else libcuda.so.1.
std::string DriverFile();
/// Version of this machine's driver, 12040 for CUDA 12.4; 0 where there is none. No context is
/// made.
int InstalledDriver();

/// Is a library of that major version one for the driver? What a later Toolkit compiles, an earlier
/// driver refuses. A driver of version 0 is not known, and takes all.
bool IsForDriver(int major, int driver);
/// File names of a library ("libnvrtc.so") whose versions 12 and 13 Weft takes, the best
/// for the driver first.
std::vector<std::string> NamesForDriver(const std::string& library, int driver);

/// How well an opened library serves: 0 not at all, and the reason; kServesBest: no other needs
/// to be looked at.
inline constexpr int kServesBest = 100;
using JudgeLibrary = std::function<int(const SharedLibrary& library, std::string* reason)>;

/// The file that the environment names in `variable`; else the first of `names` that the loader
/// finds, that lies below CUDA_HOME or CUDA_PATH, in the usual place of the Toolkit, or in one of
/// NVIDIA's Python packages. With `judge` the first that serves best of all. What was opened stays
/// open for the life of the process: threads and caches of such a library outlive any scope of
/// ours. An empty handle where there is none, and the reason: that of a file which is there and
/// cannot be used, where there is one.
SharedLibrary OpenCudaLibrary(const char* variable, const std::vector<std::string>& names,
                              std::string* reason, const JudgeLibrary& judge = {});

}  // namespace weft::cuda
