/// arena.h: where the blocks of a plan lie, for programs that run it and for queries of what it
/// takes. Private to the runtime.
#pragma once

#include <vector>

#include "weft/core/plan/storage.h"

namespace weft {

struct ArenaLayout {
  std::vector<int64_t> offsets;  ///< of each storage; -1: it is not in the arena
  int64_t arena_bytes = 0;
  int64_t live_bytes = 0;  ///< the most that is needed at once
};

/// `bytes`: of each storage, at the extents of a run.
ArenaLayout LayArena(const std::vector<Storage>& storages, const std::vector<int64_t>& bytes);

}  // namespace weft
