/// cuda_backend.h: the backend "cuda" on one device. Private to src/backends/cuda.
#pragma once

#include <memory>

#include "backends/cuda/driver/device.h"
#include "backends/cuda/libraries/libraries.h"
#include "weft/runtime/backend/backend.h"

namespace weft::cuda {

/// What calls know of the backend that they are prepared for. It has a name outside of its file
/// because tests have a backend of their own beside that of the module, which the calls belong to:
/// classes of one name count as one.
class CudaBackend : public DeviceBackend {
 public:
  virtual Libraries& libraries() const = 0;
};

struct CudaBackendOptions {
  Target target;  ///< whose kernel compiler makes its kernels; none: "cuda:sm_XY" of the device
  bool fusion = true;
};
std::shared_ptr<DeviceBackend> MakeCudaBackend(std::shared_ptr<Device> device,
                                               std::shared_ptr<Libraries> libraries,
                                               const CudaBackendOptions& options = {});

}  // namespace weft::cuda
