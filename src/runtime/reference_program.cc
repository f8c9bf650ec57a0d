/// reference_program.cc: the program of backends without generated kernels: the Evaluator, node by node.
#include "program_impl.h"
#include "weft/core/evaluator.h"
#include "weft/core/op.h"
#include "weft/support/check.h"

namespace weft {
namespace {

class ReferenceProgram final : public Program {
 public:
  explicit ReferenceProgram(Graph graph) {
    const Evaluator* e = GetEvaluator();
    WEFT_CHECK(e, kUnsupported, "no evaluator is registered");
    std::string bad;
    for (NodePtr n : graph.TopoOrder()) {
      if (n->is_variable()) continue;
      ++stats_.interpreted;
      if (const std::string why = e->WhyNot(n); !why.empty()) bad += fmt::format("\n  {}: {}", n->Describe(), why);
    }
    WEFT_CHECK(bad.empty(), kUnsupported, "the reference backend cannot run these nodes:{}", bad);
    graph_ = std::move(graph);
  }

 protected:
  std::unique_ptr<State> NewState() const override { return std::make_unique<State>(); }
  void Run(State&, const std::vector<TensorPtr>& inputs, std::vector<std::shared_ptr<Tensor>>* outputs) const override {
    std::vector<TensorPtr> results = GetEvaluator()->Eval(graph_, inputs);
    for (size_t i = 0; i < results.size(); ++i) (*outputs)[i] = std::const_pointer_cast<Tensor>(results[i]);
  }
};

}  // namespace

std::shared_ptr<Program> MakeReferenceProgram(Graph graph) { return std::make_shared<ReferenceProgram>(std::move(graph)); }

}  // namespace weft
