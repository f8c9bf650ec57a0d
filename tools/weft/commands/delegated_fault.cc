/// delegated_fault.cc: see delegated_fault.h.
#include "delegated_fault.h"

#include <algorithm>
#include <set>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/pass/body_types.h"

namespace weft::tool {
namespace {

struct Region {
  std::string delegate;
  std::vector<std::string> nodes;
};

/// The nodes in a region, in order.
std::vector<std::string> NodesIn(const Graph& body) {
  std::vector<std::string> names;
  for (const NodePtr& n : body.TopoOrder())
    if (!n->is_variable() && !Graph::ConstantOf(NodeEntry(n)))
      names.push_back(n->origin() && !n->origin()->empty() ? n->origin()->back() : n->attrs.name);
  return names;
}

void CollectRegions(const Graph& g, std::vector<Region>* regions) {
  for (const NodePtr& n : g.TopoOrder()) {
    if (IsOp(n, builtin::kDelegated)) {
      regions->push_back({n->attr<std::string>("delegate"), NodesIn(*n->attr<GraphPtr>("body"))});
    } else if (IsOp(n, builtin::kRegion) || HasControlBodies(n)) {
      for (const std::string& name : BodyNames(n))
        CollectRegions(*n->attr<GraphPtr>(name), regions);
    }
  }
}
std::vector<Region> RegionsOf(const Program& program) {
  std::vector<Region> regions;
  CollectRegions(program.graph(), &regions);
  return regions;
}

}  // namespace

std::optional<DelegatedFault> FindDelegatedFault(
    const std::function<std::shared_ptr<const Program>(const DivisionOptions&)>& make,
    const std::function<bool(const Program&)>& agrees, const DivisionOptions& whole) {
  const auto given = [&](int64_t most) {
    DivisionOptions division = whole;
    division.most = most;
    return make(division);
  };
  const std::shared_ptr<const Program> all = given(-1), none = given(0);
  if (agrees(*all) || !agrees(*none)) return std::nullopt;
  int64_t right = 0, wrong = 0;  // nodes that are given away
  for (const Region& r : RegionsOf(*all)) wrong += int64_t(r.nodes.size());
  while (wrong - right > 1) {
    const int64_t middle = right + (wrong - right) / 2;
    (agrees(*given(middle)) ? right : wrong) = middle;
  }
  const auto names_of = [](const Program& p) {
    std::set<std::string> names;
    for (const Region& r : RegionsOf(p)) names.insert(r.nodes.begin(), r.nodes.end());
    return names;
  };
  const std::set<std::string> before = names_of(*given(right)), with = names_of(*given(wrong));
  DelegatedFault fault;
  for (const std::string& name : with)
    if (!before.count(name)) fault.node = name;
  for (Region& r : RegionsOf(*all))
    if (std::count(r.nodes.begin(), r.nodes.end(), fault.node)) {
      fault.delegate = r.delegate;
      fault.region = std::move(r.nodes);
    }
  return fault;
}

}  // namespace weft::tool
