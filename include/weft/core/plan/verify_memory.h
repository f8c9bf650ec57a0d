/// verify_memory.h: an order, its storage plan and offsets, replayed without the planners.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/plan/storage.h"

namespace weft {

/// Where the blocks of a storage plan lie at given sizes.
struct PlacedStorage {
  std::vector<int64_t> bytes;    ///< of each storage
  std::vector<int64_t> offsets;  ///< of each storage; looked at for those of the arena
  int64_t arena_bytes = 0;
  int64_t live_bytes = 0;  ///< what the planner says is alive at most
};

/// Follows the steps over the bytes of the arena. Throws kInternal, naming nodes, where
///   a step is missing, runs twice, or before what it needs;
///   writes and reads of a variable, or other effects, stand in another order than in the graph;
///   a block is left or read outside its life (VerifyStorage);
///   a step reads bytes that something else was written over, or writes outside the arena;
///   another number of bytes is alive at most than `placed` says.
WEFT_API void VerifyMemory(const Graph& graph, const Order& order, const StoragePlan& plan,
                           const PlacedStorage& placed);

}  // namespace weft
