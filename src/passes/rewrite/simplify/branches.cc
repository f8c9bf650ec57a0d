/// branches.cc: an If whose condition is known is the branch that it takes.
///   If(true, x) {then: Squeeze(x, [0]); else: Identity(x)}   ->   Squeeze(x, [0])
/// Exporters write one for every squeeze of an extent that they do not know. A branch in which a
/// size depends on data stays inside: the graph around it would fall into regions for it.
#include <algorithm>
#include <unordered_map>

#include "build.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/effects.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/core/op/rewrite_rule.h"
#include "weft/core/pass/body_types.h"

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
    const std::vector<SymInt> symbols = d.Symbols();
    return std::all_of(symbols.begin(), symbols.end(), [&](SymInt s) {
      return std::find(outer.begin(), outer.end(), s) != outer.end();
    });
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
  const std::vector<NodePtr> order = body->TopoOrder();
  std::unordered_map<EntryKey, NodeEntry> here;
  for (size_t i = 0; i < body->inputs().size(); ++i)
    here[NodeEntry(body->inputs()[i]).key()] = n->inputs[i + 1];
  for (const NodePtr& m : order) {
    const bool operand = here.count(NodeEntry(m).key()) != 0;
    if (HasEffect(m) || (m->is_variable() && !operand && !Graph::ConstantOf(NodeEntry(m))))
      return {};
  }
  if (!SizesAreOuter(ctx, n, *body)) return {};
  Graph& g = ctx.graph();
  const auto find = [&](const NodeEntry& e) { return e.node ? here.at(e.key()) : NodeEntry(); };
  for (const NodePtr& m : order) {
    if (here.count(NodeEntry(m).key())) continue;
    if (m->is_variable()) {
      here[NodeEntry(m).key()] = g.AddConstant(Graph::ConstantOf(NodeEntry(m)));
      continue;
    }
    std::vector<NodeEntry> inputs;
    for (const NodeEntry& e : m->inputs) inputs.push_back(find(e));
    const NodePtr copy = g.AddCopy(m, inputs);
    for (uint32_t i = 0; i < m->num_outputs(); ++i)
      here[NodeEntry(m, i).key()] = NodeEntry(copy, i);
  }
  std::vector<NodeEntry> outputs;
  for (const NodeEntry& e : body->outputs) outputs.push_back(find(e));
  return outputs;
}
WEFT_REGISTER_REWRITE_RULE("decided-branch")
    .group("shape-arithmetic")
    .root("If")
    .describe("If of a known condition replaced by the branch that it takes")
    .apply(DecidedBranch);

}  // namespace
}  // namespace weft::simplify
