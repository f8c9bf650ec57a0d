#include "weft/runtime/program/predict_arena.h"

#include <optional>

#include "constant_extents.h"
#include "plan_graph.h"
#include "runtime/program/predict_parts.h"
#include "weft/core/graph/effects.h"
#include "weft/core/pass/provide.h"
#include "weft/support/check.h"

namespace weft {

namespace {

/// As the backend tells it, of programs that are its own.
int64_t PeakOf(const Graph& graph, const CompileOptions& options, Backend& backend,
               const SymBindings& bindings) {
  PassOptions passes;
  passes.target = backend.target();
  passes.limits = options.passes.limits;
  const std::optional<int64_t> peak =
      backend.PredictPeak(SupportGraph(graph, backend, bindings, passes, true));
  WEFT_CHECK(peak, kUnsupported, "the backend {} plans nothing before it compiles", backend.name());
  return *peak;
}

}  // namespace

Graph SupportGraph(Graph graph, const Backend& backend, const SymBindings& bindings,
                   const PassOptions& passes, bool at_extents) {
  if (at_extents || backend.constant_extents())
    graph = AtExtents(std::move(graph), bindings, passes);
  const Pipeline pipeline = Pipeline::Parse(backend.support_pipeline());
  return ProvideTypes(ApplyPasses(std::move(graph), pipeline, passes), passes);
}

PredictedArena PredictArena(Graph graph, const CompileOptions& options,
                            const SymBindings& bindings) {
  const std::string name = options.backend.empty() ? kDefaultBackend : options.backend;
  const std::shared_ptr<Backend> backend = BackendFor(name, options.threads);
  CheckEffects(graph);
  MarkState(graph);
  if (!backend->target().traits().kernels)
    return {PeakOf(graph, options, *backend, bindings), false};
  const Planned planned = PlanGraph(std::move(graph), options, *backend, false);
  const ArenaParts parts = PredictParts(planned.graph, *backend, options.calls, bindings, nullptr);
  return {parts.sum(), parts.at_most};
}

}  // namespace weft
