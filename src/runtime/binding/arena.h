/// arena.h: where the blocks of a plan and the scratch memory of its steps lie, for programs that
/// run it and for queries of what it takes. Private to the runtime.
#pragma once

#include <vector>

#include "join_blocks.h"

namespace weft {

/// What is laid out, at the sizes of a run.
struct ArenaSizes {
  std::vector<int64_t> blocks;   ///< bytes of each storage
  std::vector<int64_t> scratch;  ///< bytes of each step, that live as long as the step
  std::vector<PartPlace> parts;  ///< of the plan; empty: every storage is a block by itself
  bool operator==(const ArenaSizes& o) const {
    return blocks == o.blocks && scratch == o.scratch && parts == o.parts;
  }
};

/// Storages that lie in one another.
struct ArenaBlock {
  int64_t bytes = 0, offset = 0;
  int begin = 0, end = 0;     ///< half-open steps of the order
  std::vector<int> storages;  ///< the largest first
};

struct ArenaLayout {
  std::vector<ArenaBlock> blocks;
  std::vector<int64_t> offsets;     ///< of each storage; -1: it is not in the arena
  std::vector<int64_t> scratch_at;  ///< of each step; 0 where it takes none
  std::vector<char> left_out;       ///< by step: what it copies lies where it belongs
  int64_t arena_bytes = 0;
  int64_t live_bytes = 0;     ///< the most that is needed at once
  int64_t tensor_bytes = 0;   ///< the most that tensors need at once
  int64_t scratch_bytes = 0;  ///< the most that one step takes beside tensors
};

/// Verified (verify_layout.h).
ArenaLayout LayArena(const ExecutionPlan& plan, const ArenaSizes& sizes);

}  // namespace weft
