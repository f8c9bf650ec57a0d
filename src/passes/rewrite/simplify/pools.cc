/// pools.cc: max-pooling and its gradient.
///   MaxPool(x), where weft::MaxPool(x) exists  -> its first result: the window is searched once
///   f(MaxPoolGrad(dy, w), h(x))                -> MaxPoolGrad(f(dy, h(y)), w)
///   MaxPoolGrad(a, w) +- MaxPoolGrad(b, w)     -> MaxPoolGrad(a +- b, w)
/// with y = MaxPool(x), f a product, quotient or selection with 0, and h any element-wise function
/// of x: where the gradient is not 0, x is the winner of its window, so that h(x) is h(y) there. So
/// the derivative of an activation before a pool is taken on the pooled tensor, and x need not be
/// kept. A gradient that is 0 because its element did not win stays 0, also beside an infinite
/// h(x).
#include <algorithm>
#include <optional>

#include "build.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/match.h"
#include "weft/core/op/op.h"
#include "weft/core/op/rewrite_rule.h"

namespace weft::simplify {
namespace {

/// An element-wise function is followed through this many operators.
constexpr size_t kMaxChain = 32;

/// One search for the maximum and for its place.
std::vector<NodeEntry> SearchOnce(RewriteContext& ctx, const NodePtr& n) {
  if (IsRead(ctx.graph(), NodeEntry(n, 1))) return {};
  for (const Use& u : n->inputs[0].node->uses()) {
    const NodePtr other = u.user;
    if (!u.control && IsOp(other, "weft::MaxPool") && other->inputs[0] == n->inputs[0] &&
        other->attrs.dict == n->attrs.dict && other->control_deps.empty())
      return {NodeEntry(other, 0)};
  }
  return {};
}
WEFT_REGISTER_REWRITE_RULE("pool-search")
    .group("pools")
    .root("MaxPool")
    .describe("MaxPool whose windows are searched for their winners as well")
    .apply(SearchOnce);

/// What one scatter of gradients is made of; none where `e` is no such result,
/// or has other readers.
struct Put {
  NodeEntry dy, winner, shape;
  NodePtr node;
};
std::optional<Put> PutOf(RewriteContext& ctx, const NodeEntry& e) {
  Put put;
  const auto scatter =
      m::Op("weft::MaxPoolGrad", m::Any(&put.dy), m::Any(&put.winner), m::Any(&put.shape));
  if (!m::Match(e, scatter.To(&put.node)) || !OnlyReader(ctx.graph(), e.node)) return {};
  const NodePtr search = put.winner.node;
  if (!IsOp(search, "weft::MaxPool") || !(search->attrs.dict == e.node->attrs.dict)) return {};
  return put;
}
NodeEntry PutAgain(Graph& g, const Put& put, const NodeEntry& dy) {
  return NodeEntry(g.AddNode(put.node->op(), {dy, put.winner, put.shape}, put.node->attrs.dict));
}

/// h(y) for `e` = h(x), where y = max-pool of x.
class OnPooled {
 public:
  OnPooled(RewriteContext& ctx, const NodePtr& search) : ctx_(ctx), search_(search) {}
  std::optional<NodeEntry> Of(const NodeEntry& e) {
    if (!Follow(e)) return {};
    return Build(e);
  }

 private:
  /// One value for all positions of a plane: pooling leaves it as it is.
  bool IsFlat(const NodeEntry& e) const {
    const Shape& s = ctx_.shape(e);
    if (!s.has_rank()) return false;
    for (int d = std::max(0, s.rank() - Spatial()); d < s.rank(); ++d)
      if (!s[d].is(1)) return false;
    return true;
  }
  int Spatial() const { return ctx_.shape(search_->inputs[0]).rank() - 2; }
  bool IsX(const NodeEntry& e) const { return e == search_->inputs[0]; }

  bool Follow(const NodeEntry& root) {
    if (!ctx_.shape(search_->inputs[0]).has_rank()) return false;
    std::vector<NodeEntry> todo{root};
    while (!todo.empty()) {
      const NodeEntry e = todo.back();
      todo.pop_back();
      if (!e.node) return false;
      if (IsX(e) || IsFlat(e) || Known(e.node)) continue;
      const FCodeGen* code =
          e.node->is_variable() ? nullptr : Op::GetAttr<FCodeGen>("FCodeGen").find(e.node->op());
      if (!code || !code->elementwise || e.node->num_outputs() != 1 ||
          !e.node->control_deps.empty() || chain_.size() == kMaxChain ||
          !ctx_.same_shape(e, search_->inputs[0]))
        return false;
      chain_.push_back(e.node);
      for (const NodeEntry& in : e.node->inputs) todo.push_back(in);
    }
    return true;
  }
  bool Known(NodePtr n) const { return std::find(chain_.begin(), chain_.end(), n) != chain_.end(); }

  NodeEntry Twin(const NodeEntry& e) const {
    if (IsX(e)) return NodeEntry(search_, 0);
    for (const auto& [from, to] : twins_)
      if (from == e.node) return to;
    return e;
  }
  NodeEntry Build(const NodeEntry& root) {
    // Producers before readers: a node is ready when all that it reads of the chain is built.
    while (twins_.size() < chain_.size()) {
      for (NodePtr n : chain_) {
        const auto built = [&](NodePtr m) {
          return std::any_of(twins_.begin(), twins_.end(),
                             [&](const auto& t) { return t.first == m; });
        };
        if (built(n)) continue;
        std::vector<NodeEntry> inputs;
        bool ready = true;
        for (const NodeEntry& in : n->inputs) {
          ready = ready && (IsX(in) || !Known(in.node) || built(in.node));
          inputs.push_back(Twin(in));
        }
        if (ready)
          twins_.emplace_back(n, NodeEntry(ctx_.graph().AddNode(n->op(), inputs, n->attrs.dict)));
      }
    }
    return Twin(root);
  }

  RewriteContext& ctx_;
  const NodePtr search_;
  std::vector<NodePtr> chain_;
  std::vector<std::pair<NodePtr, NodeEntry>> twins_;
};

/// An element-wise node that is 0 where its operand `from` is.
std::vector<NodeEntry> TakePooled(RewriteContext& ctx, const NodePtr& n) {
  const bool div = IsOp(n, "Div"), where = IsOp(n, "Where");
  for (size_t i = 0; i < n->num_inputs(); ++i) {
    if ((div && i != 0) || (where && i == 0)) continue;
    if (!n->inputs[i].node) continue;
    const auto put = PutOf(ctx, n->inputs[i]);
    if (!put || !ctx.same_shape(NodeEntry(n), n->inputs[i])) continue;
    if (where && !m::Match(n->inputs[3 - i], m::Number(0.0))) continue;
    OnPooled pooled(ctx, put->winner.node);
    std::vector<NodeEntry> inputs(n->inputs.begin(), n->inputs.end());
    bool all = true;
    for (size_t k = 0; k < inputs.size() && all; ++k) {
      if (k == i) {
        inputs[k] = put->dy;
      } else if (const auto twin = pooled.Of(inputs[k])) {
        inputs[k] = *twin;
      } else {
        all = false;
      }
    }
    if (!all) continue;
    const NodeEntry dy(ctx.graph().AddNode(n->op(), inputs, n->attrs.dict));
    return {PutAgain(ctx.graph(), *put, dy)};
  }
  return {};
}
WEFT_REGISTER_REWRITE_RULE("pool-gradient")
    .group("pools")
    .root("Mul", "Div", "Where", "Neg")
    .describe("derivatives taken on the pooled tensor, before max-pooling's gradient")
    .apply(TakePooled);

std::vector<NodeEntry> PutOnce(RewriteContext& ctx, const NodePtr& n) {
  const auto a = PutOf(ctx, n->inputs[0]), b = PutOf(ctx, n->inputs[1]);
  if (!a || !b || a->winner != b->winner || !(a->node->attrs.dict == b->node->attrs.dict) ||
      !ctx.same_shape(n->inputs[0], n->inputs[1]))
    return {};
  return {PutAgain(ctx.graph(), *a, NodeEntry(ctx.graph().AddNode(n->op(), {a->dy, b->dy})))};
}
WEFT_REGISTER_REWRITE_RULE("pool-gradient-sum")
    .group("pools")
    .root("Add", "Sub")
    .describe("sums of two max-pooling gradients made the gradient of the sum")
    .apply(PutOnce);

}  // namespace
}  // namespace weft::simplify
