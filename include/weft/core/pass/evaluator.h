/// evaluator.h: runs a graph on host tensors. The core defines the interface; codegen registers the
/// interpreter behind it. The manager's equivalence check and FoldConstants call it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

/// Contents of state variables (core/graph/effects.h) by name.
using StateMap = std::map<std::string, TensorPtr>;

struct EvalOptions {
  bool typed = true;  ///< round like a device; false: double precision throughout
  /// State variables take their contents from here, and what is written is put here (tensors
  /// are replaced, never written to). Without it, or where a name is missing, they begin
  /// with their own value.
  StateMap* state = nullptr;
};

class WEFT_API Evaluator {
 public:
  virtual ~Evaluator() = default;
  /// Null when `node` can be evaluated; else the reason.
  virtual std::string WhyNot(const NodePtr& node) const = 0;
  /// Outputs of one node; `inputs` has null for an absent one. Shapes come from the tensors.
  virtual std::vector<TensorPtr> EvalNode(const NodePtr& node, const std::vector<TensorPtr>& inputs,
                                          const EvalOptions& options) const = 0;
  /// Outputs of the graph; `inputs` in the order of graph.AllInputs(). Throws kUnsupported naming
  /// the ops it cannot run.
  virtual std::vector<TensorPtr> Eval(const Graph& graph, const std::vector<TensorPtr>& inputs,
                                      const EvalOptions& options = {}) const = 0;
};

/// The registered evaluator; null when the interpreter is not linked in.
WEFT_API const Evaluator* GetEvaluator();
WEFT_API void SetEvaluator(std::unique_ptr<Evaluator> evaluator);

/// Random inputs for a graph from the declared types and shapes of its inputs and the InputDomains
/// of the ops that read them; symbols without a binding get small extents (including 1 and, where
/// `allow_zero`, 0). Deterministic in `seed`.
struct RandomInputs {
  std::vector<TensorPtr> tensors;  ///< in the order of graph.AllInputs()
  StateMap state;                  ///< of state variables without a value
  SymBindings bindings;
};
WEFT_API RandomInputs MakeRandomInputs(const Graph& graph, uint64_t seed,
                                       const SymBindings& bind = {}, bool allow_zero = false);
/// Largest difference in units of tolerance: <= 1 is equal. Tolerances by dtype; NaN equals NaN.
WEFT_API double CompareTensors(const Tensor& got, const Tensor& want, double rtol = -1,
                               double atol = -1);

}  // namespace weft
