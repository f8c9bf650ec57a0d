/// random_graph.h: seeded random graphs over the registered operators, valid by construction, for
/// differential tests.
///
/// Every entry carries an interval that holds its values and a bound on how far a device may be
/// from exact arithmetic. The interval keeps operators inside their domains (no NaN, no overflow);
/// the bound is the tolerance of the comparison, so that a result built from moves and integers
/// alone must match bit by bit, and operators with jumps (comparisons, casts to integers, arg-max)
/// are put only behind exact values.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/sym/sym.h"

namespace weft::fuzz {

/// What is known about the values of an entry.
struct Values {
  double lo = 0, hi = 0;  ///< every value is in [lo, hi]
  double error = 0;  ///< |device - exact| stays below it; 0: every device computes the same bits
};

/// An input of the graph and the interval its values are drawn from.
struct RandomInput {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<SymInt> dims;
  double lo = 0, hi = 0;
};

struct RandomGraph {
  uint64_t seed = 0;
  bool vision = false;  ///< images and the operators on them, beside all others
  Graph graph;
  std::vector<RandomInput> inputs;    ///< in the order of graph.inputs()
  std::vector<SymBindings> bindings;  ///< sets of extents to run with; at least one
  std::map<std::pair<NodeId, uint32_t>, Values> values;  ///< of every entry
};

/// The graph of that seed: the same on every machine. Odd seeds give graphs of images.
RandomGraph MakeRandomGraph(uint64_t seed, int max_nodes = 30);

/// Random inputs for binding number `binding`.
std::vector<TensorPtr> MakeInputs(const RandomGraph& g, size_t binding);
/// The same, with a few numbers among the floats that no interval holds: NaN, infinities, zeros of
/// both signs, subnormal and huge numbers; of one kind or of all, as the seed says. special_run.h
/// compares what comes of them.
std::vector<TensorPtr> MakeSpecialInputs(const RandomGraph& g, size_t binding);

}  // namespace weft::fuzz
