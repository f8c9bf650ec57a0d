/// taken.cc: see taken.h. The delegate is asked as the pass Delegate asks it, on the graph that the
/// pass sees.
#include "taken.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/module/delegate.h"
#include "weft/core/pass/pass.h"
#include "weft/core/pass/provide.h"
#include "weft/support/strings.h"

namespace weft::conformance {
namespace {

/// Without what differs from case to case: "Cast: from f64 to f16" stays, numbers go.
std::string Plain(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

std::set<std::string> Reasons(const Graph& given, const std::vector<DelegateSpec>& engines) {
  PassOptions plain;
  plain.verify = false;
  const Graph g = ProvideTypes(
      ApplyPasses(ProvideTypes(Graph(given), plain), {"Simplify", "FoldConstants"}, plain), plain);
  std::set<std::string> reasons;
  for (const NodePtr& n : g.TopoOrder()) {
    if (n->is_variable() || Graph::ConstantOf(NodeEntry(n))) continue;
    for (const DelegateSpec& e : engines)
      if (const std::string why = e.delegate->WhyNot(g, n, e.options); !why.empty())
        reasons.insert(Plain(why));
  }
  return reasons;
}

}  // namespace

std::string WhatIsTaken(const Graph& graph, const Program& program, const std::string& engine) {
  int64_t taken = 0, refused = 0;
  for (const PassRecord& r : program.stats().passes) {
    if (r.name != "Delegate") continue;
    const auto count = [&](const char* name) {
      const auto it = r.statistics.find(name);
      return it == r.statistics.end() ? int64_t{0} : it->second;
    };
    taken += count("nodes");
    refused += count("refused") + count("supported") - count("nodes");
  }
  if (taken + refused == 0) return "nothing to run";
  if (refused == 0) return "all";
  std::set<std::string> reasons = Reasons(graph, ParseDelegates(SplitDelegates(engine).second));
  if (reasons.empty()) reasons.insert("a size that data decide");
  return fmt::format("{}: {}", taken > 0 ? "part" : "none", fmt::join(reasons, "; "));
}

std::string TakenTable(const std::string& engine,
                       const std::vector<std::pair<std::string, std::string>>& results) {
  std::map<std::string, int> counts;
  std::map<std::string, std::vector<std::string>> left;
  for (const auto& [name, what] : results) {
    const size_t colon = what.find(": ");
    ++counts[what.substr(0, colon)];
    if (colon == std::string::npos) continue;
    for (const std::string& reason : Split(what.substr(colon + 2), ';'))
      left[std::string(Trim(reason))].push_back(name);
  }
  std::string text = fmt::format("{} cases on {}: ", results.size(), engine);
  std::vector<std::string> shares;
  for (const auto& [what, count] : counts) shares.push_back(fmt::format("{} {}", what, count));
  text += Join(shares, ", ") + "\n\n";
  for (const auto& [reason, names] : left) text += fmt::format("{:4}  {}\n", names.size(), reason);
  return text;
}

}  // namespace weft::conformance
