/// fusion_build.h: turns a group of nodes into one weft::Fused node with a body.
#pragma once

#include <vector>

#include "weft/codegen/attr_types.h"
#include "weft/core/graph.h"

namespace weft {

class FusedBuilder {
 public:
  explicit FusedBuilder(Graph& g);
  /// `members` in topological order. What others read of them becomes an output of the fused node. Scalars and tensors
  /// whose value is followed are copied into the body; every other outside value becomes an operand, once.
  void Build(const std::vector<NodePtr>& members);
  /// Wires the fused nodes in place of the members, erases what is dead, stores the rows and `subgraph`.
  void Finish();

 private:
  struct Plan {
    std::vector<NodePtr> members;
    std::vector<NodeEntry> operands, results;
    std::shared_ptr<Graph> body;
  };
  Graph& g_;
  const ShapeMap& shapes_;
  const TypeMap& types_;
  const ValueMap& values_;
  std::vector<uint8_t> is_output_;  // by node id
  std::vector<int> plan_of_;        // by node id: the plan it is a member of, -1: none so far
  std::vector<NodePtr> twin_;       // by node id: its copy in that plan's body
  std::vector<Plan> plans_;
};

}  // namespace weft
