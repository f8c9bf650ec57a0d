/// reinfer.h: types and shapes that a file states are claims, not facts. Private to the api room.
#pragma once

#include "weft/core/graph/graph.h"

namespace weft {

/// The graph with types, shapes and values as inference finds them: what was recorded for results
/// is dropped, in bodies too; what is declared of inputs and variables stays. A graph from a file
/// must not make a kernel read past a buffer because a recorded extent is not the real one.
/// Throws what inference throws.
Graph Reinferred(Graph g);

}  // namespace weft
