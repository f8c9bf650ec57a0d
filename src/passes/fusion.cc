/// fusion.cc: Fusion. Puts everything that generated kernels compute into weft::Fused nodes, as few as are legal.
///   needs      shape, dtype, value
///   provides   subgraph (the body of every weft::Fused node)
///   preserves  nothing by itself; rows of unaffected nodes survive, new nodes get theirs
///   never      fuses across an unknown shape or an unproved equality, a library call, an effect; duplicates no reduction
///   cost       one sweep, amortised O(1) an edge; measured in bench/
///   source     levels: this project; templates: AStitch (ASPLOS'22); the name and the interface: NNVM-Fusion (2016)
///
/// A group is element-wise (all members and results over one space D) or row-wise (P x R: reductions over R, their
/// results over P, and members over either). Extents are compared without their 1s, so that [b], [b, 1] and [1, b] are
/// one space; an operand that broadcasts inside a group must be a row value spread over exactly R.
///   before  %m = ReduceMax(%x)   %s = Sub(%x, %m)   %e = Exp(%s)   %t = ReduceSum(%e)   %y = Div(%e, %t)
///   after   %y = weft::Fused(%x) body (..)
#include <unordered_map>

#include "fusion_build.h"
#include "fusion_groups.h"
#include "fusion_kind.h"
#include "weft/codegen/kernel_compilers.h"
#include "weft/core/builtin_ops.h"
#include "weft/core/op.h"
#include "weft/support/check.h"
#include "weft/support/hash.h"

namespace weft {
namespace {

/// Ids of lists of extents without their 1s, equal extents by the facts taken as one.
class SpaceKeys {
 public:
  explicit SpaceKeys(const Facts& facts) : facts_(facts), has_facts_(facts.assumptions() > 0) {}
  int KeyOf(const Shape& s) {
    scratch_.clear();
    for (SymInt d : s.dims())
      if (!d.is(1)) scratch_.push_back(has_facts_ ? facts_.Simplify(d) : d);
    return Intern();
  }
  /// Key of `key`'s extents without the positions of `mask`.
  int Without(int key, uint64_t mask) {
    const std::vector<SymInt> dims = *spaces_[size_t(key)];
    scratch_.clear();
    for (size_t i = 0; i < dims.size(); ++i)
      if (!(mask >> i & 1)) scratch_.push_back(dims[i]);
    return Intern();
  }
  bool Same(SymInt a, SymInt b) const {
    return a == b || (has_facts_ && facts_.Simplify(a) == facts_.Simplify(b));
  }

 private:
  int Intern() {
    // Neighbours mostly have the extents of the one before.
    if (last_ >= 0 && *spaces_[size_t(last_)] == scratch_) return last_;
    return last_ = InternNew();
  }
  int InternNew() {
    uint64_t h = 0x9e3779b97f4a7c15ull + scratch_.size();
    for (SymInt d : scratch_)
      h = (h ^ reinterpret_cast<uintptr_t>(d.node())) *
          0x2545f4914f6cdd1dull;  // ids only, never output
    auto [it, end] = ids_.equal_range(h);
    for (; it != end; ++it)
      if (*spaces_[size_t(it->second)] == scratch_) return it->second;
    spaces_.push_back(std::make_unique<std::vector<SymInt>>(scratch_));
    ids_.emplace(h, int(spaces_.size()) - 1);
    return int(spaces_.size()) - 1;
  }
  const Facts& facts_;
  bool has_facts_;
  int last_ = -1;
  std::vector<SymInt> scratch_;
  std::unordered_multimap<uint64_t, int> ids_;
  std::vector<std::unique_ptr<std::vector<SymInt>>> spaces_;
};

class Sweep {
 public:
  Sweep(Graph& g, PassContext& ctx)
      : g_(g),
        ctx_(ctx),
        facts_{g.GetAttr<ShapeMap>("shape"), g.GetAttr<TypeMap>("dtype"),
               g.GetAttr<ValueMap>("value")},
        known_(g.AttrOr<Facts>("facts")),
        keys_(known_),
        max_ops_(int(ctx.option<int64_t>("max_ops"))),
        max_tensors_(int(ctx.option<int64_t>("max_tensors"))),
        max_reductions_(int(ctx.option<int64_t>("max_reductions"))) {
    // Which ops a library computes better is known once the backend's module is there.
    const std::string family = ctx.target().substr(0, ctx.target().find(':'));
    LoadBackendModule(family);
    library_ = "FCompute." + family;
  }

  /// Members of every group that becomes a weft::Fused node, in topological order.
  std::vector<std::vector<NodePtr>> Run() {
    const std::vector<NodePtr> order = g_.TopoOrder();
    group_of_.assign(g_.id_bound(), -1);
    kind_.assign(g_.id_bound(), NodeKind::kOpaque);
    output_uses_.assign(g_.id_bound(), 0);
    for (const NodeEntry& e : g_.outputs) ++output_uses_[e.node->id()];
    groups_.reserve(order.size());
    for (NodePtr n : order) Place(n);
    std::vector<std::vector<NodePtr>> members;
    std::vector<int> slot(size_t(groups_.size()), -1);
    for (NodePtr n : order) {
      const int g = groups_.Find(group_of_[n->id()]);
      if (!groups_[g].fusible || kind_[n->id()] == NodeKind::kShapeOnly) continue;
      if (slot[size_t(g)] < 0) slot[size_t(g)] = int(members.size()), members.emplace_back();
      members[size_t(slot[size_t(g)])].push_back(n);
    }
    return members;
  }

 private:
  NodeKind KindOf(NodePtr n) {
    if (n->is_variable() || stateful_.get(n->op(), false)) return NodeKind::kOpaque;
    // An output that nobody reads as a tensor because its value is known costs no kernel.
    if (n->num_outputs() == 1 && IsFollowed(NodeEntry(n))) return NodeKind::kShapeOnly;
    const FCodeGen* code = codegen_.find(n->op());
    const FFuseKind* told = fuse_kind_.find(n->op());
    if (!code || (told && *told == FuseKind::kOpaque)) return NodeKind::kOpaque;
    if (told && *told == FuseKind::kAnchor && n->op()->has(library_)) return NodeKind::kOpaque;
    if (!HasComputableTypes(n, facts_)) return NodeKind::kOpaque;
    if (code->elementwise || (told && *told == FuseKind::kElementwise))
      return NodeKind::kElementwise;
    const Shape& out = facts_.shapes[NodeEntry(n)];
    if (view_.get(n->op(), false)) {
      if (keys_.KeyOf(facts_.shapes[n->inputs[0]]) == keys_.KeyOf(out))
        return NodeKind::kElementwise;
      return NodeKind::kInjective;
    }
    NodeClass c = ClassifyGeneral(n, facts_);
    if (c.kind == NodeKind::kReduction &&
        StrippedMask(facts_.shapes[n->inputs[size_t(c.full_input)]], c.axes) == 0)
      c.kind = NodeKind::kLocal;  // reduces extents of 1 only
    NodeKind k = c.kind;
    // A kernel has one space. Where results that somebody reads have several, the op stays; those of a reduction may be
    // over the whole space or over its rows.
    std::vector<int> allowed;
    if (k == NodeKind::kReduction) {
      const Shape& in = facts_.shapes[n->inputs[size_t(c.full_input)]];
      allowed = {keys_.KeyOf(in), keys_.Without(keys_.KeyOf(in), StrippedMask(in, c.axes))};
    }
    for (uint32_t i = 0; i < n->num_outputs(); ++i) {
      if (n->num_outputs() > 1 && !IsRead(n, i)) continue;
      const int key = keys_.KeyOf(facts_.shapes[NodeEntry(n, i)]);
      if (allowed.empty()) allowed.push_back(key);
      if (std::find(allowed.begin(), allowed.end(), key) == allowed.end()) k = NodeKind::kOpaque;
    }
    classes_.emplace(n->id(), std::move(c));
    return k;
  }
  bool IsRead(NodePtr n, uint32_t output) const {
    for (const Use& u : n->uses())
      if (!u.control && u.user->inputs[u.slot].index == output) return true;
    return std::find(g_.outputs.begin(), g_.outputs.end(), NodeEntry(n, output)) !=
           g_.outputs.end();
  }
  bool IsFollowed(const NodeEntry& e) const {
    const SymTensorPtr* v = facts_.values.find(e);
    if (!v || !*v) return false;
    for (SymInt s : (*v)->elements)
      if (!s.known()) return false;
    return true;
  }
  /// Bits of `axes` over the positions of the extents that are not 1.
  static uint64_t StrippedMask(const Shape& s, const std::vector<int>& axes) {
    uint64_t mask = 0;
    int position = 0;
    for (int d = 0; d < s.rank(); ++d) {
      if (s[d].is(1)) continue;
      if (std::find(axes.begin(), axes.end(), d) != axes.end()) mask |= uint64_t{1} << position;
      ++position;
    }
    return mask;
  }
  /// Positions (of `to` without 1s) over which `from` is spread when it broadcasts to `to`; nullopt where not proved.
  std::optional<uint64_t> BroadcastMask(const Shape& from, const Shape& to) const {
    uint64_t mask = 0;
    int position = 0;
    const int shift = to.rank() - from.rank();
    if (shift < 0) {
      for (int d = 0; d < -shift; ++d)
        if (!from[d].is(1)) return std::nullopt;
    }
    for (int d = 0; d < to.rank(); ++d) {
      const int k = d - shift;
      if (to[d].is(1)) {
        if (k >= 0 && !from[k].is(1)) return std::nullopt;
        continue;
      }
      if (k < 0 || from[k].is(1))
        mask |= uint64_t{1} << position;
      else if (!keys_.Same(from[k], to[d]))
        return std::nullopt;
      ++position;
    }
    return mask;
  }

  void Place(NodePtr n) {
    const NodeKind kind = KindOf(n);
    kind_[n->id()] = kind;
    int need = 0;
    for (const NodeEntry& e : n->inputs)
      if (e.node) need = std::max(need, Level(e.node) + 1);
    for (Node* d : n->control_deps) need = std::max(need, Level(d) + 1);
    if (n->num_inputs() == 0 && n->control_deps.empty()) need = 0;
    const bool fusible = kind != NodeKind::kOpaque && kind != NodeKind::kShapeOnly;
    const int own = groups_.New(need, fusible);
    group_of_[n->id()] = own;
    FusionGroups::Group& me = groups_[own];
    me.size = 1;
    me.open_uses = int64_t(n->uses().size()) + output_uses_[n->id()];
    if (fusible) {
      SetSpace(n, kind, &me);
      for (const NodeEntry& e : n->inputs)
        if (e.node && kind_[e.node->id()] != NodeKind::kShapeOnly) AddOperand(&me, e);
      if (n->control_deps.empty()) {
        Join(n, own);
        JoinSiblings(n);
      }
    }
    // What this node reads from outside its group must stay below it.
    const int g = groups_.Find(own);
    auto bound = [&](Node* p) {
      const int q = groups_.Find(group_of_[p->id()]);
      if (q != g) groups_[q].min_consumer = std::min(groups_[q].min_consumer, groups_[g].level);
    };
    for (const NodeEntry& e : n->inputs)
      if (e.node) bound(e.node.get());
    for (Node* d : n->control_deps) bound(d);
  }

  void SetSpace(NodePtr n, NodeKind kind, FusionGroups::Group* me) {
    const Shape& out = facts_.shapes[NodeEntry(n)];
    if (kind == NodeKind::kReduction) {
      const NodeClass& c = classes_.at(n->id());
      const Shape& in = facts_.shapes[n->inputs[size_t(c.full_input)]];
      me->space.key = keys_.KeyOf(in);
      me->space.mask = StrippedMask(in, c.axes);
      me->space.row_key = keys_.Without(me->space.key, me->space.mask);
      me->reductions = 1;
    } else {
      me->space.key = keys_.KeyOf(out);
      if (kind == NodeKind::kLocal) me->reductions = 1;
    }
  }
  static void AddOperand(FusionGroups::Group* g, const NodeEntry& e) {
    const uint64_t key = uint64_t{e.node->id()} << 32 | e.index;
    if (std::find(g->operands.begin(), g->operands.end(), key) == g->operands.end())
      g->operands.push_back(key);
  }
  int Level(NodePtr n) { return groups_[groups_.Find(group_of_[n->id()])].level; }

  /// Merges the fresh group of `n` with the groups of its producers, the highest first.
  void Join(NodePtr n, int own) {
    std::vector<int> producers;
    for (const NodeEntry& e : n->inputs) {
      if (!e.node) continue;
      const int p = groups_.Find(group_of_[e.node->id()]);
      if (groups_[p].fusible && std::find(producers.begin(), producers.end(), p) == producers.end())
        producers.push_back(p);
    }
    std::stable_sort(producers.begin(), producers.end(),
                     [&](int a, int b) { return groups_[a].level > groups_[b].level; });
    int mine = own;
    for (int p : producers) {
      p = groups_.Find(p);
      if (p == mine) continue;
      Space merged;
      if (!Compatible(n, mine, p, &merged) || !Fits(mine, p)) {
        continue;
      }
      // Everything else that the node reads must end below the merged group.
      int level = std::max(groups_[p].level, mine == own ? 0 : groups_[mine].level);
      auto above = [&](Node* q) {
        const int h = groups_.Find(group_of_[q->id()]);
        if (h != p && h != mine) level = std::max(level, groups_[h].level + 1);
      };
      for (const NodeEntry& e : n->inputs)
        if (e.node) above(e.node.get());
      if (!groups_.CanRise(p, level) || (mine != own && !groups_.CanRise(mine, level))) {
        continue;
      }
      if (!ctx_.Fuel("fuse", n)) return;
      int64_t edges = 0;
      for (const NodeEntry& e : n->inputs)
        if (e.node && groups_.Find(group_of_[e.node->id()]) == p) ++edges;
      groups_.Merge(p, mine);
      groups_[p].level = level;
      groups_[p].open_uses -= edges;
      // What n read of p is inside now.
      for (const NodeEntry& e : n->inputs)
        if (e.node && groups_.Find(group_of_[e.node->id()]) == p) Internalise(p, e);
      groups_[p].space = merged;
      mine = p;
    }
  }

  /// Groups that read one large tensor over one space read it once together. Neither may reach the other: they are
  /// brought to one level, or left apart.
  void JoinSiblings(NodePtr n) {
    if (kind_[n->id()] != NodeKind::kElementwise && kind_[n->id()] != NodeKind::kReduction) return;
    for (const NodeEntry& e : n->inputs) {
      if (!e.node) continue;
      const int mine = groups_.Find(group_of_[n->id()]);
      if (groups_.Find(group_of_[e.node->id()]) == mine) continue;
      if (keys_.KeyOf(facts_.shapes[e]) != groups_[mine].space.key) continue;
      auto [it, fresh] = readers_.emplace(uint64_t{e.node->id()} << 32 | e.index, mine);
      if (fresh) continue;
      const int other = groups_.Find(it->second);
      it->second = mine;
      Space merged;
      if (other == mine || !groups_[other].fusible ||
          !Unite(groups_[other].space, groups_[mine].space, &merged) || !Fits(other, mine))
        continue;
      const int level = std::max(groups_[other].level, groups_[mine].level);
      if (!groups_.CanRise(other, level) || !groups_.CanRise(mine, level) ||
          !ctx_.Fuel("fuse-siblings", n))
        continue;
      groups_.Merge(other, mine);
      groups_[other].level = level;
      groups_[other].space = merged;
      it->second = other;
    }
  }
  void Internalise(int g, const NodeEntry& e) {
    auto& o = groups_[g].operands;
    o.erase(std::remove(o.begin(), o.end(), uint64_t{e.node->id()} << 32 | e.index), o.end());
  }
  bool Fits(int a, int b) {
    return groups_[a].size + groups_[b].size <= max_ops_ &&
           groups_[a].reductions + groups_[b].reductions <= max_reductions_ &&
           groups_.CountOperands(b, a, max_tensors_) <= max_tensors_;
  }

  /// One space for both groups, as far as the edges from p to n tell; false where there is none.
  bool Compatible(NodePtr n, int mine, int p, Space* merged) {
    const Space &a = groups_[p].space, &b = groups_[mine].space;
    switch (kind_[n->id()]) {
      case NodeKind::kElementwise:
        return ElementwiseJoins(n, a, b, p, merged);
      case NodeKind::kReduction:
        return ReductionJoins(n, a, b, p, merged);
      case NodeKind::kInjective:
        return InjectiveJoins(n, a, b, p, merged);
      default:
        return false;
    }
  }
  template <class F>
  bool EachEdge(NodePtr n, int p, F&& f) {
    for (uint32_t i = 0; i < n->num_inputs(); ++i) {
      const NodeEntry& e = n->inputs[i];
      if (e.node && groups_.Find(group_of_[e.node->id()]) == p && !f(i, facts_.shapes[e]))
        return false;
    }
    return true;
  }
  /// The union of two spaces: equal, or one of them a row space of the other.
  static bool Unite(const Space& a, const Space& b, Space* out) {
    if (a.key == b.key && (!a.is_row() || !b.is_row() || a.mask == b.mask))
      *out = a.is_row() ? a : b;
    else if (a.is_row() && !b.is_row() && b.key == a.row_key)
      *out = a;
    else if (b.is_row() && !a.is_row() && a.key == b.row_key)
      *out = b;
    else
      return false;
    return true;
  }
  bool ElementwiseJoins(NodePtr n, const Space& a, const Space& b, int p, Space* merged) {
    const Shape& out = facts_.shapes[NodeEntry(n)];
    const int key = keys_.KeyOf(out);
    if (!Unite(a, b, merged)) return false;
    const bool full = key == merged->key, row = merged->is_row() && key == merged->row_key;
    if (!full && !row) return false;
    const bool view = view_.get(n->op(), false);
    return EachEdge(n, p, [&](uint32_t i, const Shape& in) {
      if (view) return i == 0 && keys_.KeyOf(in) == key;  // element for element, whatever the 1s
      const auto mask = BroadcastMask(in, out);
      if (!mask) return false;
      if (*mask == 0) return true;
      return full && merged->is_row() && *mask == merged->mask;
    });
  }
  bool ReductionJoins(NodePtr n, const Space& a, const Space& b, int p, Space* merged) {
    const NodeClass& c = classes_.at(n->id());
    if (!Unite(a, b, merged) || !merged->is_row()) return false;
    if (!a.is_row() && groups_[p].reductions > 0) return false;  // a row may be read once a pass
    // Only the reduced tensor itself may come from inside, and only as a value over the whole space.
    return EachEdge(n, p, [&](uint32_t i, const Shape& in) {
      return int(i) == c.full_input && keys_.KeyOf(in) == merged->key;
    });
  }
  bool InjectiveJoins(NodePtr n, const Space& a, const Space& b, int p, Space* merged) {
    // The producers' space disappears behind the new one: nobody else may want it.
    int64_t edges = 0;
    EachEdge(n, p, [&](uint32_t, const Shape&) { return ++edges, true; });
    if (groups_[p].open_uses != edges) return false;
    if (!a.is_row()) {
      // A reduction inside a point would be done again for every position that reads it, unless each is read once.
      const NodeClass* moves = classes_.count(n->id()) ? &classes_.at(n->id()) : nullptr;
      if (groups_[p].reductions > 0 && (!moves || moves->perm.empty()) &&
          !view_.get(n->op(), false))
        return false;
      *merged = b;
      return !b.is_row();
    }
    const NodeClass* c = classes_.count(n->id()) ? &classes_.at(n->id()) : nullptr;
    if (!c || c->perm.empty() || keys_.KeyOf(facts_.shapes[n->inputs[0]]) != a.key) return false;
    // A permutation of the whole space: the reduced extents move with it.
    const Shape& in = facts_.shapes[n->inputs[0]];
    std::vector<int> position(size_t(in.rank()), -1);
    for (int d = 0, k = 0; d < in.rank(); ++d)
      if (!in[d].is(1)) position[size_t(d)] = k++;
    uint64_t mask = 0;
    int k = 0;
    for (int from : c->perm) {
      if (in[from].is(1)) continue;
      if (a.mask >> position[size_t(from)] & 1) mask |= uint64_t{1} << k;
      ++k;
    }
    merged->key = b.key;
    merged->mask = mask;
    merged->row_key = keys_.Without(b.key, mask);
    return true;
  }

  Graph& g_;
  PassContext& ctx_;
  FusionFacts facts_;
  Facts known_;
  SpaceKeys keys_;
  const int max_ops_, max_tensors_, max_reductions_;
  const OpMap<FCodeGen>& codegen_ = Op::GetAttr<FCodeGen>("FCodeGen");
  const OpMap<FFuseKind>& fuse_kind_ = Op::GetAttr<FFuseKind>("FFuseKind");
  const OpMap<TIsStateful>& stateful_ = Op::GetAttr<TIsStateful>("TIsStateful");
  const OpMap<TIsView>& view_ = Op::GetAttr<TIsView>("TIsView");
  std::string library_;  // operator attribute of the target's library calls
  FusionGroups groups_;
  std::vector<int> group_of_;
  std::vector<NodeKind> kind_;
  std::vector<int> output_uses_;
  std::unordered_map<NodeId, NodeClass> classes_;
  std::unordered_map<uint64_t, int>
      readers_;  // entry -> last group that reads it over its own space; looked up only
};

Graph Fusion(Graph g, PassContext& ctx) {
  std::vector<std::vector<NodePtr>> groups = Sweep(g, ctx).Run();
  const auto& view = Op::GetAttr<TIsView>("TIsView");
  int64_t kernels = 0, fused_ops = 0;
  FusedBuilder builder(g);
  for (const std::vector<NodePtr>& members : groups) {
    // A view alone is no work: the runtime aliases it.
    const bool only_views = std::all_of(members.begin(), members.end(),
                                        [&](NodePtr n) { return view.get(n->op(), false); });
    if (only_views) continue;
    builder.Build(members);
    ++kernels;
    fused_ops += int64_t(members.size());
  }
  builder.Finish();
  ctx.Count("kernels", kernels);
  ctx.Count("fused_ops", fused_ops);
  return g;
}

WEFT_REGISTER_PASS(Fusion)
    .describe("puts what generated kernels compute into weft::Fused nodes, as few as are legal")
    .set_body(Fusion)
    .set_change_graph(true)
    .depend_graph_attr("shape")
    .depend_graph_attr("dtype")
    .depend_graph_attr("value")
    .provide_graph_attr("subgraph")
    .option("max_ops", int64_t{256}, "most operators in one kernel; 1 turns fusion off")
    .option("max_tensors", int64_t{64}, "most tensors that one kernel reads from outside")
    .option("max_reductions", int64_t{8}, "most reductions in one kernel")
    .statistic("kernels", "weft::Fused nodes made")
    .statistic("fused_ops", "operators inside them");

}  // namespace
}  // namespace weft
