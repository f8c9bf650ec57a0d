/// idle_operand.h: operands that a second run of a kernel does not need: what normalisations have
/// of running statistics.
#pragma once

#include "weft/core/graph/graph.h"

namespace weft {

/// Input `input` of `n` shows the content that `variable` has in front of `writer`, its only one.
/// What another run of `n`, behind `writer`, may have in its place though it is something else: the
/// content behind it, where nothing but `writer` reads the results that depend on the input.
/// Null: the results of that run would be others.
NodeEntry IdleOperand(const Graph& graph, NodePtr n, size_t input, NodePtr variable,
                      NodePtr writer);

}  // namespace weft
