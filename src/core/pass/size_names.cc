/// size_names.cc: see size_names.h.
#include "weft/core/pass/size_names.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <vector>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/variable.h"
#include "weft/sym/symbols.h"

namespace weft {
namespace {

/// Symbols that are a dimension of an input: the run begins with them.
std::unordered_set<SymInt> SizesOfInputs(const Graph& graph) {
  std::unordered_set<SymInt> told;
  const ShapeMap* shapes = graph.HasAttr("shape") ? &graph.GetAttr<ShapeMap>("shape") : nullptr;
  const auto note = [&told](const Shape& s) {
    for (SymInt d : s.dims())
      if (d.known() && d.is_symbol()) told.insert(d);
  };
  for (const NodePtr& input : graph.AllInputs()) {
    if (const Shape* s = shapes ? shapes->find(NodeEntry(input)) : nullptr)
      note(*s);
    else if (const std::optional<Shape> declared = DeclaredShape(input))
      note(*declared);
  }
  return told;
}

}  // namespace

void FollowSizeNames(Graph* graph) {
  const Facts facts = graph->AttrOr<Facts>("facts"), resolved = graph->AttrOr<Facts>("resolved");
  if (facts.empty() && resolved.empty()) return;
  const std::unordered_set<SymInt> told = SizesOfInputs(*graph);
  const auto is_told = [&told](SymInt d) {
    return EverySymbol(d, [&](SymInt s) { return told.count(s) != 0; });
  };
  for (const NodePtr& n : graph->TopoOrder()) {
    if (!IsOp(n, builtin::kShapeTensor)) continue;
    const Shape written = n->attr<Shape>("dims");
    std::vector<SymInt> dims = written.dims();
    for (SymInt& d : dims) {
      if (!d.known()) continue;
      const SymInt now = facts.Simplify(resolved.Simplify(d));
      if (is_told(now) || !is_told(d)) d = now;
    }
    if (const Shape now(std::move(dims)); !now.same(written)) graph->SetAttr(n, "dims", now);
  }
}

}  // namespace weft
