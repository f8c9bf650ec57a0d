#include "weft/runtime/program/predict_arena.h"

#include "plan_graph.h"
#include "runtime/program/predict_parts.h"
#include "weft/core/graph/effects.h"
#include "weft/support/check.h"

namespace weft {

PredictedArena PredictArena(Graph graph, const CompileOptions& options,
                            const SymBindings& bindings) {
  const std::string name = options.backend.empty() ? kDefaultBackend : options.backend;
  const std::shared_ptr<Backend> backend = BackendFor(name, options.threads);
  CheckEffects(graph);
  MarkState(graph);
  const Planned planned = PlanGraph(std::move(graph), options, *backend, false);
  WEFT_CHECK(backend->target().traits().kernels, kUnsupported, "the backend {} plans nothing",
             name);
  const ArenaParts parts = PredictParts(planned.graph, *backend, options.calls, bindings, nullptr);
  return {parts.sum(), parts.at_most};
}

}  // namespace weft
