/// predict_arena.h: what a run takes of memory, before anything is compiled or run.
#pragma once

#include "weft/runtime/backend/backend.h"
#include "weft/runtime/program/program.h"

namespace weft {

struct PredictedArena {
  int64_t bytes = 0;
  /// No run takes more; one may take less: sizes that data decide are at their most, and each If
  /// takes the branch that needs more.
  bool at_most = false;
};

/// Session::arena_bytes of a run of Compile(graph, options) at these extents, those of bodies and
/// regions too: the passes are those of the program and its library calls are made, but no kernel
/// is compiled. Where operands are steady, or calls are tuned, a run may take other scratch memory.
/// Throws as Compile does, kUnsupported where data decide a size that has no
/// bound, and kBadBinding for a symbol without a value.
WEFT_API PredictedArena PredictArena(Graph graph, const CompileOptions& options,
                                     const SymBindings& bindings);

/// The graph that Backend::WhyNot and PredictPeak are asked about, with types and shapes: behind
/// the backend's support_pipeline, and at these extents where it asks for constant ones or
/// `at_extents` is set.
WEFT_API Graph SupportGraph(Graph graph, const Backend& backend, const SymBindings& bindings,
                            const PassOptions& passes, bool at_extents);

}  // namespace weft
