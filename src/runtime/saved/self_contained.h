/// self_contained.h: compiled graphs without the operators of the program that made them.
#pragma once

#include "weft/core/graph/graph.h"
#include "weft/core/target.h"

namespace weft {

/// `compiled` with a weft::Expression in the place of every element-wise node that a kernel, or the
/// interpreter, computes and whose operator the library does not register itself, and with the
/// kernels of that. The graph itself where there is none. What such an operator does by a library
/// call, on the host, or at positions of its own stays, and needs its registration where it runs.
Graph SelfContained(const Graph& compiled, const Target& target);

}  // namespace weft
