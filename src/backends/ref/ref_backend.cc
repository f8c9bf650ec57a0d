/// ref_backend.cc: the reference backend: every operator by the interpreter, nothing fused, nothing
/// simplified.
#include "reference_program.h"
#include "weft/core/module/backend_module.h"
#include "weft/runtime/backend/backend.h"
#include "weft/runtime/pipelines.h"

namespace weft {
namespace {

class RefBackend final : public Backend {
 public:
  std::string name() const override { return "ref"; }
  Target target() const override { return "ref"; }
  std::string default_pipeline() const override { return InterpretedPipeline().ToString(); }
  /// Nothing is simplified.
  std::string support_pipeline() const override { return {}; }
  std::string WhyNot(const Graph&, const NodePtr& node) const override {
    return WhyNotInterpreted(node);
  }
  std::shared_ptr<const BackendProgram> MakeProgram(const Graph& graph,
                                                    const CompileOptions&) override {
    return MakeReferenceProgram(graph);
  }
};

TargetTraits Interpreted() {
  TargetTraits t;
  t.kernels = false;
  return t;
}

[[maybe_unused]] const bool registered = RegisterBackendModule(
    BackendModule("ref").set_traits(Interpreted()).set_backend([](const BackendParameters&) {
      return std::make_shared<RefBackend>();
    }));

}  // namespace
}  // namespace weft
