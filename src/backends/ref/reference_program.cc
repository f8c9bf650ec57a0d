/// reference_program.cc: the program of the backend "ref": the Evaluator, node by node.
#include "reference_program.h"

#include <utility>

#include "weft/core/graph/variable.h"
#include "weft/core/pass/evaluator.h"
#include "weft/support/check.h"

namespace weft {
namespace {

class ReferenceProgram final : public BackendProgram {
 public:
  explicit ReferenceProgram(const Graph& graph) : graph_(graph) {
    std::string bad;
    for (NodePtr p : graph_.AllInputs())
      if (DeclaredType(p).kind == TypeKind::kOpaque)
        bad += fmt::format("\n  {}: values of its type are not supported", p->Describe());
    for (NodePtr n : graph_.TopoOrder()) {
      if (n->is_variable()) continue;
      ++nodes_;
      if (const std::string why = WhyNotInterpreted(n); !why.empty())
        bad += fmt::format("\n  {}: {}", n->Describe(), why);
    }
    WEFT_CHECK(bad.empty(), kUnsupported, "the reference backend cannot run these nodes:{}", bad);
  }

  void Run(State&, ProgramRun& run) const override {
    std::vector<StateVariable>& variables = run.variables();
    StateMap contents;
    for (StateVariable& v : variables) contents[v.name()] = v.Read();
    EvalOptions options;
    options.state = &contents;
    std::vector<TensorPtr> results = Evaluate(run, options);
    for (size_t i = 0; i < results.size(); ++i) run.SetResult(i, std::move(results[i]));
    std::vector<TensorPtr> now;
    for (StateVariable& v : variables) now.push_back(std::move(contents[v.name()]));
    run.WriteVariables(now);
  }
  void AddStats(ProgramStats* stats) const override { stats->interpreted += nodes_; }

 private:
  /// An operator that a size does not suit names itself; what is known of the symbols and does not
  /// hold is told beside it, or alone where no operator minds.
  std::vector<TensorPtr> Evaluate(const ProgramRun& run, const EvalOptions& options) const {
    const Facts facts = graph_.AttrOr<Facts>("facts");
    std::vector<TensorPtr> results;
    try {
      results = GetEvaluator()->Eval(graph_, run.inputs(), options);
    } catch (Error& e) {
      try {
        facts.CheckHolds(run.extents());
      } catch (const Error& broken) {
        if (e.hint().empty()) e.SetHint(broken.message());
      }
      throw;
    }
    facts.CheckHolds(run.extents());
    return results;
  }

  const Graph graph_;
  int nodes_ = 0;
};

}  // namespace

std::string WhyNotInterpreted(const NodePtr& node) {
  const Evaluator* evaluator = GetEvaluator();
  return evaluator ? evaluator->WhyNot(node) : "no evaluator is registered";
}

std::shared_ptr<const BackendProgram> MakeReferenceProgram(const Graph& graph) {
  return std::make_shared<ReferenceProgram>(graph);
}

}  // namespace weft
