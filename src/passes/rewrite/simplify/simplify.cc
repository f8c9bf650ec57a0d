/// simplify.cc: Simplify. Rewrites single nodes by rules, merges equal nodes, drops dead
/// ones, until nothing changes.
///   needs      shape, dtype, value
///   provides   -
///   preserves  shape, dtype, value (it infers them for what it adds)
///   never      changes a result: what is not proved is left alone; floating point is not
///              reordered (but in variance.cc)
///   cost       at most `max_rounds` linear sweeps; two or three in practice
///   source     rule groups: see simplify/rules.h; one-op facts: the FSimplify of each
///              operator; registered rules: weft/core/op/rewrite_rule.h
#include <algorithm>
#include <unordered_map>

#include "rules.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/op/op.h"
#include "weft/core/op/rewrite_rule.h"
#include "weft/core/pass/pass.h"
#include "weft/support/check.h"
#include "weft/support/hash.h"

namespace weft {
namespace {

/// The rows of one sweep, held beside the graph: edits do not make them stale, because a
/// replacement has the shape, dtype and value of what it replaces.
class Context final : public RewriteContext {
 public:
  explicit Context(Graph& g)
      : g_(g),
        shapes_(g.MoveCopyAttr<ShapeMap>("shape")),
        types_(g.MoveCopyAttr<TypeMap>("dtype")),
        values_(g.MoveCopyAttr<ValueMap>("value")),
        facts_(g.AttrOr<Facts>("facts")),
        shape_done_(g.TakeAttrOr<NodeMap<uint8_t>>("shape_inferred")),
        type_done_(g.TakeAttrOr<NodeMap<uint8_t>>("dtype_inferred")) {}
  Graph& graph() override { return g_; }
  const Shape& shape(const NodeEntry& e) const override { return shapes_[e]; }
  DType dtype(const NodeEntry& e) const override { return types_[e].dtype; }
  TensorPtr constant(const NodeEntry& e) const override { return Graph::ConstantOf(e); }
  SymTensorPtr value(const NodeEntry& e) const override {
    const SymTensorPtr* v = values_.find(e);
    return v ? *v : nullptr;
  }
  const Facts& facts() const override { return facts_; }
  bool same_shape(const NodeEntry& a, const NodeEntry& b) const override {
    const Shape &x = shapes_[a], &y = shapes_[b];
    if (!x.fully_known() || !y.fully_known() || x.rank() != y.rank()) return false;
    for (int d = 0; d < x.rank(); ++d)
      if (x[d] != y[d] && !facts_.ProvedEqual(x[d], y[d])) return false;
    return true;
  }
  void Replace(NodePtr n, const std::vector<NodeEntry>& to) {
    for (uint32_t i = 0; i < to.size(); ++i) {
      if (!to[i].node || to[i].node == n) continue;
      const NodeEntry from(n, i);
      const bool fresh = !shapes_.find(to[i]);
      if (fresh) shapes_.set(to[i], shapes_[from]);
      if (!types_.find(to[i])) types_.set(to[i], types_[from]);
      // What inference has seen keeps the row it gave; a constant of floats tells its value
      // itself, and has none.
      const bool own_value = IsFloat(types_[from].dtype) && Graph::ConstantOf(to[i]);
      if (const SymTensorPtr* v = values_.find(from); v && fresh && !own_value)
        values_.set(to[i], *v);
    }
    g_.ReplaceNode(n, to);
  }
  void Commit() {
    g_.SetAttr("shape", std::move(shapes_));
    g_.SetAttr("dtype", std::move(types_));
    g_.SetAttr("value", std::move(values_));
    g_.SetAttr("shape_inferred", std::move(shape_done_));
    g_.SetAttr("dtype_inferred", std::move(type_done_));
  }

 private:
  Graph& g_;
  ShapeMap shapes_;
  TypeMap types_;
  ValueMap values_;
  Facts facts_;
  NodeMap<uint8_t> shape_done_, type_done_;
};

/// Value numbering: equal operator, attributes and operands give one node.
int64_t MergeEqual(Graph& g, Context& rows, PassContext& ctx) {
  std::unordered_map<uint64_t, std::vector<NodePtr>> seen;  // looked up only
  int64_t merged = 0;
  for (NodePtr n : g.TopoOrder()) {
    if (n->is_variable() || !IsRepeatable(n)) continue;
    Hasher h;
    h.Add(std::string_view(n->op()->name));
    for (const auto& [name, value] : n->attrs.dict) {
      h.Add(std::string_view(name));
      if (value.is<TensorPtr>())
        h.Add(value.get<TensorPtr>()->ContentHash());
      else if (!value.is<GraphPtr>())
        h.Add(std::string_view(std::string(value)));
    }
    for (const NodeEntry& e : n->inputs)
      h.Add(e.node ? uint64_t{e.node->id()} << 32 | e.index : ~uint64_t{0});
    for (Node* d : n->control_deps) h.Add(uint64_t{d->id()});
    auto& same_hash = seen[h.Finish().lo];
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
    if (!ctx.Fuel("merge-equal", n)) break;
    std::vector<NodeEntry> to;
    for (uint32_t i = 0; i < n->num_outputs(); ++i) to.emplace_back(*equal, i);
    rows.Replace(n, to);
    ++merged;
  }
  return merged;
}

Graph Simplify(Graph g, PassContext& ctx) {
  std::vector<simplify::Rule> rules;
  for (auto group : {simplify::ZeroRules, simplify::ScaffoldRules, simplify::ChainRules,
                     simplify::ViewRules, simplify::PadRules, simplify::PoolRules,
                     simplify::LookupRules, simplify::ActivationRules, simplify::VarianceRules})
    for (simplify::Rule& r : group()) rules.push_back(std::move(r));
  const std::vector<RewriteRule> registered = ListRewriteRules();
  const auto& own = Op::GetAttr<FSimplify>("FSimplify");
  const int64_t max_rounds = ctx.option<int64_t>("max_rounds");
  PassOptions inner;
  inner.target = ctx.target();
  inner.limits = ctx.limits();
  inner.verify = false;
  for (int64_t round = 0; round < max_rounds; ++round) {
    ctx.cancel().Check();
    int64_t changes = 0;
    {
      Context rows(g);
      for (NodePtr n : g.TopoOrder()) {
        // A rewrite would leave the effect beside what replaces it.
        if (n->is_variable() || HasEffect(n)) continue;
        auto attempt = [&](std::string_view name, const FSimplify& rule, std::string_view counted) {
          const NodeId bound = g.id_bound();
          std::vector<NodeEntry> to;
          try {
            to = rule(rows, n);
          } catch (const Error& e) {
            // Extents that leave 64 bits on the way to a rewrite are no reason for it,
            // nor against the model.
            if (e.code() != ErrorCode::kOverflow) throw;
          }
          if (to.empty()) return false;
          WEFT_CHECK(to.size() <= n->num_outputs(), kApiMisuse,
                     "rewrite rule '{}' gave {} replacements for the {} outputs of {}", name,
                     to.size(), n->num_outputs(), n->Describe());
          // "After" cannot be handed to a node that was there before: it might come before
          // what it waits for.
          if (!n->control_deps.empty() &&
              std::any_of(to.begin(), to.end(),
                          [&](const NodeEntry& e) { return e.node && e.node->id() < bound; }))
            return false;
          if (!ctx.Fuel(name, n)) return false;
          for (NodeId id = bound; id < g.id_bound(); ++id)
            if (NodePtr made = g.node(id)) g.MergeOrigin(made, n);
          rows.Replace(n, to);
          ctx.Count(counted);
          ++changes;
          return true;
        };
        bool done = false;
        if (const FSimplify* f = own.find(n->op())) done = attempt("op-rule", *f, "op-rule");
        for (size_t i = 0; !done && i < rules.size(); ++i)
          done = attempt(rules[i].name, rules[i].apply, rules[i].name);
        for (size_t i = 0; !done && i < registered.size(); ++i)
          done = attempt(registered[i].name, registered[i].apply, "registered-rule");
      }
      const int64_t merged = MergeEqual(g, rows, ctx);
      ctx.Count("merge-equal", merged);
      changes += merged;
      rows.Commit();
    }
    ctx.Count("dead", g.EraseDead());
    g = ApplyPasses(std::move(g), {"InferType", "InferShape"}, inner);
    if (changes == 0) break;
    ctx.Count("rounds");
  }
  return g;
}

WEFT_REGISTER_PASS(Simplify)
    .describe(
        "rewrites single nodes by rules, merges equal nodes, drops dead ones, until nothing "
        "changes")
    .set_body(Simplify)
    .set_change_graph(true)
    .depend_graph_attr("dtype")
    .depend_graph_attr("shape")
    .depend_graph_attr("value")
    .option("max_rounds", int64_t{12}, "most sweeps over the graph")
    .statistic("rounds", "sweeps that changed something")
    .statistic("op-rule", "rewrites by an operator's own FSimplify")
    .statistic("registered-rule", "rewrites by rules that were registered, as plugins do")
    .statistic("known-value", "shape arithmetic replaced by its value")
    .statistic("view-as-reshape",
               "Squeeze, Unsqueeze, Flatten and computed Reshape targets made explicit")
    .statistic("expand-target", "computed Expand targets made explicit")
    .statistic("reshape-chain", "Reshape of a view, Reshape to the same shape")
    .statistic("transpose-chain", "Transpose of Transpose, Transpose that moves nothing")
    .statistic("expand-identity", "Expand to the same shape")
    .statistic("expand-before-broadcast", "Expand that broadcasting does by itself")
    .statistic("unequal-split", "Split into unequal parts made Slices")
    .statistic("inverse-views", "Squeeze and Unsqueeze that undo each other, Flatten of rank 2")
    .statistic("transpose-across-units", "Transposes on both sides of a Reshape that moves only 1s")
    .statistic("pad-into-window", "Pad that convolution and pooling do by themselves")
    .statistic("pool-search", "MaxPool whose windows are searched for their winners as well")
    .statistic("pool-gradient",
               "derivatives taken on the pooled tensor, before max-pooling's gradient")
    .statistic("one-hot-product", "matmuls with one-hot rows made look-ups")
    .statistic("zero-term", "structural zeros dropped from sums")
    .statistic("zero-factor", "products that a structural zero decides")
    .statistic("zero-through", "linear operators of structural zeros")
    .statistic("mask-sum", "sums of two complementary masks made one choice")
    .statistic("unit-factor", "products with spread ones")
    .statistic("scalar-before-expand",
               "element-wise operators of spread scalars done on the scalar")
    .statistic("written-variance", "differences of moments made weft::Moments")
    .statistic("mean-of-moments", "means that weft::Moments gives as well")
    .statistic("centered-twice", "differences to a mean that take both its parts")
    .statistic("neg-term", "sums with a negated term made differences, and back")
    .statistic("merge-equal", "nodes merged with an equal one")
    .statistic("dead", "nodes that nothing needs");

}  // namespace
}  // namespace weft
