/// late_copies.cc: see late_copies.h.
#include "late_copies.h"

#include <algorithm>
#include <map>

#include "weft/core/graph/effects.h"
#include "weft/support/request.h"

namespace weft {
namespace {

std::vector<NodePtr> ControlUsers(const Graph& g, NodePtr n) {
  std::vector<NodePtr> users;
  for (const Use& u : n->uses())
    if (u.control) users.push_back(g.node(u.user->id()));
  return users;
}
/// What has to stay behind a node because it overwrites what that reads.
std::vector<NodePtr> WritersBehind(const Graph& g, NodePtr n) {
  std::vector<NodePtr> users = ControlUsers(g, n);
  users.erase(std::remove_if(users.begin(), users.end(),
                             [](const NodePtr& u) { return WrittenInputs(u).empty(); }),
              users.end());
  return users;
}

constexpr size_t kBetweenPolls = 256;  // nodes

}  // namespace

LateCopies::LateCopies(Graph& g, PassContext& ctx, const LatePlan& plan)
    : g_(g), max_ops_(ctx.option<int64_t>("max_ops")) {
  constexpr int64_t kMoreClones = 1024;
  clones_left_ = int64_t(plan.copies.size() + plan.moved.size()) + kMoreClones;
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
    const NodePtr of = g.node(c.of);
    copies.push_back(AddCopy(&edit, of, inputs, WritersBehind(g, of)));
  }
  for (const LatePlan::Use& u : plan.uses) SetInput(g.node(u.user), u.slot, copies[size_t(u.copy)]);
  for (size_t k = plan.copies.size(); k-- > 0;) DropUnread(g.node(plan.copies[k].of));
}

void LateCopies::SetInput(NodePtr user, uint32_t slot, NodePtr to) {
  changes_.push_back({user, slot, user->inputs[slot], NodePtr(), false});
  g_.SetInput(user, slot, NodeEntry(to));
}

void LateCopies::DropUnread(NodePtr n) {
  if (g_.is_output(n)) return;
  for (const Use& u : n->uses())
    if (!u.control && !unread_.count(u.user->id())) return;
  unread_.insert(n->id());
  for (const NodePtr& user : ControlUsers(g_, n)) {
    user->control_deps.remove(n);
    changes_.push_back({user, 0, NodeEntry(), n, false});
    dropped_[n->id()].push_back(user);
  }
}

void LateCopies::ReadAgain(NodePtr n) {
  for (std::vector<NodePtr> work{n}; !work.empty();) {
    n = work.back();
    work.pop_back();
    if (!unread_.erase(n->id())) continue;
    for (const NodeEntry& e : n->inputs)
      if (e.node) work.push_back(e.node);
    const auto it = dropped_.find(n->id());
    if (it == dropped_.end()) continue;
    for (const NodePtr& user : it->second) {
      user->control_deps.push_back(n);
      changes_.push_back({user, 0, NodeEntry(), n, true});
    }
    dropped_.erase(it);
  }
}

NodePtr LateCopies::AddCopy(TypedEdit* edit, NodePtr of, const std::vector<NodeEntry>& inputs,
                            const std::vector<NodePtr>& writers) {
  const NodePtr copy = g_.AddCopy(of, inputs);
  copy->attrs.name.clear();
  g_.MergeOrigin(copy, of);
  edit->KnowAs(NodeEntry(copy), NodeEntry(of));
  // A write behind it stays behind it: the content of the variable lies where it lay.
  for (const NodePtr& writer : writers) {
    writer->control_deps.push_back(copy);
    changes_.push_back({writer, 0, NodeEntry(), copy, true});
  }
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
  std::vector<int64_t> size(size_t(trial.kernels), 0);  // of kernels, with what they get
  for (const NodeId id : trial.ids)
    if (const int kernel = trial.kernel_of[id]; kernel >= 0) ++size[size_t(kernel)];
  for (size_t k = trial.ids.size(); k-- > 0;) {
    if (k % kBetweenPolls == 0) RequestScope::Poll();
    const NodePtr n = trial.order[k];
    const NodeId id = n->id();
    if (id >= late_.size() || !late_[id]) continue;
    const std::vector<Use> uses(n->uses().begin(), n->uses().end());
    std::vector<NodePtr> writers;
    bool knows_writers = false;
    std::map<int, NodePtr> clones;  // by kernel
    const auto may_clone = [&](int there) {
      if (rounds_ > kClones || there < 0 || n->num_outputs() != 1 || !trial.is_elementwise[k])
        return false;
      return clones.count(there) || (size[size_t(there)] < max_ops_ && clones_left_ > 0);
    };
    for (const Use& u : uses) {
      const int there = kernel_of(u.user->id());
      if (u.control || there == FusionPlan::kUnreached) continue;
      if (there >= 0 && there == trial.kernel_of[id]) continue;
      settled = false;
      if (may_clone(there)) {
        NodePtr& clone = clones[there];
        if (!clone) {
          if (!knows_writers) writers = WritersBehind(g_, n);
          knows_writers = true;
          clone = AddCopy(&edit, n, std::vector<NodeEntry>(n->inputs), writers);
          of_clone[clone->id()] = there;
          ++size[size_t(there)];
          --clones_left_;
          if (size_t(clones_left_) % kBetweenPolls == 0) RequestScope::Poll();
        }
        SetInput(g_.node(u.user->id()), u.slot, clone);
        continue;
      }
      gave_back_ = true;
      if (const auto it = original_.find(id); it != original_.end()) {
        SetInput(g_.node(u.user->id()), u.slot, g_.node(it->second));
        ReadAgain(g_.node(it->second));
      } else {
        late_[id] = 0;
      }
    }
    DropUnread(n);
  }
  return settled;
}

void LateCopies::Finish(bool undo) {
  TypedEdit edit(g_);
  if (undo) Undo();
  changes_.clear();
  g_.EraseDead();
}

void LateCopies::Undo() {
  for (size_t k = changes_.size(); k-- > 0;) {
    if (k % kBetweenPolls == 0) RequestScope::Poll();
    const Change& c = changes_[k];
    if (!c.dependency)
      g_.SetInput(c.user, c.slot, c.before);
    else if (c.added)
      c.user->control_deps.remove(c.dependency);
    else
      c.user->control_deps.push_back(c.dependency);
  }
  original_.clear();
  unread_.clear();
  late_.clear();
}

int64_t LateCopies::CountIn(const FusionPlan& plan) const {
  return std::count_if(original_.begin(), original_.end(), [&](const auto& copy) {
    return copy.first < plan.kernel_of.size() && plan.kernel_of[copy.first] >= 0;
  });
}

}  // namespace weft
