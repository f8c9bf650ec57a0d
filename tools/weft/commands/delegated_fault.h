/// delegated_fault.h: which part of a model that an engine runs makes it wrong.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/tensor/tensor.h"
#include "weft/runtime/program/program.h"

namespace weft::tool {

struct DelegatedFault {
  std::string delegate;
  std::vector<std::string> region;  ///< the user's nodes in the region that it is in
  std::string node;                 ///< given away with all before it, results are wrong
};

/// Runs the graph with more and fewer of its nodes given away, halving: the node at which results
/// stop to agree. `run` makes the program of a division and tells its results; nothing where it
/// agrees with all given away that `whole` gives away, or does not with nothing.
std::optional<DelegatedFault> FindDelegatedFault(
    const std::function<std::shared_ptr<const Program>(const DivisionOptions&)>& make,
    const std::function<bool(const Program&)>& agrees, const DivisionOptions& whole);

}  // namespace weft::tool
