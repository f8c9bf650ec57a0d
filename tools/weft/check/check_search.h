/// check_search.h: where an engine first differs from the reference: which result, and
/// which node behind it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "check_engines.h"

namespace weft::tool {

/// What comparing an engine with the reference gave.
struct CheckReply {
  std::optional<size_t> result;  ///< the first that differs
  /// how; without a result: why nothing was compared, empty where all are equal
  std::string detail;
  bool differs() const { return result.has_value(); }
};

class CheckSearch {
 public:
  /// `drawn`, by node id of `graph`: depends on what cannot be repeated, and is not compared.
  CheckSearch(const CheckEngines& engines, const Graph& graph, const std::vector<uint8_t>& drawn)
      : engines_(engines), graph_(graph), drawn_(drawn) {}

  CheckReply Compare(const Graph& g, const Tensors& got, const Tensors& want,
                     CheckQuestion* question) const;
  /// Of `g` by a program of its own; where the engine alone gives nothing,
  /// its first result differs.
  CheckReply CompareOnce(const Graph& g, const Engine& e, const NamedTensors& in,
                         const StateMap& state) const;
  /// The first node behind `output` that differs; *detail: how. It is looked for with every result
  /// exposed, then, where that hides the fault (it keeps kernels apart), from the output back, by
  /// programs that end at an operand.
  std::string FirstNode(const Engine& e, const NodeEntry& output, const NamedTensors& in,
                        const StateMap& state, std::string* detail) const;

 private:
  const CheckEngines& engines_;
  const Graph& graph_;
  const std::vector<uint8_t>& drawn_;
};

}  // namespace weft::tool
