/// inline_body.cc: see inline_body.h.
#include "inline_body.h"

#include <unordered_map>
#include <unordered_set>

#include "weft/core/graph/effects.h"

namespace weft {

bool CanInline(const Graph& body) {
  std::unordered_set<NodeId> inputs;
  for (const NodePtr& input : body.inputs()) inputs.insert(input->id());
  for (const NodePtr& n : body.TopoOrder())
    if (HasEffect(n) || !n->control_deps.empty() ||
        (n->is_variable() && !inputs.count(n->id()) && !Graph::ConstantOf(NodeEntry(n))))
      return false;
  return true;
}

std::vector<NodeEntry> InlineBody(Graph& g, const Graph& body,
                                  const std::vector<NodeEntry>& operands) {
  std::unordered_map<EntryKey, NodeEntry> here;
  for (size_t i = 0; i < body.inputs().size(); ++i)
    here[NodeEntry(body.inputs()[i]).key()] = operands[i];
  const auto find = [&](const NodeEntry& e) { return e.node ? here.at(e.key()) : NodeEntry(); };
  for (const NodePtr& m : body.TopoOrder()) {
    if (here.count(NodeEntry(m).key())) continue;
    if (const TensorPtr constant = Graph::ConstantOf(NodeEntry(m))) {
      here[NodeEntry(m).key()] = g.AddConstant(constant);
      continue;
    }
    std::vector<NodeEntry> inputs;
    for (const NodeEntry& e : m->inputs) inputs.push_back(find(e));
    const NodePtr copy = g.AddCopy(m, inputs);
    for (uint32_t i = 0; i < m->num_outputs(); ++i)
      here[NodeEntry(m, i).key()] = NodeEntry(copy, i);
  }
  std::vector<NodeEntry> outputs;
  for (const NodeEntry& e : body.outputs) outputs.push_back(find(e));
  return outputs;
}

}  // namespace weft
