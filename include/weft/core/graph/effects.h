/// effects.h: what nodes do beside giving results: which inputs they write, which variables hold
/// state, and the operators by which graphs say so.
///
///   variable        a variable node with `state` = true, or one with a value that some operator
///                   writes. Its content outlives a run (runtime/session/variable_store.h); `value`
///                   is what it starts with.
///   weft::Assign    (variable, value) -> value: writes the variable
///   weft::Read      (variable) -> its content at the time when the node runs, whatever is written
///                   later. ReadVariables puts one before the readers of a variable that the graph
///                   writes, so that passes may move, merge and rewrite the readers as they do with
///                   any value. Never part of a kernel.
///   weft::Group     (inputs ...) -> bool[0]: there when all inputs have
///                   been computed; costs nothing
///   weft::Fused     writes what the weft::Assign nodes of its body write
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

namespace builtin {
inline constexpr const char* kGroup = "weft::Group";
inline constexpr const char* kRead = "weft::Read";
}  // namespace builtin

/// Inputs that the node writes, each with the output that is its new content (-1: none): of
/// weft::Assign {(0, 0)}, of a weft::Fused one pair for every output of its body that is an Assign
/// to an input of the body. Ordered by output. Inputs that are not there are left out.
WEFT_API std::vector<std::pair<int, int>> WrittenInputs(const NodePtr& node);
/// Running the node does more than give its outputs: a stateful operator, one that writes an input,
/// or one with either in a body, however deep. Such a node stays though nothing reads it, runs
/// once, and is not merged with an equal one.
WEFT_API bool HasEffect(const NodePtr& node);
/// Some node of the graph has one. Looks at every node once.
WEFT_API bool HasEffects(const Graph& graph);

/// Nodes in the order of the program: producers and what control edges name first, else by id. What
/// effects see of each other follows it (OrderMutation).
WEFT_API std::vector<NodePtr> ProgramOrder(const Graph& graph);

/// For nodes that become part of others: the control edges of `node` are then those of its heir.
/// What ran before it, or the heir of that, runs before the heir, and the heir before what ran
/// behind it; edges inside one heir go. `heirs`: by id, `node` among them; others stay themselves.
WEFT_API void MoveControlEdges(const NodePtr& node,
                               const std::unordered_map<NodeId, NodePtr>& heirs);

/// The variable's content is state of a session: not fed, not a constant.
WEFT_API bool IsState(const NodePtr& variable);
/// State variables that outputs or effects reach, by id.
WEFT_API std::vector<NodePtr> StateVariables(const Graph& graph);

/// Gives those that are state only because something writes them the attribute `state`, so
/// that they stay it.
WEFT_API void MarkState(Graph& graph);

/// A state variable; `initial` (may be null) is what it holds in a session whose store has
/// none of that name.
WEFT_API NodePtr AddState(Graph& graph, std::string name, Type type, Shape shape,
                          TensorPtr initial = nullptr);
WEFT_API NodeEntry Assign(const NodeEntry& variable, const NodeEntry& value);
/// Exists when all of `inputs` (at least one) have been computed.
WEFT_API NodeEntry Group(const std::vector<NodeEntry>& inputs);

}  // namespace weft
