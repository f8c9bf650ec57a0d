/// entry_attrs.h: how attributes that name entries (gradient.h) and the names of values live
/// through edits.
/// Private to the graph.
#pragma once

#include <functional>

#include "weft/core/graph/graph.h"

namespace weft {

/// `from` has become `to` in every attribute that names entries.
void FollowReplacement(GraphAttrMap& attrs, const NodeEntry& from, const NodeEntry& to);
/// `to`, which stands where `from` stood, is called as that was if it has no name yet.
void HandOnName(Graph& g, const NodeEntry& from, const NodeEntry& to);
/// Data-dependent sizes that began at `from` are those of `to`, which stands where that stood.
void HandOnSizes(Graph& g, const NodeEntry& from, const NodeEntry& to);
/// The row of the attribute "value_name"; null where there is none.
const std::string* NameRow(const Graph& g, const NodeEntry& e);
/// Calls f(id) for the nodes of entries that a request for gradients names.
void ForEachAskedNode(const GraphAttrMap& attrs, const std::function<void(NodeId)>& f);

}  // namespace weft
