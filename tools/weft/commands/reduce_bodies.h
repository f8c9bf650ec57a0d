/// reduce_bodies.h: the smaller graphs that `weft reduce` makes of one with If, Loop and Scan.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft::tool {

/// The way to a graph in bodies: operators and which of their bodies, from the outside. Empty: the
/// graph itself.
using BodyPath = std::vector<std::pair<NodeId, std::string>>;

/// The graph and all bodies in it, bodies behind the graph around them.
std::vector<BodyPath> ListBodies(const Graph& graph);
const Graph& BodyAt(const Graph& graph, const BodyPath& path);
/// The graph with this one in the place of what is there.
Graph WithBodyAt(const Graph& graph, const BodyPath& path, Graph body);

/// Operators of control flow in a graph, without those in bodies.
std::vector<NodeId> ControlNodes(const Graph& graph);
/// One of them gives way to what is in its body `name`: a branch, or the first iteration of a loop.
/// Nothing where the body has no operands in order.
std::optional<Graph> Inlined(const Graph& graph, NodeId node, const std::string& name);
/// The body without these operators, given producers first: in the place of a result stands an
/// operand of its type and shape, else zeros. Nothing where the type or shape of one is not known.
std::optional<Graph> BodyWithout(const Graph& body, const std::vector<NodeId>& nodes);

}  // namespace weft::tool
