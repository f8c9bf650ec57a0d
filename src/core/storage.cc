/// storage.cc: the independent check of a storage plan: replays the order and watches who wrote each block last.
#include "weft/core/storage.h"

#include "weft/core/op.h"
#include "weft/core/op_attr_types.h"
#include "weft/support/check.h"

namespace weft {

void VerifyStorage(const Graph& graph, const std::vector<NodeId>& order, const StoragePlan& plan) {
  const auto& view = Op::GetAttr<TIsView>("TIsView");
  // The value that each block holds: the entry at the end of its chain of views.
  std::vector<NodeEntry> content(plan.storages.size());
  EntryMap<NodeEntry> root;
  auto root_of = [&](const NodeEntry& e) { return root.find(e) ? *root.find(e) : e; };
  auto read = [&](const NodeEntry& e, int step, const std::string& who) {
    const int* s = plan.of.find(e);
    if (!s) return;
    const Storage& block = plan.storages[size_t(*s)];
    WEFT_ICHECK(content[size_t(*s)] == root_of(e), "{} reads {} at step {}, but its block holds {}",
                who, e.node->Describe(), step,
                content[size_t(*s)].node ? content[size_t(*s)].node->Describe() : "nothing");
    WEFT_ICHECK(step >= block.begin && step < block.end,
                "{} reads {} at step {}, outside the life [{}, {}) of its block", who,
                e.node->Describe(), step, block.begin, block.end);
  };
  std::vector<NodePtr> variables;
  for (NodeId id : order) {
    NodePtr n = graph.node(id);
    if (n->is_variable() || Graph::ConstantOf(NodeEntry(n))) variables.push_back(n);
  }
  for (NodePtr p : graph.AllInputs()) variables.push_back(p);
  for (NodePtr n : variables)
    if (const int* s = plan.of.find(NodeEntry(n))) content[size_t(*s)] = NodeEntry(n);
  for (size_t step = 0; step < order.size(); ++step) {
    NodePtr n = graph.node(order[step]);
    if (n->is_variable() || Graph::ConstantOf(NodeEntry(n))) continue;
    for (const NodeEntry& e : n->inputs)
      if (e.node) read(e, int(step), n->Describe());
    const int* first = plan.of.find(NodeEntry(n));
    const int* in = n->num_inputs() > 0 && n->inputs[0].node ? plan.of.find(n->inputs[0]) : nullptr;
    if (view.get(n->op(), false) && first && in && *first == *in) {
      root.set(NodeEntry(n), root_of(n->inputs[0]));
      continue;
    }
    for (uint32_t k = 0; k < n->num_outputs(); ++k) {
      const int* s = plan.of.find(n->id(), k);
      if (!s) continue;
      const Storage& block = plan.storages[size_t(*s)];
      WEFT_ICHECK(block.kind == StorageKind::kArena || block.kind == StorageKind::kOutput,
                  "{} writes into an input or a constant", n->Describe());
      WEFT_ICHECK(int(step) >= block.begin && int(step) < block.end,
                  "{} is written at step {}, outside the life [{}, {}) of its block", n->Describe(),
                  step, block.begin, block.end);
      for (uint32_t other = 0; other < k; ++other)
        WEFT_ICHECK(!plan.of.find(n->id(), other) || *plan.of.find(n->id(), other) != *s,
                    "two outputs of {} share a block", n->Describe());
      content[size_t(*s)] = NodeEntry(n, k);
    }
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const int* s = plan.of.find(graph.outputs[i]);
    WEFT_ICHECK(s && content[size_t(*s)] == root_of(graph.outputs[i]),
                "output {} is overwritten before the end", i);
  }
}

}  // namespace weft
