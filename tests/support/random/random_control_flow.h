/// random_control_flow.h: seeded random graphs with If, Loop and Scan, nested, for tests that run
/// them on every backend.
///
/// Arithmetic is what every device rounds alike (no reduction but of integers and extremes), so
/// that what no draw reaches must agree bit by bit. Where draws are asked for they stand at any
/// depth, and some control flow is there twice, node for node: what it computes is equal then, what
/// it draws is not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/sym/sym.h"

namespace weft::fuzz {

/// What is known of an output.
enum class Drawn : uint8_t {
  kNothing,  ///< no draw reaches it: the same on every backend and in every run
  kUniform,  ///< numbers of [0, 1) as they were drawn, each of them once
  kSomehow,  ///< computed from draws
};

struct ControlFlowGraph {
  uint64_t seed = 0;
  Graph graph;
  std::vector<SymBindings> bindings;  ///< five
  std::vector<Drawn> outputs;
};

/// The graph of that seed: the same on every machine.
ControlFlowGraph MakeControlFlowGraph(uint64_t seed, bool draws);

/// Inputs for binding number `binding`, other ones in every round.
std::vector<TensorPtr> MakeInputs(const ControlFlowGraph& g, size_t binding, uint64_t round);

}  // namespace weft::fuzz
