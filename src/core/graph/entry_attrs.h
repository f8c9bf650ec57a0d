/// entry_attrs.h: how attributes that name entries (gradient.h) live through edits.
/// Private to the graph.
#pragma once

#include <functional>

#include "weft/core/graph/graph.h"

namespace weft {

/// `from` has become `to` in every attribute that names entries.
void FollowReplacement(GraphAttrMap& attrs, const NodeEntry& from, const NodeEntry& to);
/// Calls f(id) for the nodes of entries that a request for gradients names.
void ForEachAskedNode(const GraphAttrMap& attrs, const std::function<void(NodeId)>& f);

}  // namespace weft
