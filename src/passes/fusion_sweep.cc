/// fusion_sweep.cc: the levels algorithm. Each node, in topological order, joins the groups of its producers and of those
/// who read what it reads, as far as the rules (fusion_rules.h), the options and the levels (fusion_groups.h) allow.
///
/// The graph is read once: a node of a large graph costs several cache misses, so what is needed again is kept in
/// arrays by id.
#include "fusion_sweep.h"

#include <algorithm>
#include <unordered_map>

#include "fusion_rules.h"

namespace weft {
namespace {

class Sweep {
 public:
  Sweep(const Graph& g, PassContext& ctx)
      : g_(g),
        ctx_(ctx),
        nodes_(g, ctx.target()),
        rules_(nodes_, groups_),
        max_ops_(int(ctx.option<int64_t>("max_ops"))),
        max_tensors_(int(ctx.option<int64_t>("max_tensors"))),
        max_reductions_(int(ctx.option<int64_t>("max_reductions"))),
        reader_(g.id_bound(), -1) {}

  FusionPlan Run() {
    plan_.order = g_.TopoOrder();
    const size_t count = plan_.order.size();
    plan_.ids.reserve(count);
    plan_.input_begin.reserve(count + 1);
    plan_.inputs.reserve(2 * count);
    plan_.input_begin.push_back(0);
    for (size_t k = 0; k < count; ++k) {
      if (k + 2 * kAhead < count) Prefetch(plan_.order[k + 2 * kAhead].get());
      if (k + kAhead < count) nodes_.Prefetch(plan_.order[k + kAhead]->id());
      Place(plan_.order[k]);
    }
    NumberKernels();
    return std::move(plan_);
  }

 private:
  /// How many nodes ahead are asked for: enough to hide the way to memory, measured on a graph of 10^6 nodes.
  static constexpr size_t kAhead = 8;
  static void Prefetch(const Node* n) {
    PrefetchLine(n);
    PrefetchLine(&n->inputs + 1);
    PrefetchLine(&n->uses());
    PrefetchLine(&n->attrs.op);
  }

  int GroupOf(NodeId id) { return groups_.Find(nodes_[id].group); }
  int Level(NodeId id) { return groups_[GroupOf(id)].level; }

  void Place(NodePtr n) {
    const NodeId id = n->id();
    plan_.ids.push_back(id);
    const size_t begin = plan_.inputs.size();
    for (const NodeEntry& e : n->inputs)
      plan_.inputs.push_back({e.node ? e.node->id() : EntryKey::kAbsent, e.index});
    plan_.input_begin.push_back(uint32_t(plan_.inputs.size()));
    const EntryKeys inputs{plan_.inputs.data() + begin, uint32_t(plan_.inputs.size() - begin)};
    plan_.has_control |= !n->control_deps.empty();

    nodes_.Look(n, inputs);
    const NodeKind kind = nodes_[id].kind;
    const bool fusible = kind != NodeKind::kOpaque && kind != NodeKind::kShapeOnly;
    int need = 0;
    for (const EntryKey& e : inputs)
      if (e.present()) need = std::max(need, Level(e.id) + 1);
    for (Node* d : n->control_deps) need = std::max(need, Level(d->id()) + 1);
    const int own = groups_.New(need, fusible);
    nodes_[id].group = own;
    FusionGroups::Group& me = groups_[own];
    me.size = 1;
    me.open_uses = int64_t(n->uses().size()) + nodes_.OutputUses(n);
    if (fusible) {
      rules_.Describe(id, inputs, &me);
      for (const EntryKey& e : inputs)
        if (e.present() && nodes_[e.id].kind != NodeKind::kShapeOnly) AddOperand(&me, e);
      if (n->control_deps.empty()) {
        Join(n, inputs, own);
        if (const int joined = groups_.Find(own); joined != own) {
          nodes_[id].group = joined;
          groups_.DropNewest();
        }
        JoinSiblings(n, inputs);
      }
    }
    // What this node reads from outside its group must stay below it.
    const int g = GroupOf(id);
    auto bound = [&](NodeId producer) {
      const int q = GroupOf(producer);
      if (q != g) groups_[q].min_consumer = std::min(groups_[q].min_consumer, groups_[g].level);
    };
    for (const EntryKey& e : inputs)
      if (e.present()) bound(e.id);
    for (Node* d : n->control_deps) bound(d->id());
  }

  void AddOperand(FusionGroups::Group* g, const EntryKey& e) {
    // One more than allowed says enough.
    if (int(g->operands.size()) > max_tensors_) return;
    if (std::find(g->operands.begin(), g->operands.end(), e.packed()) == g->operands.end())
      g->operands.push_back(e.packed());
  }
  void Internalise(int g, const EntryKey& e) {
    auto& o = groups_[g].operands;
    o.erase(std::remove(o.begin(), o.end(), e.packed()), o.end());
  }
  bool Fits(int a, int b) {
    return groups_[a].size + groups_[b].size <= max_ops_ &&
           groups_[a].reductions + groups_[b].reductions <= max_reductions_ &&
           groups_.CountOperands(b, a, max_tensors_) <= max_tensors_;
  }

  /// Fusible groups that the node reads, the highest level first, else in order of the inputs.
  void FindProducers(EntryKeys inputs) {
    producers_.clear();
    ++stamp_;
    for (const EntryKey& e : inputs) {
      if (!e.present()) continue;
      const int p = GroupOf(e.id);
      if (!groups_[p].fusible || groups_[p].stamp == stamp_) continue;
      groups_[p].stamp = stamp_;
      producers_.push_back({groups_[p].level, int(producers_.size()), p});
    }
    if (producers_.size() > 1)
      std::sort(producers_.begin(), producers_.end(), [](const Producer& a, const Producer& b) {
        return a.level != b.level ? a.level > b.level : a.place < b.place;
      });
  }

  /// Merges the fresh group of `n` with the groups of its producers.
  void Join(NodePtr n, EntryKeys inputs, int own) {
    FindProducers(inputs);
    int mine = own;
    for (const Producer& producer : producers_) {
      const int p = groups_.Find(producer.group);
      if (p == mine) continue;
      Space merged;
      if (!rules_.Compatible(n, inputs, mine, p, &merged) || !Fits(mine, p)) continue;
      // Everything else that the node reads must end below the merged group.
      int level = std::max(groups_[p].level, mine == own ? 0 : groups_[mine].level);
      int64_t edges = 0;
      for (const EntryKey& e : inputs) {
        if (!e.present()) continue;
        const int h = GroupOf(e.id);
        if (h == p)
          ++edges;
        else if (h != mine)
          level = std::max(level, groups_[h].level + 1);
      }
      if (!groups_.CanRise(p, level) || (mine != own && !groups_.CanRise(mine, level))) {
        ++plan_.level_refusals;
        continue;
      }
      if (!ctx_.Fuel("fuse", n)) return;
      groups_.Merge(p, mine);
      groups_[p].level = level;
      groups_[p].open_uses -= edges;
      // What n read of p is inside now.
      for (const EntryKey& e : inputs)
        if (e.present() && GroupOf(e.id) == p) Internalise(p, e);
      groups_[p].space = merged;
      mine = p;
    }
  }

  /// Groups that read one large tensor over one space read it once together. Neither may reach the other: they are
  /// brought to one level, or left apart.
  void JoinSiblings(NodePtr n, EntryKeys inputs) {
    const NodeKind kind = nodes_[n->id()].kind;
    if (kind != NodeKind::kElementwise && kind != NodeKind::kReduction) return;
    for (const EntryKey& e : inputs) {
      if (!e.present()) continue;
      const int mine = GroupOf(n->id());
      if (GroupOf(e.id) == mine || nodes_.SpaceOf(e) != groups_[mine].space.key) continue;
      int& reader =
          e.index == 0 ? reader_[e.id] : more_readers_.emplace(e.packed(), -1).first->second;
      const int other = reader < 0 ? mine : groups_.Find(reader);
      reader = mine;
      Space merged;
      if (other == mine || !groups_[other].fusible ||
          !FusionRules::Unite(groups_[other].space, groups_[mine].space, &merged) ||
          !Fits(other, mine))
        continue;
      const int level = std::max(groups_[other].level, groups_[mine].level);
      if (!groups_.CanRise(other, level) || !groups_.CanRise(mine, level)) {
        ++plan_.level_refusals;
        continue;
      }
      if (!ctx_.Fuel("fuse-siblings", n)) continue;
      groups_.Merge(other, mine);
      groups_[other].level = level;
      groups_[other].space = merged;
      reader = other;
    }
  }

  void NumberKernels() {
    plan_.kernel_of.assign(g_.id_bound(), FusionPlan::kUnreached);
    // A view alone is no work: the runtime aliases it.
    std::vector<uint8_t> works(size_t(groups_.size()), 0);
    for (size_t k = 0; k < plan_.ids.size(); ++k) {
      const FusionNode& n = nodes_[plan_.ids[k]];
      const int g = groups_.Find(n.group);
      if (!groups_[g].fusible || n.kind == NodeKind::kShapeOnly || works[size_t(g)]) continue;
      works[size_t(g)] = !nodes_.IsView(plan_.order[k]->op());
    }
    std::vector<int> number(size_t(groups_.size()), -1);
    for (NodeId id : plan_.ids) {
      const int g = GroupOf(id);
      const bool fused =
          groups_[g].fusible && nodes_[id].kind != NodeKind::kShapeOnly && works[size_t(g)];
      if (fused && number[size_t(g)] < 0) number[size_t(g)] = plan_.kernels++;
      plan_.kernel_of[id] = fused ? number[size_t(g)] : FusionPlan::kStays;
      plan_.fused_ops += fused;
    }
  }

  const Graph& g_;
  PassContext& ctx_;
  FusionNodes nodes_;
  FusionGroups groups_;
  FusionRules rules_;
  const int max_ops_, max_tensors_, max_reductions_;
  FusionPlan plan_;
  struct Producer {
    int level, place, group;
  };
  std::vector<Producer> producers_;  // of the node that is placed
  uint32_t stamp_ = 0;
  /// Entry -> last group that reads it over its own space: of outputs 0 by id, of others beside them.
  std::vector<int> reader_;
  std::unordered_map<uint64_t, int> more_readers_;  // looked up only
};

}  // namespace

FusionPlan PlanFusion(const Graph& g, PassContext& ctx) { return Sweep(g, ctx).Run(); }

}  // namespace weft
