/// reinfer.cc: see reinfer.h. Bodies before the nodes that hold them; nesting is bounded by
/// the readers' depth limit.
#include "reinfer.h"

#include <vector>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/pass/provide.h"

namespace weft {
namespace {

Graph Cleaned(Graph g);

/// Derived attributes go; given ones (hints, metadata, facts) stay.
void DropDerived(Graph* g) {
  std::vector<std::string> derived;
  for (const auto& [name, value] : g->attrs) {
    const AttrType* type = FindAttrType(name);
    if (!type || type->kind == AttrKind::kDerived) derived.push_back(name);
  }
  for (const std::string& name : derived) g->DropAttr(name);
}

/// The body with what inference finds; its symbols are those of the graph around it, and so are
/// the facts about them.
GraphPtr CleanedBody(const GraphPtr& body, bool infer, const std::shared_ptr<std::any>& facts) {
  Graph clean = *body;
  DropDerived(&clean);
  if (facts) clean.attrs["facts"] = facts;
  clean = Cleaned(std::move(clean));
  if (infer) clean = ProvideTypes(std::move(clean));
  return std::make_shared<const Graph>(std::move(clean));
}

/// With the bodies of its nodes cleaned.
Graph Cleaned(Graph g) {
  const auto it = g.attrs.find("facts");
  const std::shared_ptr<std::any> facts = it == g.attrs.end() ? nullptr : it->second;
  for (NodePtr n : g.TopoOrder()) {
    std::vector<std::pair<std::string, GraphPtr>> bodies;
    for (const auto& [name, value] : n->attrs.dict)
      if (value.is<GraphPtr>()) bodies.emplace_back(name, value.get<GraphPtr>());
    for (auto& [name, body] : bodies)
      g.SetAttr(n, name, CleanedBody(body, IsOp(n, builtin::kFused), facts));
  }
  return g;
}

}  // namespace

Graph Reinferred(Graph g) {
  DropDerived(&g);
  return Cleaned(std::move(g));
}

}  // namespace weft
