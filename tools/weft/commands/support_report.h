/// support_report.h: what of a model a target cannot run, or runs on the host, all at
/// once, grouped, with reasons.
#pragma once

#include <string>
#include <vector>

#include "common.h"
#include "weft/core/module/delegate.h"

namespace weft::tool {

/// Nodes of one operator and one reason.
struct NodeGroup {
  std::string op, dtypes, reason, hint;
  std::vector<std::string> places;  ///< the first few nodes, by the names the user gave
  int64_t count = 0;
};

/// Sorted by op, then reason.
struct Support {
  std::vector<NodeGroup> unsupported;
  std::vector<NodeGroup> between_regions;  ///< by the interpreter, as what they give is known late
  std::vector<NodeGroup> on_host;          ///< where the target is a device with memory of its own
};

/// `findings` are those of the import; `graph` is the imported graph. A backend that compiles for
/// constant dimensions is asked about the graph at `dims`, which are values of its symbols.
Support FindSupport(const Graph& graph, const std::vector<Finding>& findings, const Target& target,
                    const SymBindings& dims);
/// The same of a delegate: nodes that its engine does not take, in bodies, too.
Support FindDelegateSupport(const Graph& graph, const std::vector<Finding>& findings,
                            const DelegateSpec& delegate);

int64_t CountNodes(const std::vector<NodeGroup>& groups);
std::string SupportText(const Support& support, const std::string& target);
Json SupportJson(const std::vector<NodeGroup>& groups);

}  // namespace weft::tool
