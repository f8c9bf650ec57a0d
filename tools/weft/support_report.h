/// support_report.h: what of a model a target cannot run, all at once, grouped, with reasons.
#pragma once

#include <string>
#include <vector>

#include "common.h"

namespace weft::tool {

struct Unsupported {
  std::string op, dtypes, reason, hint;
  std::vector<std::string> places;  ///< the first few nodes, by the names the user gave
  int64_t count = 0;
};

/// `findings` are those of the import; `graph` is the imported graph. Sorted by op, then reason.
std::vector<Unsupported> FindUnsupported(const Graph& graph, const std::vector<Finding>& findings,
                                         const std::string& target);
std::string SupportText(const std::vector<Unsupported>& groups, const std::string& target);
Json SupportJson(const std::vector<Unsupported>& groups);

}  // namespace weft::tool
