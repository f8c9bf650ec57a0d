/// needed_plugins.h: which plugins a compiled program needs, and of each what. Private to the
/// runtime.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "weft/core/graph/graph.h"

namespace weft {

class NeededPlugins {
 public:
  NeededPlugins();
  /// As programs name theirs, with delegates.
  void AddBackend(const std::string& name);
  /// Operators of the graph and of its bodies, and attributes of graphs.
  void AddGraph(const Graph& graph);
  bool empty() const { return needed_.empty(); }
  /// A line each: name, version, {kind, name} ..., apart by tabs.
  std::string ToText() const;

 private:
  void Add(const std::string& kind, const std::string& name);
  using Item = std::pair<std::string, std::string>;  ///< kind, name
  std::map<Item, std::string> owners_;               ///< of what loaded plugins registered
  std::map<std::string, std::string> versions_;
  std::map<std::string, std::set<Item>> needed_;  ///< by plugin
};

/// Throws kPlugin, with the plugin, where something that a text tells is not registered here, and
/// kInvalidModel where it is no such text.
void CheckPlugins(std::string_view text);

}  // namespace weft
