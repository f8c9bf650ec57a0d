/// value_name.h: what the values of a graph are called.
///
/// A name says which value of the user's model an entry is: it holds the same numbers as the value
/// of that name in the file. Output 0 is called as its node (`attrs.name`); a further output has a
/// row in the graph attribute "value_name" (given), or no name of its own.
///
/// `Graph::ReplaceUses` hands names on: what takes the place of a named value and has no name yet
/// is called as that value was. So rewrites do not name what they put in the place of a node.
#pragma once

#include <string>

#include "weft/core/graph/graph_attr.h"

namespace weft {

/// "value_name": rows of outputs behind the first alone.
using ValueNames = EntryMap<std::string>;

/// Empty where the value has no name.
WEFT_API std::string ValueName(const Graph& graph, const NodeEntry& e);
WEFT_API void SetValueName(Graph* graph, const NodeEntry& e, std::string name);

}  // namespace weft
