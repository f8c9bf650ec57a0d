/// join_blocks.h: which blocks of the arena lie in others at the sizes of a run, so that what would
/// copy between them has nothing to do (StoragePlan::parts). Private to the runtime.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/instruction.h"

namespace weft {

/// A part of the plan at the sizes of a run.
struct PartPlace {
  int64_t before = 0;  ///< bytes of it in the whole
  bool together = false;
  bool operator==(const PartPlace& o) const { return before == o.before && together == o.together; }
};

/// Storages of the arena, those that lie in one another as one block.
struct JoinedBlocks {
  struct Block {
    int64_t bytes = 0;
    int begin = 0, end = 0;
  };
  std::vector<Block> blocks;
  std::vector<int> block_of;   ///< by storage; -1: not in the arena
  std::vector<int64_t> at;     ///< by storage, in its block
  std::vector<char> left_out;  ///< by step: all that it copies is there
  std::vector<char> taken;     ///< by part of the plan
};

/// `bytes`: of each storage; `scratch`: of each step; `parts`: of each part of the plan, empty
/// where none is to be taken. A part is taken where nothing that is still read would be
/// overwritten, and where the most bytes alive at once do not grow; one that saves no copy, where
/// they become fewer while it lives.
JoinedBlocks JoinBlocks(const ExecutionPlan& plan, const std::vector<int64_t>& bytes,
                        const std::vector<int64_t>& scratch, const std::vector<PartPlace>& parts);

}  // namespace weft
