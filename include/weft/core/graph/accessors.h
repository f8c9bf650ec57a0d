/// accessors.h: what rules ask again and again of nodes and entries: the one spelling of each
/// question.
#pragma once

#include <cstdint>
#include <optional>

#include "weft/core/graph/graph.h"

namespace weft {

/// The only node that reads an output of `n`, by one input; null where there are several, where `n`
/// is an output of the graph, or where a control edge of either asks for an order.
WEFT_API NodePtr OnlyReader(const Graph& g, const NodePtr& n);
/// Is `e` output 0 of an operator whose only reader is that?
WEFT_API bool IsOnlyReadBy(const Graph& g, const NodeEntry& e, const NodePtr& reader);
/// Does a node read `e`, or is it an output of the graph?
WEFT_API bool IsRead(const Graph& g, const NodeEntry& e);

/// Operand i; null where it is absent or beyond those that are given.
inline NodeEntry InputOf(const NodePtr& n, size_t i) {
  return i < n->num_inputs() ? n->inputs[i] : NodeEntry();
}

/// The constant of one element behind an entry, whatever its rank and dtype; nullopt for any other
/// entry.
WEFT_API std::optional<double> ScalarConstant(const NodeEntry& e);

/// Attribute `perm` of a Transpose of `rank` axes; what it does not say is the reverse order.
WEFT_API Ints TransposePerm(const NodePtr& transpose, int rank);
/// Does axis k stay axis k?
WEFT_API bool IsIdentityPerm(const Ints& perm);

}  // namespace weft
