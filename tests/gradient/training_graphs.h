/// training_graphs.h: random graphs of all operators, a loss over their results, and its gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/tensor/tensor.h"

namespace weft::gradient {

using Tensors = std::vector<TensorPtr>;

struct Training {
  Graph graph;  ///< results: the loss, then the gradients
  Tensors inputs;
  double epsilon = 0;  ///< of the narrowest float in it
};

/// The gradient graph of that seed; none, and why, where there is nothing to differentiate or an
/// operator on the way has no gradient.
std::optional<Training> MakeTraining(uint64_t seed, std::string* why);

}  // namespace weft::gradient
