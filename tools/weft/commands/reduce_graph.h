/// reduce_graph.h: makes a graph smaller as long as it is still interesting.
#pragma once

#include <functional>

#include "weft/core/graph/graph.h"

namespace weft::tool {

/// Is this smaller graph still interesting? Called with candidates only; one that it throws
/// for counts as no.
using IsInteresting = std::function<bool(const Graph&)>;

/// Operators that can be removed, in bodies too: all but constants.
size_t CountOperators(const Graph& graph);

/// The smallest graph found from `graph` on, which must be interesting itself: no output and no
/// unused input of the result can be dropped, and no single operator be removed, so that it stays
/// interesting. Removing an operator puts in the place of a result another entry of the same type
/// and shape that it reads, or else a new input; a graph output becomes what the operator read.
/// Halves of the outputs and of the operators in topological order are tried first, then quarters,
/// and so on down to one by one, until a whole round changes nothing. Control edges are kept. An If
/// gives way to one of its branches where that does, a Loop or Scan to its first iteration; what is
/// left of bodies is made smaller in the same way, with zeros in the place of new inputs.
Graph ReduceGraph(const Graph& graph, const IsInteresting& interesting);

}  // namespace weft::tool
