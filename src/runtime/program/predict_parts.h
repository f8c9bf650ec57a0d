/// predict_parts.h: what a planned graph takes of an arena, bodies and regions too.
/// Private to the runtime.
#pragma once

#include <vector>

#include "weft/runtime/program/memory.h"

namespace weft {

/// As programs count it: what lies in the arena of one, and what the bodies in it take at most.
struct ArenaParts {
  int64_t arena = 0, inside = 0;
  bool at_most = false;  ///< a run may take less
  int64_t sum() const;
  void Larger(const ArenaParts& other);
};

/// `report`: blocks for what each region of the graph takes, and for the tensors between them, and
/// values that nothing bounds. Null: such a value throws kUnsupported. Throws kBadBinding for a
/// symbol without a value.
ArenaParts PredictParts(const Graph& planned, Backend& backend, const CallOptions& calls,
                        const SymBindings& bindings, MemoryReport* report);
/// What the bodies of a plan take, alone.
ArenaParts PredictBodies(const Graph& planned, Backend& backend, const CallOptions& calls,
                         const SymBindings& bindings, MemoryReport* report);

}  // namespace weft
