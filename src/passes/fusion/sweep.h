/// sweep.h: one pass over the graph that puts nodes into groups, one kernel each.
#pragma once

#include <vector>

#include "nodes.h"
#include "weft/core/pass/pass.h"

namespace weft {

/// Which nodes become which kernel, and the edges by ids, for those who go on with it.
struct FusionPlan {
  static constexpr int kStays = -1, kUnreached = -2;
  std::vector<NodePtr> order;  ///< topological
  std::vector<NodeId> ids;     ///< of `order`
  std::vector<uint32_t> input_begin;
  std::vector<EntryKey> inputs;         ///< of order[k]: from input_begin[k] to input_begin[k + 1]
  std::vector<int> kernel_of;           ///< by id
  std::vector<uint8_t> is_elementwise;  ///< by place in the order; of a trial only
  int64_t stored_bytes = 0;             ///< written by kernels for others; of a trial only
  int kernels = 0;                      ///< numbered by first appearance in the order
  /// By id, the part of its kernel that a node belongs to; empty where no kernel has several.
  std::vector<int> part_of;
  bool has_control = false;  ///< some node has control edges
  bool writes = false;       ///< some member is a weft::Assign
  /// packed, sorted: constants that members read at fixed places
  std::vector<uint64_t> parameters;
  int64_t fused_ops = 0;
  int64_t level_refusals = 0;  ///< merges that only the levels were against
  int64_t parts = 0;           ///< groups that share a launch with others
  int64_t late_copies = 0;     ///< nodes in kernels that compute them again

  EntryKeys InputsOf(size_t k) const {
    return {inputs.data() + input_begin[k], input_begin[k + 1] - input_begin[k]};
  }
};

/// Adds copies of what is computed late to the graph.
FusionPlan PlanFusion(Graph& g, PassContext& ctx);

}  // namespace weft
