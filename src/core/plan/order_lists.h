/// order_lists.h: orders made by one pass over a list of ready nodes; near linear. Private to the
/// core.
#pragma once

#include "order_instance.h"

namespace weft::order {

/// Follows `order`, but runs at once whatever leaves no more bytes alive than before and needs at
/// most `limit` while it runs: a node, or a chain of nodes that only lead to each other. Where an
/// order of at most `limit` bytes exists, one exists that goes on like that from any of its states.
/// Read backwards, it puts off what makes bytes.
Sequence Pulled(const Instance& in, const Sequence& order, int64_t limit);

/// Of the ready nodes, the one that leaves the fewest bytes alive; then the first of `order`.
Sequence Greedy(const Instance& in, const Sequence& order);

/// Depth first from the sinks in the order of `order`, operands with the highest peak above what
/// they leave first, as for trees (Sethi and Ullman, Liu).
Sequence DepthFirst(const Instance& in, const Sequence& order);

Sequence PositionsOf(const Sequence& order);

}  // namespace weft::order
