/// chains.cc: Reshape, Transpose, Expand.
///   Reshape(Reshape(x))                 -> Reshape(x)
///   Reshape(x), x of that very shape    -> x
///   Transpose(Transpose(x, p), q)       -> Transpose(x, p[q]), nothing when that is the identity
///   Transpose that moves only 1s        -> Reshape
///   Expand(x), x of that very shape     -> x
///   Add(Expand(x), y), y spans it       -> Add(x, y)
///   Split(x) into unequal parts         -> a Slice each, which fuse with what reads them
#include <algorithm>

#include "rules.h"
#include "weft/codegen/op_codegen.h"
#include "weft/core/builtin_ops.h"
#include "weft/core/op.h"

namespace weft::simplify {
namespace {

std::vector<NodeEntry> ReshapeChain(RewriteContext& ctx, const NodePtr& n) {
  if (!IsOp(n, "Reshape")) return {};
  if (ctx.same_shape(n->inputs[0], NodeEntry(n))) return {n->inputs[0]};
  NodePtr inner = n->inputs[0].node;
  // The outer target must be explicit: a 0 or -1 in it would mean the inner shape.
  if (!IsOp(inner, "Reshape") || n->attr<int64_t>("allowzero") != 1 ||
      !ctx.shape(NodeEntry(n)).fully_known())
    return {};
  return {NodeEntry(ctx.graph().AddNode("Reshape", {inner->inputs[0], n->inputs[1]},
                                        {{"allowzero", 1}}, n->attrs.name))};
}

Ints PermOf(const NodePtr& n, int rank) {
  Ints perm = n->has_attr("perm") ? n->attr<Ints>("perm") : Ints();
  if (perm.empty())
    for (int d = rank; d-- > 0;) perm.push_back(d);
  return perm;
}
bool IsIdentity(const Ints& perm) {
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != int64_t(i)) return false;
  return true;
}

std::vector<NodeEntry> TransposeChain(RewriteContext& ctx, const NodePtr& n) {
  if (!IsOp(n, "Transpose") || !ctx.shape(n->inputs[0]).has_rank()) return {};
  const Shape& in = ctx.shape(n->inputs[0]);
  const Ints q = PermOf(n, in.rank());
  if (IsIdentity(q)) return {n->inputs[0]};
  NodePtr inner = n->inputs[0].node;
  if (IsOp(inner, "Transpose")) {
    const Ints p = PermOf(inner, in.rank());
    Ints both;
    for (int64_t k : q) both.push_back(p[size_t(k)]);
    if (IsIdentity(both)) return {inner->inputs[0]};
    return {NodeEntry(
        ctx.graph().AddNode("Transpose", {inner->inputs[0]}, {{"perm", both}}, n->attrs.name))};
  }
  // The order of the extents that are not 1 decides where elements go.
  int64_t last = -1;
  for (int64_t k : q) {
    if (in[int(k)].is(1)) continue;
    if (k < last) return {};
    last = k;
  }
  const Shape& out = ctx.shape(NodeEntry(n));
  if (!out.fully_known()) return {};
  const SymTensor dims{{out.rank()}, out.dims()};
  const NodeEntry target =
      dims.is_const() ? ctx.graph().AddConstant(Tensor::Ints(dims.ints()))
                      : NodeEntry(ctx.graph().AddNode(builtin::kShapeTensor, {}, {{"dims", out}}));
  return {NodeEntry(
      ctx.graph().AddNode("Reshape", {n->inputs[0], target}, {{"allowzero", 1}}, n->attrs.name))};
}

std::vector<NodeEntry> ExpandIdentity(RewriteContext& ctx, const NodePtr& n) {
  if (!IsOp(n, "Expand") || !ctx.same_shape(n->inputs[0], NodeEntry(n))) return {};
  return {n->inputs[0]};
}

/// An operand that is expanded to what broadcasting gives anyway.
std::vector<NodeEntry> ExpandBeforeBroadcast(RewriteContext& ctx, const NodePtr& n) {
  static const auto& codegen = Op::GetAttr<FCodeGen>("FCodeGen");
  const FCodeGen* code = codegen.find(n->op());
  if (!code || !code->elementwise || n->num_outputs() != 1) return {};
  const Shape& out = ctx.shape(NodeEntry(n));
  if (!out.fully_known()) return {};
  std::vector<NodeEntry> inputs = n->inputs;
  bool changed = false;
  for (NodeEntry& e : inputs) {
    if (!e.node || !IsOp(e.node, "Expand")) continue;
    const NodeEntry keep = e;
    e = e.node->inputs[0];
    Shape s;
    bool first = true;
    for (const NodeEntry& x : inputs) {
      if (!x.node) continue;
      s = first ? ctx.shape(x) : BroadcastShapes(s, ctx.shape(x), &ctx.facts());
      first = false;
    }
    bool same = s.has_rank() && s.rank() == out.rank();
    for (int d = 0; same && d < out.rank(); ++d)
      same = s[d].known() && ctx.facts().ProvedEqual(s[d], out[d]);
    if (same)
      changed = true;
    else
      e = keep;
  }
  if (!changed) return {};
  return {NodeEntry(ctx.graph().AddNode(n->op(), inputs, n->attrs.dict, n->attrs.name))};
}

std::vector<NodeEntry> UnequalSplit(RewriteContext& ctx, const NodePtr& n) {
  if (!IsOp(n, "Split") || n->num_outputs() < 2) return {};
  const Shape& in = ctx.shape(n->inputs[0]);
  if (!in.has_rank()) return {};
  const int axis = NormalizeAxis(n->attr<int64_t>("axis"), in.rank());
  bool equal = true;
  for (uint32_t k = 0; k < n->num_outputs(); ++k) {
    const Shape& out = ctx.shape(NodeEntry(n, k));
    if (!out.fully_known()) return {};
    equal = equal && out[axis] == ctx.shape(NodeEntry(n))[axis];
  }
  if (equal) return {};
  Graph& g = ctx.graph();
  auto vector = [&](SymInt v) {
    return v.is_const() ? g.AddConstant(Tensor::Ints({v.value()}))
                        : NodeEntry(g.AddNode(builtin::kShapeTensor, {}, {{"dims", Shape{v}}}));
  };
  const NodeEntry axes = vector(axis);
  std::vector<NodeEntry> parts;
  SymInt begin = 0;
  for (uint32_t k = 0; k < n->num_outputs(); ++k) {
    const SymInt end = begin + ctx.shape(NodeEntry(n, k))[axis];
    parts.emplace_back(
        g.AddNode("Slice", {n->inputs[0], vector(begin), vector(end), axes}, {}, n->attrs.name));
    begin = end;
  }
  return parts;
}

}  // namespace

std::vector<Rule> ChainRules() {
  return {{"reshape-chain", ReshapeChain},
          {"transpose-chain", TransposeChain},
          {"expand-identity", ExpandIdentity},
          {"expand-before-broadcast", ExpandBeforeBroadcast},
          {"unequal-split", UnequalSplit}};
}

}  // namespace weft::simplify
