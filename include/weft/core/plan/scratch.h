/// scratch.h: what nodes take while they run, beside tensors: the attribute `scratch` of a graph.
#pragma once

#include <cstdint>

#include "weft/core/graph/graph_attr.h"

namespace weft {

/// Bytes at the sizes of the attribute `hint`. No pass can tell them: whoever has prepared the
/// calls of a graph hands them to the passes that plan it again. A node without a row takes none.
using ScratchMap = NodeMap<int64_t>;

}  // namespace weft
