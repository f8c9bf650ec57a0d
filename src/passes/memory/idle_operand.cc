/// idle_operand.cc: see idle_operand.h.
#include "idle_operand.h"

#include <unordered_set>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/plan/layout.h"

namespace weft {
namespace {

/// Outputs of the body that depend on its input, by number. Looks at what does alone: bodies of
/// updates have thousands of inputs.
std::vector<size_t> Dependents(const Graph& body, size_t input) {
  std::vector<NodePtr> reached{body.inputs()[input]};
  std::unordered_set<NodeId> seen{reached[0]->id()};
  std::vector<size_t> outputs;
  for (size_t k = 0; k < reached.size(); ++k) {
    const NodePtr n = reached[k];
    if (body.is_output(n))
      for (size_t o = 0; o < body.outputs.size(); ++o)
        if (body.outputs[o].node == n) outputs.push_back(o);
    for (const Use& u : n->uses())
      if (seen.insert(u.user->id()).second) reached.push_back(u.user);
  }
  return outputs;
}

}  // namespace

NodeEntry IdleOperand(const Graph& graph, NodePtr n, size_t input, NodePtr variable,
                      NodePtr writer) {
  if (!IsOp(n, builtin::kFused) || graph.is_output(n)) return {};
  const GraphPtr body = n->attr<GraphPtr>("body");
  if (!body || body->inputs().size() != n->num_inputs()) return {};
  NodeEntry content;
  for (auto [i, o] : WrittenInputs(writer))
    if (o >= 0 && writer->inputs[size_t(i)].node == variable)
      content = NodeEntry(writer, uint32_t(o));
  if (!content.node) return {};
  const NodeEntry& operand = n->inputs[input];
  const auto& types = graph.GetAttr<TypeMap>("dtype");
  const auto& shapes = graph.GetAttr<ShapeMap>("shape");
  if (!types[operand].known() || types[operand] != types[content] ||
      !shapes[operand].same(shapes[content]))
    return {};
  if (graph.HasAttr("layout")) {
    const auto& layouts = graph.GetAttr<LayoutMap>("layout");
    if (layouts[operand] != layouts[content]) return {};
  }
  std::vector<char> depends(n->num_outputs(), 0);
  for (const size_t o : Dependents(*body, input))
    if (o < depends.size()) depends[o] = 1;
  bool waits = false;  // the writer, for the first run
  for (const Use& u : n->uses()) {
    if (u.control || !depends[u.user->inputs[u.slot].index]) continue;
    if (u.user != writer.get()) return {};
    waits = true;
  }
  return waits ? content : NodeEntry();
}

}  // namespace weft
