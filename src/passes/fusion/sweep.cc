/// sweep.cc: the levels algorithm. Each node, in topological order, joins the groups of its
/// producers and of those who read what it reads, as far as the rules (rules.h), the options
/// and the levels (groups.h) allow.
///
/// The graph is read once: a node of a large graph costs several cache misses, so what is needed
/// again is kept in arrays by id.
#include "sweep.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "future.h"
#include "late_copies.h"
#include "multi.h"
#include "rules.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/support/request.h"

namespace weft {
namespace {

class Sweep {
 public:
  /// `late`, by id: nodes that are computed where they are read. A trial asks for no fuel and does
  /// not look for launches of several parts.
  Sweep(const Graph& g, PassContext& ctx, const std::vector<uint8_t>& late, bool trial)
      : g_(g),
        ctx_(ctx),
        late_(late),
        trial_(trial),
        nodes_(g, ctx.target(), ctx.option<int64_t>("libraries") != 0),
        rules_(nodes_, groups_),
        future_(nodes_),
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
    const bool ahead = future_.Matters(plan_.order);
    if (ahead) {
      for (NodePtr n : plan_.order) Read(n);
      future_.Find(plan_.ids, rules_, [&](size_t k) { return plan_.InputsOf(k); });
    }
    for (size_t k = 0; k < count; ++k) {
      if (k % kBetweenPolls == 0) RequestScope::Poll();
      if (k + 2 * kAhead < count) Prefetch(plan_.order[k + 2 * kAhead].get());
      if (k + kAhead < count) nodes_.Prefetch(plan_.order[k + kAhead]->id());
      if (!ahead) Read(plan_.order[k]);
      Place(plan_.order[k], plan_.InputsOf(k));
    }
    if (trial_)
      for (const NodeId id : plan_.ids)
        plan_.is_elementwise.push_back(nodes_[id].kind == NodeKind::kElementwise);
    NumberKernels();
    if (trial_) CountStored();
    std::sort(plan_.parameters.begin(), plan_.parameters.end());
    return std::move(plan_);
  }

 private:
  /// How many nodes ahead are asked for: enough to hide the way to memory, measured on a
  /// graph of 10^6 nodes.
  static constexpr size_t kAhead = 8;
  static constexpr size_t kBetweenPolls = 1024;  // nodes
  /// Members of a group of row values that is looked through.
  static constexpr int kMaxRowChain = 16;
  static void Prefetch(const Node* n) {
    PrefetchLine(n);
    PrefetchLine(&n->inputs + 1);
    PrefetchLine(&n->uses());
    PrefetchLine(&n->attrs.op);
  }

  bool IsLate(NodeId id) const { return id < late_.size() && late_[id]; }
  bool Fuel(const char* rewrite, NodePtr n) { return trial_ || ctx_.Fuel(rewrite, n); }
  int GroupOf(NodeId id) { return groups_.Find(nodes_[id].group); }
  int Level(NodeId id) { return groups_[GroupOf(id)].level; }

  /// Fills the row of a node.
  void Read(NodePtr n) {
    plan_.ids.push_back(n->id());
    for (const NodeEntry& e : n->inputs)
      plan_.inputs.push_back({e.node ? e.node->id() : EntryKey::kAbsent, e.index});
    plan_.input_begin.push_back(uint32_t(plan_.inputs.size()));
    plan_.has_control |= !n->control_deps.empty();
    nodes_.Look(n, plan_.InputsOf(plan_.ids.size() - 1));
  }

  void Place(NodePtr n, EntryKeys inputs) {
    const NodeId id = n->id();
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
    me.plain = kind == NodeKind::kElementwise;
    me.simple = kind != NodeKind::kLocal;
    me.writes = nodes_.Assigns(id);
    me.open_uses = int64_t(n->uses().size()) + nodes_.OutputUses(n);
    if (fusible) {
      if (const NodeClass* c = nodes_.ClassOf(id))
        for (const int i : c->parameters)
          if (const EntryKey& e = inputs[uint32_t(i)]; nodes_.ConstantOf(e))
            plan_.parameters.push_back(e.packed());
      rules_.Describe(id, inputs, &me);
      me.future = future_.Of(id);
      for (const EntryKey& e : inputs)
        if (e.present() && nodes_[e.id].kind != NodeKind::kShapeOnly) AddOperand(&me, e);
      if (me.writes) written_[own].push_back(inputs[0].id);
      plan_.writes |= me.writes;
      Join(n, inputs, own);
      if (const int joined = groups_.Find(own); joined != own) {
        nodes_[id].group = joined;
        groups_.DropNewest();
      }
      JoinSiblings(n, inputs);
      nodes_[id].after = kind == NodeKind::kReduction || ReadsAfter(inputs, GroupOf(id));
      if (kind == NodeKind::kReduction) AbsorbRowValues(GroupOf(id), n);
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

  /// Variables are written where they are read, element by element: groups that write are
  /// element-wise through and through, and write each variable once.
  bool MayWrite(int a, int b, const Space& merged) {
    if (!groups_[a].writes && !groups_[b].writes) return true;
    if (!groups_[a].plain || !groups_[b].plain || merged.is_row()) return false;
    if (!groups_[a].writes || !groups_[b].writes) return true;
    const std::vector<NodeId>&x = written_.at(a), &y = written_.at(b);
    return std::none_of(x.begin(), x.end(),
                        [&](NodeId v) { return std::find(y.begin(), y.end(), v) != y.end(); });
  }
  /// Does `n` stay behind what its control edges name when its group `mine` and `p` become one?
  /// Raises `level` above those outside. Inside there may only be what a write overwrites: a kernel
  /// reads before it writes.
  bool Follows(NodePtr n, int mine, int p, int* level) {
    for (Node* d : n->control_deps) {
      const int h = GroupOf(d->id());
      if (h != mine && h != p)
        *level = std::max(*level, groups_[h].level + 1);
      else if (!nodes_.Assigns(n->id()) || nodes_.Assigns(d->id()))
        return false;
    }
    return true;
  }
  bool HasEdge(NodePtr n, EntryKeys inputs, int group) {
    for (const EntryKey& e : inputs)
      if (e.present() && GroupOf(e.id) == group) return true;
    for (Node* d : n->control_deps)
      if (GroupOf(d->id()) == group) return true;
    return false;
  }
  void Unite(int a, int b) {
    if (groups_[b].writes) {
      std::vector<NodeId> moved = std::move(written_.at(b));
      written_.erase(b);
      std::vector<NodeId>& all = written_[a];
      all.insert(all.end(), moved.begin(), moved.end());
    }
    groups_.Merge(a, b);
  }
  /// As one kernel over that space, at that level.
  void Unite(int a, int b, const Space& merged, int level) {
    const uint32_t future = FutureOf(a, b, merged);
    Unite(a, b);
    groups_[a].future = future;
    groups_[a].level = level;
    groups_[a].space = merged;
  }

  /// Can one kernel be all that the values of both become?
  bool Agree(int a, int b) {
    const FusionGroups::Group &x = groups_[a], &y = groups_[b];
    return x.space.key != y.space.key || x.future == 0 || y.future == 0 || (x.future & y.future);
  }
  uint32_t FutureOf(int a, int b, const Space& merged) {
    const FusionGroups::Group &x = groups_[a], &y = groups_[b];
    if (x.space.key != y.space.key) return x.space.key == merged.key ? x.future : y.future;
    return x.future == 0 || y.future == 0 ? x.future | y.future : x.future & y.future;
  }
  template <class Is>
  bool ReadsSome(EntryKeys inputs, int p, Is&& is) {
    return std::any_of(inputs.begin(), inputs.end(), [&](const EntryKey& e) {
      return e.present() && GroupOf(e.id) == p && is(e.id);
    });
  }
  /// Is there, among what is read of group `p`, a result of its reductions, or
  /// something made from one?
  bool ReadsAfter(EntryKeys inputs, int p) {
    return ReadsSome(inputs, p, [&](NodeId id) { return nodes_[id].after; });
  }
  /// Is there, among what is read of group `p`, a value that waits for its readers?
  bool ReadsLate(EntryKeys inputs, int p) {
    return ReadsSome(inputs, p, [&](NodeId id) { return IsLate(id); });
  }

  /// A Cast to a wider type: who reads what it reads, instead of what it makes, reads less.
  bool Widens(NodePtr n, EntryKeys inputs) const {
    return inputs.count == 1 && inputs[0].present() &&
           DTypeBits(nodes_.TypeOf({n->id(), 0})) > DTypeBits(nodes_.TypeOf(inputs[0])) &&
           IsOp(n, "Cast");
  }
  /// A wider copy of what a loop inside a point makes is not written, but made where it is reduced:
  /// no kernel does both.
  ///   before  {%g = MaxPoolGrad(..)  %w = Cast(%g)}   {%s = ReduceSum(%w)}
  ///   after   {%g = MaxPoolGrad(..)}   {%w = Cast(%g)  %s = ReduceSum(%w)}
  bool WidensForReduction(NodePtr n, EntryKeys inputs, int p) {
    return groups_[p].reductions > 0 && !groups_[p].space.is_row() && Widens(n, inputs) &&
           std::any_of(n->uses().begin(), n->uses().end(), [&](const Use& u) {
             return !u.control && nodes_[u.user->id()].kind == NodeKind::kReduction;
           });
  }

  /// All members of `p`, which are connected; false where they are not, or are many.
  bool CollectMembers(NodePtr first, int p, std::vector<NodePtr>* members) {
    if (groups_[p].size > kMaxRowChain) return false;
    members->assign(1, first);
    const auto add = [&](NodePtr n) {
      if (nodes_[n->id()].group >= 0 && GroupOf(n->id()) == p &&
          std::find(members->begin(), members->end(), n) == members->end())
        members->push_back(n);
    };
    for (size_t k = 0; k < members->size(); ++k) {
      const NodePtr n = (*members)[k];
      for (const NodeEntry& e : n->inputs)
        if (e.node) add(e.node);
      for (const Use& u : n->uses()) add(g_.node(u.user->id()));
    }
    return int(members->size()) == groups_[p].size;
  }
  /// Row values that were placed before their reader had rows (1 / sqrt(var + eps) in the gradient
  /// of a normalisation, where var comes from outside): a group of a few such joins group `g`.
  ///   before  {%i = Rsqrt(%v)}   {%h = Mul(%d, %i)   %s = ReduceSum(%h)}
  ///   after   {%i = Rsqrt(%v)     %h = Mul(%d, %i)   %s = ReduceSum(%h)}
  void AbsorbRowValues(int g, NodePtr n) {
    if (!groups_[g].space.is_row()) return;
    const std::vector<uint64_t> operands = groups_[g].operands;
    std::vector<NodePtr> members;
    for (const uint64_t packed : operands) {
      const NodeId id = NodeId(packed >> 32);
      const int p = GroupOf(id);
      const FusionGroups::Group& x = groups_[p];
      if (p == g || !x.fusible || !x.plain || x.writes || x.space.key != groups_[g].space.row_key ||
          !Fits(g, p) || !CollectMembers(g_.node(id), p, &members))
        continue;
      int64_t edges = 0;
      int min_consumer = groups_[g].min_consumer;
      if (!RowValuesFit(members, g, p, &edges, &min_consumer)) continue;
      if (min_consumer <= groups_[g].level) {
        ++plan_.level_refusals;
        continue;
      }
      if (!Fuel("fuse-row-values", n)) return;
      const uint32_t future = groups_[g].future;
      const Space space = groups_[g].space;
      Unite(g, p);
      groups_[g].future = future;
      groups_[g].space = space;
      groups_[g].min_consumer = min_consumer;
      groups_[g].open_uses -= edges;
      for (const uint64_t o : operands)
        if (GroupOf(NodeId(o >> 32)) == g) Internalise(g, {NodeId(o >> 32), uint32_t(o)});
    }
  }
  /// Counts the uses of `members` of `p` in `g`; bounds the levels of their
  /// other readers from below.
  bool RowValuesFit(const std::vector<NodePtr>& members, int g, int p, int64_t* edges,
                    int* min_consumer) {
    const Space& space = groups_[g].space;
    for (const NodePtr& m : members) {
      if (!m->control_deps.empty()) return false;
      for (const Use& u : m->uses()) {
        const NodeId user = u.user->id();
        if (nodes_[user].group < 0 || GroupOf(user) == p) continue;
        if (u.control) return false;
        if (GroupOf(user) != g) {
          *min_consumer = std::min(*min_consumer, groups_[GroupOf(user)].level);
          continue;
        }
        ++*edges;
        if (nodes_[user].kind != NodeKind::kElementwise) return false;
        const int out = nodes_[user].shape;
        const auto mask = nodes_.spaces().BroadcastMask(
            nodes_.ShapeOf({m->id(), u.user->inputs[u.slot].index}), out);
        const int key = nodes_.spaces().SpaceOf(out);
        if (!mask || *mask != (key == space.key ? space.mask : 0)) return false;
      }
    }
    return true;
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
      if (p == mine || (IsLate(n->id()) && !ReadsLate(inputs, p)) ||
          WidensForReduction(n, inputs, p))
        continue;
      Space merged;
      if (!rules_.Compatible(n, inputs, mine, p, &merged) || !Fits(mine, p) ||
          !MayWrite(mine, p, merged) || !(Agree(mine, p) || ReadsAfter(inputs, p)))
        continue;
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
      if (!n->control_deps.empty() && !Follows(n, mine, p, &level)) continue;
      if (!groups_.CanRise(p, level) || (mine != own && !groups_.CanRise(mine, level))) {
        ++plan_.level_refusals;
        continue;
      }
      if (!Fuel("fuse", n)) return;
      Unite(p, mine, merged, level);
      groups_[p].open_uses -= edges;
      // What n read of p is inside now.
      for (const EntryKey& e : inputs)
        if (e.present() && GroupOf(e.id) == p) Internalise(p, e);
      mine = p;
    }
  }

  /// Groups that read one large tensor over one space read it once together. Neither may reach the
  /// other: they are brought to one level, or left apart.
  void JoinSiblings(NodePtr n, EntryKeys inputs) {
    const NodeKind kind = nodes_[n->id()].kind;
    if ((kind != NodeKind::kElementwise && kind != NodeKind::kReduction) || IsLate(n->id())) return;
    for (const EntryKey& e : inputs) {
      if (!e.present()) continue;
      const int mine = GroupOf(n->id());
      const int space = nodes_.SpaceOf(e);
      if (GroupOf(e.id) == mine || space != groups_[mine].space.key) continue;
      // Reading one element twice costs nothing, and would tie the updates of
      // scalars to their rate.
      if (nodes_.spaces().space_extents(space).empty()) continue;
      int& reader =
          e.index == 0 ? reader_[e.id] : more_readers_.emplace(e.packed(), -1).first->second;
      const int other = reader < 0 ? mine : groups_.Find(reader);
      reader = mine;
      Space merged;
      if (other == mine || !groups_[other].fusible ||
          !FusionRules::Unite(groups_[other].space, groups_[mine].space, &merged) ||
          !Fits(other, mine) || !Agree(other, mine))
        continue;
      const int level = std::max(groups_[other].level, groups_[mine].level);
      if (!groups_.CanRise(other, level) || !groups_.CanRise(mine, level)) {
        ++plan_.level_refusals;
        continue;
      }
      if (!MayWrite(other, mine, merged) || HasEdge(n, inputs, other)) continue;
      if (!Fuel("fuse-siblings", n)) continue;
      Unite(other, mine, merged, level);
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
      // Nor is a write of what others compute: it has a step of its own, or none.
      works[size_t(g)] = !nodes_.Assigns(plan_.ids[k]) && !nodes_.IsView(plan_.order[k]->op());
    }
    const LaunchPlan launches =
        trial_ ? LaunchPlan() : PlanLaunches(plan_, written_, works, nodes_, groups_, ctx_);
    plan_.parts = launches.shared;
    const bool shared = !launches.first.empty();
    if (shared) plan_.part_of.assign(g_.id_bound(), 0);
    std::vector<int> number(size_t(groups_.size()), -1), part(shared ? number.size() : 0, -1),
        parts(part.size(), 0);
    for (NodeId id : plan_.ids) {
      const int g = GroupOf(id);
      const bool fused =
          groups_[g].fusible && nodes_[id].kind != NodeKind::kShapeOnly && works[size_t(g)];
      const int first =
          shared && launches.first[size_t(g)] != LaunchPlan::kAlone ? launches.first[size_t(g)] : g;
      if (fused && number[size_t(first)] < 0) number[size_t(first)] = plan_.kernels++;
      plan_.kernel_of[id] = fused ? number[size_t(first)] : FusionPlan::kStays;
      plan_.fused_ops += fused;
      if (!fused || !shared) continue;
      if (part[size_t(g)] < 0) part[size_t(g)] = parts[size_t(first)]++;
      plan_.part_of[id] = part[size_t(g)];
    }
  }

  void CountStored() {
    std::unordered_set<uint64_t> more;              // stored outputs but the first; looked up only
    std::vector<uint8_t> stored(g_.id_bound(), 0);  // by id: the first is
    for (size_t k = 0; k < plan_.ids.size(); ++k) {
      const NodeId id = plan_.ids[k];
      if (nodes_[id].kind == NodeKind::kShapeOnly) continue;
      for (const EntryKey& e : plan_.InputsOf(k)) {
        if (!e.present() || plan_.kernel_of[e.id] < 0 ||
            plan_.kernel_of[e.id] == plan_.kernel_of[id])
          continue;
        if (e.index == 0 ? stored[e.id] != 0 : !more.insert(e.packed()).second) continue;
        if (e.index == 0) stored[e.id] = 1;
        const int shape = nodes_.ShapeOf(e);
        if (shape < 0) continue;
        const int64_t elements = nodes_.spaces().Elements(nodes_.spaces().SpaceOf(shape));
        int64_t bytes = 0;
        if (__builtin_mul_overflow(elements, std::max(1, DTypeBits(nodes_.TypeOf(e)) / 8),
                                   &bytes) ||
            __builtin_add_overflow(plan_.stored_bytes, bytes, &plan_.stored_bytes))
          plan_.stored_bytes = std::numeric_limits<int64_t>::max();
      }
    }
  }

  const Graph& g_;
  PassContext& ctx_;
  const std::vector<uint8_t>& late_;
  const bool trial_;
  FusionNodes nodes_;
  FusionGroups groups_;
  FusionRules rules_;
  FusionFuture future_;
  const int max_ops_, max_tensors_, max_reductions_;
  FusionPlan plan_;
  struct Producer {
    int level, place, group;
  };
  std::vector<Producer> producers_;  // of the node that is placed
  uint32_t stamp_ = 0;
  /// Entry -> last group that reads it over its own space: of outputs 0 by id,
  /// of others beside them.
  std::vector<int> reader_;
  std::unordered_map<uint64_t, int> more_readers_;        // looked up only
  std::unordered_map<int, std::vector<NodeId>> written_;  // by group; looked up only
};

}  // namespace

FusionPlan PlanFusion(Graph& g, PassContext& ctx) {
  constexpr int kMostTrials = 8;
  const std::vector<uint8_t> none;  // a sweep keeps the reference
  LatePlan found;
  if (ctx.option<int64_t>("max_ops") > 1 && ctx.option<int64_t>("late") != 0)
    found = FusionLate(g, ctx).Run();
  if (found.empty()) return Sweep(g, ctx, none, false).Run();
  const int64_t stored_without = Sweep(g, ctx, none, true).Run().stored_bytes;
  LateCopies late(g, ctx, found);
  for (int i = 0;; ++i) {
    const FusionPlan trial = Sweep(g, ctx, late.late(), true).Run();
    if (i < kMostTrials && !late.Settle(trial)) continue;
    late.Finish(late.gave_back() && trial.stored_bytes > stored_without);
    break;
  }
  FusionPlan plan = Sweep(g, ctx, late.late(), false).Run();
  plan.late_copies = late.CountIn(plan);
  return plan;
}

}  // namespace weft
