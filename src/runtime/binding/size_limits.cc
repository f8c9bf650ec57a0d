/// size_limits.cc: see size_limits.h.
#include "size_limits.h"

#include <algorithm>

#include "weft/core/graph/graph_attr_types.h"

namespace weft {

SizeBounds::SizeBounds(Facts facts, const SymBindings& bindings)
    : facts_(std::move(facts)), bindings_(bindings) {
  for (const auto& [name, value] : bindings) facts_.AddEqual(SymInt::Parse(name), value);
}

void SizeBounds::SetMost(SymInt size, int64_t most) { facts_.SetRange(size, {0, most}); }

void SizeBounds::Limit(const std::vector<SymInt>& unbacked) {
  for (SymInt s : unbacked) {
    Limit(s);
    if (const int64_t hi = facts_.RangeOf(s).hi; hi < kNone) limits_[s] = hi;
  }
}

/// Bounds that hang on other such sizes: at their most.
void SizeBounds::Limit(SymInt size) {
  if (facts_.RangeOf(size).hi < kNone) return;
  Facts at_most = facts_;
  for (const auto& [other, most] : limits_)
    if (!(other == size)) at_most.AddEqual(other, most);
  const int64_t most = at_most.RangeOf(size).hi;
  if (most < kNone) facts_.SetRange(size, {0, std::max<int64_t>(most, 0)});
}

int64_t SizeBounds::Most(SymInt e, bool* at_most) {
  if (!e.known()) {
    *at_most = true;
    return kNone;
  }
  bool found = false;
  for (SymInt s : e.Symbols()) {
    if (!s.is_unbacked() || bindings_.count(s.symbol_name())) continue;
    found = true;
    Limit(s);
  }
  if (!found) return Evaluate(e, bindings_);
  *at_most = true;
  const int64_t most = facts_.RangeOf(e).hi;
  return most < kNone ? std::max<int64_t>(most, 0) : kNone;
}

std::vector<SymInt> UnbackedSizes(const Graph& g) {
  std::map<int64_t, SymInt> all;
  const ShapeMap& shapes = g.GetAttr<ShapeMap>("shape");
  for (const NodePtr& n : g.TopoOrder())
    for (uint32_t i = 0; i < n->num_outputs(); ++i)
      for (SymInt d : shapes[NodeEntry(n, i)].dims())
        for (SymInt s : d.known() ? d.Symbols() : std::vector<SymInt>())
          if (const auto k = s.unbacked_number()) all[*k] = s;
  std::vector<SymInt> sizes;
  for (const auto& [k, s] : all) sizes.push_back(s);
  return sizes;
}

}  // namespace weft
