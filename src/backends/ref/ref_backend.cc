/// ref_backend.cc: the reference backend: every operator by the interpreter,
/// nothing fused, nothing simplified.
#include "weft/runtime/backend/backend.h"
#include "weft/support/check.h"

namespace weft {
namespace {

class RefBackend final : public Backend {
 public:
  std::string name() const override { return "ref"; }
  std::string target() const override { return ""; }
  std::string default_pipeline() const override { return "OrderMutation,ReadVariables,InferShape"; }
  std::shared_ptr<KernelLauncher> Load(const Kernel&, const CompiledKernel&) override {
    WEFT_THROW(kUnsupported, "the reference backend runs no generated kernels");
  }
};

[[maybe_unused]] const bool registered =
    (RegisterBackend("ref", [] { return std::make_shared<RefBackend>(); }), true);

}  // namespace
}  // namespace weft
