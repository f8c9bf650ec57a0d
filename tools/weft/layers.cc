/// layers.cc: see layers.h.
#include "layers.h"

#include "common.h"
#include "weft/core/graph/graph_attr.h"
#include "weft/core/pass/provide.h"
#include "weft/support/check.h"

namespace weft::tool {

Graph ExposeAll(Graph g, std::vector<std::string>* names,
                const std::function<bool(const NodeEntry&)>& wanted) {
  g = ProvideTypes(std::move(g));
  const ShapeMap shapes = g.GetAttr<ShapeMap>("shape");
  const TypeMap types = g.GetAttr<TypeMap>("dtype");
  std::vector<NodeEntry> entries;
  for (NodePtr n : g.TopoOrder()) {
    if (n->is_variable() || Graph::ConstantOf(NodeEntry(n))) continue;
    for (uint32_t i = 0; i < n->num_outputs(); ++i) {
      const NodeEntry e(n, i);
      if (!types[e].is_tensor() || !IsComputable(types[e].dtype) || !shapes[e].fully_known())
        continue;
      if (wanted && !wanted(e)) continue;
      entries.push_back(e);
      names->push_back(n->num_outputs() > 1 ? fmt::format("{} output {}", n->Describe(), i)
                                            : n->Describe());
    }
  }
  g.outputs = entries;
  for (size_t i = 0; i < entries.size(); ++i) g.SetOutputName(i, fmt::format("layer_{}", i));
  return g;
}

}  // namespace weft::tool
