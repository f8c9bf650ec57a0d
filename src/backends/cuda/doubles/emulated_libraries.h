/// emulated_libraries.h: products and convolutions of the backend "cuda"
/// (backends/cuda/libraries/libraries.h) by loops on the host, as work of a stream of
/// failing_driver.h.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/libraries/libraries.h"
#include "failing_driver.h"

namespace weft::e2e {

/// What `run` does with the operands, when the stream comes to it.
class EmulatedPlan final : public cuda::LibraryPlan {
 public:
  using Work = std::function<void(void* const* operands, void* workspace)>;
  EmulatedPlan(std::string description, size_t operands, int64_t workspace_bytes, Work work)
      : description_(std::move(description)),
        operands_(operands),
        workspace_bytes_(workspace_bytes),
        work_(std::move(work)) {}
  int64_t workspace_bytes() const override { return workspace_bytes_; }
  std::string description() const override { return description_; }
  void Run(cuda::StreamHandle* stream, void* const* operands, void* workspace) const override {
    GiveWork(stream, [work = work_, at = std::vector<void*>(operands, operands + operands_),
                      workspace] { work(at.data(), workspace); });
  }

 private:
  const std::string description_;
  const size_t operands_;
  const int64_t workspace_bytes_;
  const Work work_;
};

class EmulatedLibraries final : public cuda::Libraries {
 public:
  std::shared_ptr<const cuda::LibraryPlan> Product(const cuda::ProductSpec& spec) override;
  std::shared_ptr<const cuda::LibraryPlan> Conv(const cuda::ConvSpec& spec) override;

  /// They have no way to do anything: kernels are generated.
  bool refuse = false;
  /// No convolution with anything behind it, no product with a row or an activation.
  bool refuse_epilogues = false;
  int products = 0, convs = 0;                   ///< plans made
  std::vector<cuda::ProductSpec> product_specs;  ///< of these
  int convs_followed = 0;                        ///< of them, with an epilogue
  int convs_channels_last = 0;                   ///< of them, with all tensors so
};

}  // namespace weft::e2e
