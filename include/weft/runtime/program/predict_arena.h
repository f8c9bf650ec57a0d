/// predict_arena.h: what a run takes of memory, before anything is compiled or run.
#pragma once

#include "weft/runtime/program/program.h"

namespace weft {

/// Bytes of the arena (Session::arena_bytes) after a run of Compile(graph, options) at these
/// extents: the passes are those of the program, but no kernel is compiled. Throws as Compile does,
/// kUnsupported for a program of regions, whose sizes only the run knows, and kBadBinding for a
/// symbol without a value.
WEFT_API int64_t PredictArena(Graph graph, const CompileOptions& options,
                              const SymBindings& bindings);

}  // namespace weft
