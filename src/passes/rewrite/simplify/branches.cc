/// branches.cc: an If whose condition is known is the branch that it takes.
///   If(true, x) {then: Squeeze(x, [0]); else: Identity(x)}   ->   Squeeze(x, [0])
/// Exporters write one for every squeeze of an extent that they do not know. A branch in which a
/// size depends on data stays inside: the graph around it would fall into regions for it.
#include <algorithm>

#include "build.h"
#include "passes/rewrite/inline_body.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/rewrite_rule.h"
#include "weft/core/pass/body_types.h"
#include "weft/sym/symbols.h"

namespace weft::simplify {
namespace {

/// Every size in the body, at the operands of `n`, is one of them or computed from them.
bool SizesAreOuter(RewriteContext& ctx, const NodePtr& n, const Graph& branch) {
  std::vector<SymInt> outer;
  const auto note = [&](const std::vector<SymInt>& sizes) {
    for (SymInt d : sizes)
      for (SymInt s : d.Symbols()) outer.push_back(s);
  };
  BodyOperands operands;
  operands.facts = &ctx.facts();
  for (size_t i = 0; i < branch.inputs().size(); ++i) {
    const NodeEntry e = n->inputs[i + 1];
    if (!e.node) return false;
    operands.types.push_back(ctx.dtype(e));
    operands.shapes.push_back(ctx.shape(e));
    operands.values.push_back(ctx.value(e));
    note(ctx.shape(e).dims());
    if (const SymTensorPtr& v = operands.values.back()) note(v->elements);
  }
  const Graph body = InferBody(branch, operands);
  const ShapeMap& shapes = body.GetAttr<ShapeMap>("shape");
  const auto is_outer = [&](SymInt d) {
    return EverySymbol(
        d, [&](SymInt s) { return std::find(outer.begin(), outer.end(), s) != outer.end(); });
  };
  for (const NodePtr& m : body.TopoOrder()) {
    for (uint32_t i = 0; i < m->num_outputs(); ++i) {
      const Shape& s = shapes[NodeEntry(m, i)];
      if (!s.fully_known() || !std::all_of(s.dims().begin(), s.dims().end(), is_outer))
        return false;
    }
  }
  return true;
}

std::vector<NodeEntry> DecidedBranch(RewriteContext& ctx, const NodePtr& n) {
  const NodeEntry cond = n->inputs[0];
  const TensorPtr constant = ctx.constant(cond);
  const SymTensorPtr followed = ctx.value(cond);
  const bool known = followed && followed->is_const() && followed->elements.size() == 1;
  if (!known && (!constant || constant->num_elements() != 1)) return {};
  const bool holds = known ? !followed->elements[0].is(0) : constant->at_int(0) != 0;
  const GraphPtr body = n->attr<GraphPtr>(holds ? "then_branch" : "else_branch");
  if (!CanInline(*body) || !SizesAreOuter(ctx, n, *body)) return {};
  return InlineBody(ctx.graph(), *body, {n->inputs.begin() + 1, n->inputs.end()});
}
WEFT_REGISTER_REWRITE_RULE("decided-branch")
    .group("shape-arithmetic")
    .root("If")
    .describe("If of a known condition replaced by the branch that it takes")
    .apply(DecidedBranch);

}  // namespace
}  // namespace weft::simplify
