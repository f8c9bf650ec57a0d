/// simplify.cc: Simplify. Rewrites single nodes by rules, merges equal nodes, drops dead ones,
/// until nothing changes.
///   needs      shape, dtype, value
///   provides   -
///   preserves  shape, dtype, value (it infers them for what it adds)
///   never      changes a result: what is not proved is left alone; floating point is not reordered
///              (but in variance.cc)
///   cost       every node is visited twice, once where nothing changes, and again where something
///              around it has changed; at most `max_rounds` rounds, two or three in practice, each
///              linear
///   source     the FSimplify of each operator; registered rules (weft/core/op/rewrite_rule.h),
///              those of the house in the files of this folder
///
/// A round visits the nodes of a worklist, producers first, then merges, drops and infers. The
/// first round's list is the whole graph. A change puts on the list: what it made, the readers of
/// what it replaced, and the readers of every operand that won or lost a reader, as rules ask who
/// else reads a tensor; each with its own readers up to kReach levels. A round that changes nothing
/// visits the rest as well, so that what a rule sees from further away is found, if later.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "build.h"
#include "rule_table.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/graph/typed_edit.h"
#include "weft/core/op/attr_hash.h"
#include "weft/core/op/op.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"
#include "weft/support/hash.h"

namespace weft {
namespace {

/// The rows of one round, held beside the graph: edits do not make them stale, because a
/// replacement has the shape, dtype and value of what it replaces.
class Context final : public RewriteContext {
 public:
  explicit Context(Graph& g)
      : g_(g),
        edit_(g),
        facts_(g.AttrOr<Facts>("facts")),
        shape_done_(g.TakeAttrOr<NodeMap<uint8_t>>("shape_inferred")),
        type_done_(g.TakeAttrOr<NodeMap<uint8_t>>("dtype_inferred")) {}
  Graph& graph() override { return g_; }
  const Shape& shape(const NodeEntry& e) const override { return edit_.shape(e); }
  DType dtype(const NodeEntry& e) const override { return edit_.dtype(e); }
  TensorPtr constant(const NodeEntry& e) const override { return Graph::ConstantOf(e); }
  SymTensorPtr value(const NodeEntry& e) const override { return edit_.value(e); }
  const Facts& facts() const override { return facts_; }
  bool same_shape(const NodeEntry& a, const NodeEntry& b) const override {
    return simplify::ProvedSame(edit_.shape(a), edit_.shape(b), facts_);
  }
  void Replace(NodePtr n, const std::vector<NodeEntry>& to) {
    for (uint32_t i = 0; i < to.size(); ++i) {
      if (!to[i].node || to[i].node == n) continue;
      const NodeEntry from(n, i);
      if (edit_.shapes().find(to[i])) continue;  // inference has seen it: its rows stand
      // A constant of floats tells its value itself.
      const bool own_value = IsFloat(edit_.dtype(from)) && Graph::ConstantOf(to[i]);
      const Type* type = edit_.types().find(to[i]);
      edit_.Know(to[i], {edit_.shape(from), type ? *type : edit_.type(from),
                         own_value ? nullptr : edit_.value(from)});
    }
    edit_.Replace(n, to);
  }
  void Commit() {
    edit_.Finish();
    g_.SetAttr("shape_inferred", std::move(shape_done_));
    g_.SetAttr("dtype_inferred", std::move(type_done_));
  }

 private:
  Graph& g_;
  TypedEdit edit_;
  Facts facts_;
  NodeMap<uint8_t> shape_done_, type_done_;
};

/// How many readers further a change is followed: ProductOf of activations.cc looks this deep,
/// other rules less.
constexpr uint8_t kReach = 8;

/// Which nodes have something new to see, by distance: kReach is the change itself, 0 too far away.
class Worklist {
 public:
  /// The rounds after this one begin with what was noted during it.
  void NextRound() {
    now_ = std::move(next_);
    next_.clear();
  }
  /// Nodes that were not there when the round began are seen in the next one.
  void Note(const NodePtr& n) {
    Set(&now_, n->id());
    Set(&next_, n->id());
  }
  void NoteForNextRound(const NodePtr& n) { Set(&next_, n->id()); }
  /// To be asked producers first: what `n` reads tells how far it is from a change.
  bool Has(const NodePtr& n) {
    uint8_t near = At(n->id());
    for (const NodeEntry& e : n->inputs)
      if (e.node)
        if (const uint8_t there = At(e.node->id()); there > near + 1) near = uint8_t(there - 1);
    if (near > 0) Set(&now_, n->id(), near);
    return near > 0;
  }

 private:
  uint8_t At(NodeId id) const { return id < now_.size() ? now_[id] : 0; }
  static void Set(std::vector<uint8_t>* list, NodeId id, uint8_t near = kReach) {
    if (list->size() <= id) list->resize(id + 1, 0);
    (*list)[id] = near;
  }
  std::vector<uint8_t> now_, next_;  // by id
};

class Simplifier {
 public:
  Simplifier(Graph g, PassContext& ctx) : g_(std::move(g)), ctx_(ctx) {}

  Graph Run() {
    const int64_t max_rounds = ctx_.option<int64_t>("max_rounds");
    for (int64_t round = 0; round < max_rounds; ++round) {
      ctx_.cancel().Check();
      if (!Round(round == 0)) return std::move(g_);
      ctx_.Count("rounds");
    }
    if (applied_.empty()) return std::move(g_);
    std::string last;  // names the rules that go on for ever
    for (const auto& [rule, times] : applied_)
      last += fmt::format("{}{} ({}x)", last.empty() ? "" : ", ", rule, times);
    ctx_.Warn(
        fmt::format("stopped after {} rounds (max_rounds), the last of which still applied {}; "
                    "rules that undo each other never end",
                    max_rounds, last));
    return std::move(g_);
  }

 private:
  /// Did it change anything?
  bool Round(bool first) {
    const NodeId bound = g_.id_bound();
    applied_.clear();
    work_.NextRound();
    {
      rows_.emplace(g_);
      const std::vector<NodePtr> order = g_.TopoOrder();
      CountReaders(order);
      std::vector<NodePtr> rest;
      for (const NodePtr& n : order) {
        if (first || work_.Has(n))
          Visit(n);
        else
          rest.push_back(n);
      }
      if (applied_.empty())
        for (const NodePtr& n : rest) Visit(n);
      if (first || !applied_.empty()) MergeEqual();
      rows_->Commit();
      rows_.reset();
    }
    if (first || g_.id_bound() != bound || !applied_.empty()) {
      ctx_.Count("dead", g_.EraseDead());
      NoteReaders(bound);
      PassOptions inner;
      inner.target = ctx_.target();
      inner.limits = ctx_.limits();
      inner.verify = false;
      g_ = ApplyPasses(std::move(g_), {"InferType", "InferShape"}, inner);
    }
    return !applied_.empty();
  }

  /// Once a node: whether somebody has ended the request.
  void Look() {
    if (++looked_ % 256 == 0) ctx_.cancel().Check();
  }

  void Visit(const NodePtr& n) {
    Look();
    // A rewrite would leave the effect beside what replaces it.
    if (n->is_variable() || HasEffect(n)) return;
    static const auto& own = Op::GetAttr<FSimplify>("FSimplify");
    if (const FSimplify* f = own.find(n->op()); f && Attempt("op-rule", *f, n)) return;
    for (const RewriteRule* rule : rules_->For(n->op())) {
      if (!Attempt(rule->name, rule->apply, n)) continue;
      if (rule->owner.module != WEFT_MODULE_NAME) ctx_.Count("registered-rule");
      return;
    }
  }

  bool Attempt(const std::string& name, const FSimplify& rule, const NodePtr& n) {
    const NodeId bound = g_.id_bound();
    std::vector<NodeEntry> to;
    try {
      to = rule(*rows_, n);
    } catch (const Error& e) {
      // Extents that leave 64 bits on the way to a rewrite are no reason for it, nor against the
      // model.
      if (e.code() != ErrorCode::kOverflow) throw;
    }
    if (to.empty()) return false;
    WEFT_CHECK(to.size() <= n->num_outputs(), kApiMisuse,
               "rewrite rule '{}' gave {} replacements for the {} outputs of {}", name, to.size(),
               n->num_outputs(), n->Describe());
    // "After" cannot be handed to a node that was there before: it might come before what it waits
    // for.
    if (!n->control_deps.empty() && std::any_of(to.begin(), to.end(), [&](const NodeEntry& e) {
          return e.node && e.node->id() < bound;
        }))
      return false;
    if (!ctx_.Fuel(name, n)) return false;
    for (NodeId id = bound; id < g_.id_bound(); ++id)
      if (NodePtr made = g_.node(id)) g_.MergeOrigin(made, n);
    Replace(n, to);
    ctx_.Count(name);
    ++applied_[name];
    return true;
  }

  void Replace(const NodePtr& n, const std::vector<NodeEntry>& to) {
    for (const Use& u : n->uses()) work_.Note(u.user);
    rows_->Replace(n, to);
  }

  /// Value numbering: equal operator, attributes and operands give one node.
  void MergeEqual() {
    std::unordered_map<uint64_t, std::vector<NodePtr>> seen;  // looked up only
    int64_t merged = 0;
    // What runs again on purpose (Checkpoint) stays apart.
    const auto copies = g_.AttrOr<NodeMap<std::string>>("recompute_of");
    for (NodePtr n : g_.TopoOrder()) {
      Look();
      if (n->is_variable() || !IsRepeatable(n) || copies.find(n)) continue;
      auto& same_hash = seen[ValueHash(n)];
      auto equal = std::find_if(same_hash.begin(), same_hash.end(), [&](NodePtr m) {
        return m->op() == n->op() &&
               std::equal(m->inputs.begin(), m->inputs.end(), n->inputs.begin(), n->inputs.end()) &&
               std::equal(m->control_deps.begin(), m->control_deps.end(), n->control_deps.begin(),
                          n->control_deps.end()) &&
               m->attrs.dict == n->attrs.dict;
      });
      if (equal == same_hash.end()) {
        same_hash.push_back(n);
        continue;
      }
      if (!ctx_.Fuel("merge-equal", n)) break;
      std::vector<NodeEntry> to;
      for (uint32_t i = 0; i < n->num_outputs(); ++i) to.emplace_back(*equal, i);
      Replace(n, to);
      ++merged;
    }
    ctx_.Count("merge-equal", merged);
    if (merged > 0) applied_["merge-equal"] = merged;
  }
  uint64_t ValueHash(const NodePtr& n) {
    Hasher h;
    h.Add(AttrHash(n));
    for (const NodeEntry& e : n->inputs) h.Add(e.key().packed());
    for (Node* d : n->control_deps) h.Add(uint64_t{d->id()});
    return h.Finish().lo;
  }
  /// Of operator and attributes, which no rule changes: made once, as it writes them as text.
  uint64_t AttrHash(const NodePtr& n) {
    if (attr_hashes_.size() <= n->id()) attr_hashes_.resize(g_.id_bound(), 0);
    uint64_t& hash = attr_hashes_[n->id()];
    return hash != 0 ? hash : hash = HashOfAttrs(n);
  }

  void CountReaders(const std::vector<NodePtr>& order) {
    readers_.assign(g_.id_bound(), 0);
    for (const NodePtr& n : order) readers_[n->id()] = n->uses().size();
  }
  /// What was made since `bound`, its operands, and what lost or won readers. Rules do not ask who
  /// else reads a constant, and many nodes do.
  void NoteReaders(NodeId bound) {
    const auto is_constant = [](const NodePtr& n) {
      return IsOp(n, builtin::kConstant) || IsOp(n, builtin::kShapeTensor);
    };
    for (NodeId id = 0; id < g_.id_bound(); ++id) {
      const NodePtr n = g_.node(id);
      if (!n) continue;
      if (id >= bound) {
        work_.NoteForNextRound(n);
        for (const NodeEntry& e : n->inputs)
          if (e.node && !is_constant(e.node)) work_.NoteForNextRound(e.node);
      } else if (readers_[id] != n->uses().size() && !is_constant(n)) {
        work_.NoteForNextRound(n);
      }
    }
  }

  Graph g_;
  PassContext& ctx_;
  const std::shared_ptr<const simplify::RuleTable> rules_ = simplify::RuleTable::Current();
  Worklist work_;
  std::optional<Context> rows_;             // of this round
  std::map<std::string, int64_t> applied_;  // in this round
  std::vector<size_t> readers_;             // by id, when this round began
  std::vector<uint64_t> attr_hashes_;       // by id; 0: not made yet
  int64_t looked_ = 0;
};

Graph Simplify(Graph g, PassContext& ctx) { return Simplifier(std::move(g), ctx).Run(); }

/// What is counted beside the rules is declared with the pass.
NamedDocs RuleCounts() {
  NamedDocs counts;
  for (const RewriteRule& r : ListRewriteRules()) counts.emplace_back(r.name, r.doc);
  return counts;
}

WEFT_REGISTER_PASS(Simplify)
    .describe(
        "rewrites single nodes by rules, merges equal nodes, drops dead ones, until nothing "
        "changes")
    .set_body(Simplify)
    .enters_bodies()
    .set_change_graph(true)
    .keeps_onnx()
    .depend_graph_attr("dtype")
    .depend_graph_attr("shape")
    .depend_graph_attr("value")
    .option("max_rounds", int64_t{12}, "most rounds")
    .statistic("rounds", "rounds that changed something")
    .statistic("op-rule", "rewrites by an operator's own FSimplify")
    .statistic("registered-rule", "of the rewrites, those by rules of plugins")
    .statistic("merge-equal", "nodes merged with an equal one")
    .statistic("dead", "nodes that nothing needs")
    .statistics(RuleCounts);

}  // namespace
}  // namespace weft
