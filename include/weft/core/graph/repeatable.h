/// repeatable.h: which nodes give the same however often they are computed: only those may be
/// merged with equal ones, folded when compiling, or computed more than once in a run.
#pragma once

#include <functional>

#include "weft/core/graph/graph.h"

namespace weft {

/// For ops that draw random numbers with some attributes and operands only (Dropout): does this
/// node draw new ones each time that it is computed? It goes where nothing reads it; an op that
/// always draws says TIsStateful.
using FDrawsAnew = std::function<bool(const NodePtr&)>;

/// Computing the node draws new random numbers: a stateful operator that writes nothing,
/// FDrawsAnew, or a body with such a node, however deep.
WEFT_API bool DrawsAnew(const NodePtr& node);
/// It neither has an effect (HasEffect) nor draws.
WEFT_API bool IsRepeatable(const NodePtr& node);

}  // namespace weft
