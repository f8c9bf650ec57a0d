/// random_extents.h: seeded random graphs whose inputs decide extents (k of TopK, the shape of a
/// Reshape, what NonZero looks at), which run by stages. What decides is data as well: arithmetic
/// reads it, before, beside and behind what it decides.
///
/// Arithmetic is what every device rounds alike (few bits, no reduction but extremes), so that
/// results agree bit by bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/sym/sym.h"

namespace weft::fuzz {

/// An input of the graph, and what it may be: one of `choices`, else elements of [lo, hi].
struct FedInput {
  DType dtype = DType::kF32;
  std::vector<SymInt> dims;
  int64_t lo = 0, hi = 0;
  std::vector<std::vector<int64_t>> choices;
  bool decides = false;
};

struct ExtentGraph {
  uint64_t seed = 0;
  Graph graph;
  std::vector<FedInput> inputs;       ///< in the order of graph.AllInputs()
  std::vector<SymBindings> bindings;  ///< three
};

/// The graph of that seed: the same on every machine.
ExtentGraph MakeExtentGraph(uint64_t seed);

/// Inputs for binding number `binding`: data by `data`, what decides by `values`.
std::vector<TensorPtr> MakeInputs(const ExtentGraph& g, size_t binding, uint64_t data,
                                  uint64_t values);

}  // namespace weft::fuzz
