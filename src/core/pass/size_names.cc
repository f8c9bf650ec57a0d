/// size_names.cc: see size_names.h.
#include "weft/core/pass/size_names.h"

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"

namespace weft {

void FollowSizeNames(Graph* graph) {
  const Facts facts = graph->AttrOr<Facts>("facts"), resolved = graph->AttrOr<Facts>("resolved");
  if (facts.empty() && resolved.empty()) return;
  for (const NodePtr& n : graph->TopoOrder()) {
    if (!IsOp(n, builtin::kShapeTensor)) continue;
    const Shape written = n->attr<Shape>("dims");
    std::vector<SymInt> dims = written.dims();
    for (SymInt& d : dims)
      if (d.known()) d = facts.Simplify(resolved.Simplify(d));
    if (const Shape now(std::move(dims)); !now.same(written)) graph->SetAttr(n, "dims", now);
  }
}

}  // namespace weft
