/// verify_layout.h: the independent check of where the arena of a run has everything. Private to
/// the runtime.
#pragma once

#include "arena.h"

namespace weft {

/// Runs the steps on numbers: every byte of the arena knows who wrote it last. Throws kInternal
/// where a step reads what another one has written over, where scratch memory or results lie on
/// operands or on each other, where something leaves the arena, and where a step is left out though
/// its results are not what its operands have there. Shares no line with what lays out the arena.
void VerifyLayout(const ExecutionPlan& plan, const ArenaSizes& sizes, const ArenaLayout& layout);

}  // namespace weft
