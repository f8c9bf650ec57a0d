/// cudnn.h: convolutions by cuDNN 9, through its graphs of
/// operations. Private to src/backends/cuda.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cudnn_api.h"
#include "libraries.h"
#include "weft/support/bounded_cache.h"

namespace weft::cuda {

/// Thread-safe. Equal specs share a plan, whose engine was looked up once.
class Cudnn {
 public:
  /// The library of this machine that works on the device, opened when the first plan is asked for.
  explicit Cudnn(std::shared_ptr<Device> device, std::string library = "libcudnn.so");
  /// With a table of its own, which outlives every plan.
  Cudnn(std::shared_ptr<Device> device, const CudnnApi& api);
  ~Cudnn();
  /// As Libraries::Conv.
  std::shared_ptr<const LibraryPlan> Plan(const ConvSpec& spec);

 private:
  class Handle;
  class ConvPlan;
  std::shared_ptr<const LibraryPlan> MakePlan(const ConvSpec& spec);

  const std::shared_ptr<Device> device_;
  const std::string library_;
  const CudnnApi* api_ = nullptr;  ///< null: not opened yet
  std::mutex mutex_;
  std::shared_ptr<Handle> handle_;
  bool failed_ = false;  ///< there is none, which has been told
  /// Extents that change from run to run make ever new specs.
  static constexpr size_t kMostPlans = 4096;
  BoundedCache<std::vector<int64_t>, std::shared_ptr<const LibraryPlan>> plans_{kMostPlans,
                                                                                Evict::kAll};
};

}  // namespace weft::cuda
