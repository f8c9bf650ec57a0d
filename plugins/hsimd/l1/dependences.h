/// dependences.h: what a block program means, as least distances between starts. Private to
/// merging.
#pragma once

#include <cstdint>
#include <vector>

#include "footprint.h"
#include "merge.h"

namespace hsimd {

/// Instructions that keep their distances. Times are cycles from the group's start.
struct Group {
  struct Member {
    int instruction = 0;  ///< over all blocks, in their order
    int64_t offset = 0;
  };
  std::vector<Member> members;
  int64_t finished = 0;  ///< first cycle in which nothing of it is under way
};

/// start of `to` >= start of `from` + distance, which may be negative.
struct Distance {
  int from = 0, to = 0;
  int64_t distance = 0;
};

struct Dependences {
  std::vector<Instruction> instructions;  ///< of all blocks, starts as one after another
  std::vector<Footprint> footprints;
  std::vector<Group> groups;        ///< in an order that the distances allow
  std::vector<Distance> distances;  ///< between groups; from < to
  int64_t sequence_cycles = 0;
};

Dependences FindDependences(const Machine& machine, const std::vector<Block>& blocks,
                            PlaceTable* places);

}  // namespace hsimd
