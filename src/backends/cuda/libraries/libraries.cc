/// libraries.cc: see libraries.h.
#include "libraries.h"

#include "backends/cuda/driver/device.h"
#include "cublaslt.h"
#include "cudnn.h"
#include "weft/support/checked.h"

namespace weft::cuda {

int64_t PlannedCall::scratch_bytes() const {
  const int64_t bytes = plan_->workspace_bytes();
  // What we are given is aligned for operands.
  return bytes == 0 ? 0 : CheckedAdd(bytes, kWorkspaceAlignment - kOperandAlignment);
}

void PlannedCall::Enqueue(DeviceStream& stream, const void* const* inputs, void* const* outputs,
                          void* scratch) const {
  std::vector<void*> at;
  for (const Operand& o : operands_)
    at.push_back(o.number < 0 ? nullptr
                 : o.output   ? outputs[o.number]
                              : const_cast<void*>(inputs[o.number]));
  const uintptr_t unused = -reinterpret_cast<uintptr_t>(scratch) % kWorkspaceAlignment;
  void* const workspace =
      plan_->workspace_bytes() == 0 ? nullptr : static_cast<char*>(scratch) + unused;
  static_cast<Stream&>(stream).Run(
      [&](StreamHandle* handle) { plan_->Run(handle, at.data(), workspace); });
}

namespace {

class Both final : public Libraries {
 public:
  explicit Both(const std::shared_ptr<Device>& device) : products_(device), convs_(device) {}
  std::shared_ptr<const LibraryPlan> Product(const ProductSpec& spec) override {
    return products_.Plan(spec);
  }
  std::shared_ptr<const LibraryPlan> Conv(const ConvSpec& spec) override {
    return convs_.Plan(spec);
  }

 private:
  CublasLt products_;
  Cudnn convs_;
};

}  // namespace

std::shared_ptr<Libraries> OpenLibraries(std::shared_ptr<Device> device) {
  return std::make_shared<Both>(device);
}

}  // namespace weft::cuda
