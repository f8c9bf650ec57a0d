/// small_world.h: problems of memory over random graphs of the kind that orders are compared on.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "weft/core/plan/memory_problem.h"

namespace weft {

/// Watts and Strogatz: a ring where everyone knows four neighbours, each edge moved with
/// probability 0.75; from lower numbers to higher ones. Values have 1 to 8 bytes.
inline MemoryProblem SmallWorld(std::mt19937* random, int n) {
  std::uniform_real_distribution<double> uniform(0, 1);
  MemoryProblem p;
  p.nodes.resize(size_t(n));
  for (int k = 0; k < n; ++k) {
    p.nodes[size_t(k)].outputs = {k};
    p.values.push_back({1 + int64_t((*random)() % 8), k});
  }
  for (int k = 0; k < n; ++k)
    for (int d = 1; d <= 2; ++d) {
      int other = (k + d) % n;
      if (uniform(*random) < 0.75) other = int((*random)() % unsigned(n));
      if (other == k) continue;
      std::vector<int>& inputs = p.nodes[size_t(std::max(k, other))].inputs;
      const int from = std::min(k, other);
      if (!std::count(inputs.begin(), inputs.end(), from)) inputs.push_back(from);
    }
  return p;
}

}  // namespace weft
