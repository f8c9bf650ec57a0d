/// pretty.h: in which order the nodes of a graph are printed, and under which names. Private
/// to the text printer.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "weft/core/graph/graph.h"

namespace weft {

struct TextLayout {
  explicit TextLayout(const Graph& g);

  std::vector<const Node*> variables;  ///< declared inputs, those with a value, the others
  /// the rest, producers first, the smallest id first among what is ready
  std::vector<const Node*> nodes;
  std::vector<std::string> names;  ///< as printed ("%a", "%\"a b\"", "%0"), by id
  /// Names of nodes whose own name was taken, by id.
  std::unordered_map<NodeId, std::string> renamed;
  /// Outputs behind the first that have names of their own (value_name.h): the name that parsing
  /// will give, and as printed.
  struct OwnName {
    std::string name, printed;
  };
  std::unordered_map<uint64_t, OwnName> own_names;  ///< by EntryKey::packed
  /// the id that a node has after parsing, by id; ~0u for erased ones
  std::vector<NodeId> ordinals;

 private:
  void OrderVariables(const Graph& g);
  void OrderNodes(const Graph& g);
  void Name(const Graph& g);
};

/// Value of a parameter; null where the variable has none.
TensorPtr VariableValue(const Node& variable);

}  // namespace weft
