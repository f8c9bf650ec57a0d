/// late_copies.cc: see late_copies.h.
#include "late_copies.h"

#include <map>

#include "weft/core/graph/effects.h"

namespace weft {
namespace {

std::vector<Node*> ControlUsers(NodePtr n) {
  std::vector<Node*> users;
  for (const Use& u : n->uses())
    if (u.control) users.push_back(u.user);
  return users;
}

}  // namespace

LateCopies::LateCopies(Graph& g, PassContext& ctx) : g_(g) {
  if (ctx.option<int64_t>("max_ops") <= 1 || ctx.option<int64_t>("late") == 0) return;
  const LatePlan plan = FusionLate(g, ctx).Run();
  any_ = !plan.copies.empty() || !plan.moved.empty();
  if (!any_) return;
  late_.assign(g.id_bound(), 0);
  for (const NodeId id : plan.moved) late_[id] = 1;
  TypedEdit edit(g);
  std::vector<NodePtr> copies;
  for (const LatePlan::Copy& c : plan.copies) {
    std::vector<NodeEntry> inputs;
    for (const LatePlan::Operand& o : c.operands)
      inputs.push_back(o.copy >= 0         ? NodeEntry(copies[size_t(o.copy)])
                       : o.entry.present() ? NodeEntry(g.node(o.entry.id), o.entry.index)
                                           : NodeEntry());
    copies.push_back(AddCopy(&edit, g.node(c.of), inputs));
  }
  for (const LatePlan::Use& u : plan.uses)
    g.SetInput(g.node(u.user), u.slot, NodeEntry(copies[size_t(u.copy)]));
  for (size_t k = plan.copies.size(); k-- > 0;) DropUnread(g.node(plan.copies[k].of));
}

void LateCopies::DropUnread(NodePtr n) {
  if (g_.is_output(n)) return;
  for (const Use& u : n->uses())
    if (!u.control && !unread_.count(u.user->id())) return;
  unread_.insert(n->id());
  for (Node* user : ControlUsers(n)) user->control_deps.remove(n);
}

NodePtr LateCopies::AddCopy(TypedEdit* edit, NodePtr of, const std::vector<NodeEntry>& inputs) {
  const NodePtr copy = g_.AddCopy(of, inputs);
  copy->attrs.name.clear();
  g_.MergeOrigin(copy, of);
  edit->KnowAs(NodeEntry(copy), NodeEntry(of));
  // A write behind it stays behind it: the content of the variable lies where it lay.
  for (Node* writer : ControlUsers(of))
    if (!WrittenInputs(writer).empty()) writer->control_deps.push_back(copy);
  const auto first = original_.find(of->id());
  original_[copy->id()] = first == original_.end() ? of->id() : first->second;
  late_.resize(g_.id_bound(), 0);
  late_[copy->id()] = 1;
  return copy;
}

bool LateCopies::Settle(const FusionPlan& trial) {
  constexpr int kClones = 1;  // rounds in which kernels get copies of their own
  ++rounds_;
  bool settled = true;
  TypedEdit edit(g_);
  std::unordered_map<NodeId, int> of_clone;  // kernels of nodes that the sweep has not seen
  const auto kernel_of = [&](NodeId id) {
    if (const auto it = of_clone.find(id); it != of_clone.end()) return it->second;
    return id < trial.kernel_of.size() ? trial.kernel_of[id] : FusionPlan::kUnreached;
  };
  for (size_t k = trial.ids.size(); k-- > 0;) {
    const NodePtr n = trial.order[k];
    const NodeId id = n->id();
    if (id >= late_.size() || !late_[id]) continue;
    const std::vector<Use> uses(n->uses().begin(), n->uses().end());
    std::map<int, NodePtr> clones;  // by kernel
    for (const Use& u : uses) {
      const int there = kernel_of(u.user->id());
      if (u.control || there == FusionPlan::kUnreached) continue;
      if (there >= 0 && there == trial.kernel_of[id]) continue;
      settled = false;
      if (rounds_ <= kClones && there >= 0 && n->num_outputs() == 1 && trial.is_elementwise[k]) {
        NodePtr& clone = clones[there];
        if (!clone) {
          clone = AddCopy(&edit, n, std::vector<NodeEntry>(n->inputs));
          of_clone[clone->id()] = there;
        }
        g_.SetInput(u.user, u.slot, NodeEntry(clone));
      } else if (const auto it = original_.find(id); it != original_.end()) {
        g_.SetInput(u.user, u.slot, NodeEntry(g_.node(it->second)));
        unread_.clear();
      } else {
        late_[id] = 0;
      }
    }
    DropUnread(n);
  }
  return settled;
}

int64_t LateCopies::copies() const { return int64_t(original_.size()); }

}  // namespace weft
