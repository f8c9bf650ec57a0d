/// storage.cc: the independent check of a storage plan: replays the order and watches who
/// wrote each block last.
#include "weft/core/plan/storage.h"

#include <map>
#include <utility>

#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/plan/layout.h"
#include "weft/support/check.h"

namespace weft {
namespace {

bool HoldsFromTheStart(const NodePtr& n) {
  return n->is_variable() || Graph::ConstantOf(NodeEntry(n)) || ReorderedConstant(n);
}

}  // namespace

SymInt ArenaBytes(const Type& type, const Shape& shape) {
  if (!HasArenaPlace(type)) return SymInt();
  const int bits = DTypeBits(type.dtype);
  const SymInt n = shape.num_elements();
  return bits % 8 == 0 ? n * SymInt(int64_t{bits / 8}) : CeilDiv(n * SymInt(int64_t{bits}), 8);
}

void VerifyStorage(const Graph& graph, const std::vector<NodeId>& order, const StoragePlan& plan) {
  const auto& view = Op::GetAttr<TIsView>("TIsView");
  // The value that each block holds: the entry at the end of its chain of views.
  std::vector<NodeEntry> content(plan.storages.size());
  EntryMap<NodeEntry> root;
  // The content that each variable has by now, whether or not a later one is in its block already.
  std::map<NodeId, NodeEntry> holds;
  auto root_of = [&](const NodeEntry& e) {
    if (const auto it = holds.find(e.node->id()); it != holds.end()) return it->second;
    return root.find(e) ? *root.find(e) : e;
  };
  auto read = [&](const NodeEntry& e, int step, const NodePtr& reader) {
    const int* s = plan.of.find(e);
    if (!s) return;
    const Storage& block = plan.storages[size_t(*s)];
    WEFT_ICHECK(content[size_t(*s)] == root_of(e), "{} reads {} at step {}, but its block holds {}",
                reader->Describe(), e.node->Describe(), step,
                content[size_t(*s)].node ? content[size_t(*s)].node->Describe() : "nothing");
    WEFT_ICHECK(step >= block.begin && step < block.end,
                "{} reads {} at step {}, outside the life [{}, {}) of its block",
                reader->Describe(), e.node->Describe(), step, block.begin, block.end);
  };
  std::vector<NodePtr> variables;
  for (NodeId id : order) {
    NodePtr n = graph.node(id);
    if (HoldsFromTheStart(n)) variables.push_back(n);
  }
  for (NodePtr p : graph.AllInputs()) variables.push_back(p);
  for (NodePtr n : variables) {
    const int* s = plan.of.find(NodeEntry(n));
    if (!s) continue;
    content[size_t(*s)] = NodeEntry(n);
    if (plan.storages[size_t(*s)].kind == StorageKind::kVariable) holds[n->id()] = NodeEntry(n);
  }
  std::vector<int> written_at(plan.storages.size(), -1);  // the last step that wrote each block
  for (size_t step = 0; step < order.size(); ++step) {
    NodePtr n = graph.node(order[step]);
    if (HoldsFromTheStart(n)) continue;
    if (IsOp(n, builtin::kGroup)) {  // reads nothing, and is empty
      if (const int* s = plan.of.find(NodeEntry(n))) content[size_t(*s)] = NodeEntry(n);
      continue;
    }
    const std::vector<std::pair<int, int>> written = WrittenInputs(n);
    const bool assigns = IsOp(n, builtin::kAssign);
    for (size_t i = 0; i < n->num_inputs(); ++i)
      if (n->inputs[i].node && !(assigns && i == 0)) read(n->inputs[i], int(step), n);
    const int* first = plan.of.find(NodeEntry(n));
    const int* in = n->num_inputs() > 0 && n->inputs[0].node ? plan.of.find(n->inputs[0]) : nullptr;
    if ((view.get(n->op(), false) || IsOp(n, builtin::kRead)) && first && in && *first == *in) {
      root.set(NodeEntry(n), root_of(n->inputs[0]));
      continue;
    }
    for (uint32_t k = 0; k < n->num_outputs(); ++k) {
      const int* s = plan.of.find(n->id(), k);
      if (!s) continue;
      const Storage& block = plan.storages[size_t(*s)];
      WEFT_ICHECK(block.kind != StorageKind::kInput && block.kind != StorageKind::kConstant,
                  "{} writes into an input or a constant", n->Describe());
      WEFT_ICHECK(int(step) >= block.begin && int(step) < block.end,
                  "{} is written at step {}, outside the life [{}, {}) of its block", n->Describe(),
                  step, block.begin, block.end);
      WEFT_ICHECK(std::exchange(written_at[size_t(*s)], int(step)) != int(step),
                  "two outputs of {} share a block", n->Describe());
      // An Assign whose value is in the variable's block already leaves it there.
      const int* value = assigns ? plan.of.find(n->inputs[1]) : nullptr;
      if (value && *value == *s)
        root.set(NodeEntry(n), root_of(n->inputs[1]));
      else
        content[size_t(*s)] = NodeEntry(n, k);
    }
    for (auto [i, k] : written) {
      const NodePtr v = n->inputs[size_t(i)].node;
      const int* s = plan.of.find(NodeEntry(v));
      WEFT_ICHECK(s && plan.storages[size_t(*s)].kind == StorageKind::kVariable && k >= 0,
                  "{} writes {}, which has no storage of its own", n->Describe(), v->Describe());
      const NodeEntry result = root_of(NodeEntry(n, uint32_t(k)));
      if (const int* own = plan.of.find(n->id(), uint32_t(k)); own && *own != *s)
        content[size_t(*s)] = result;  // copied when the step ends
      WEFT_ICHECK(content[size_t(*s)] == result, "{} does not write the block of {}", n->Describe(),
                  v->Describe());
      holds[v->id()] = result;
    }
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const int* s = plan.of.find(graph.outputs[i]);
    WEFT_ICHECK(s && content[size_t(*s)] == root_of(graph.outputs[i]),
                "output {} is overwritten before the end", i);
  }
  for (const auto& [id, result] : holds) {
    const int* s = plan.of.find(NodeEntry(graph.node(id)));
    WEFT_ICHECK(content[size_t(*s)] == result, "{} does not hold what was written last",
                graph.node(id)->Describe());
  }
}

}  // namespace weft
