/// size_names.h: sizes that passes have written down in a graph, under the names that they have
/// now.
#pragma once

#include "weft/core/graph/graph.h"

namespace weft {

/// Inference finds that sizes are equal, and calls them by one name from then on; what was written
/// down before (weft::ShapeTensor) gets it too, so that whoever tells sizes knows it. What the
/// inputs tell stays so.
WEFT_API void FollowSizeNames(Graph* graph);

}  // namespace weft
