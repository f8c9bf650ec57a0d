/// layer_judge.h: is a result what its node makes of the operands that the engine itself had?
///
/// Two right engines differ more from node to node, so a result that differs between them says
/// little about its node. Here each engine is measured against the evaluator in double precision on
/// that engine's own operands: what came in wrong does not count, and the first node that differs
/// is the cause. An element may be off by
///
///   roundoff * (16 + 8 sqrt(length of its sum)) * largest element
///
/// and by what the node makes of operands that differ in their last bits.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/tensor/tensor.h"

namespace weft::tool {

class LayerJudge {
 public:
  /// `results`: what an engine made of `entries`, results of nodes of `graph`; `inputs` those of
  /// graph.AllInputs().
  LayerJudge(const Graph& graph, const std::vector<NodeEntry>& entries,
             const std::vector<TensorPtr>& results, const std::vector<TensorPtr>& inputs);
  /// Its distance from what it should be, in units of what it may be off: at most 1 is right.
  /// Nothing where that cannot be said: an operand or the node is not at hand.
  std::optional<double> Judge(const NodeEntry& entry) const;

 private:
  TensorPtr ValueOf(const NodeEntry& entry) const;
  const Graph& graph_;
  std::map<EntryKey, TensorPtr> values_;
};

}  // namespace weft::tool
