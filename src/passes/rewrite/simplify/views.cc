/// views.cc: what views and Transposes undo across each other.
///   Squeeze(Unsqueeze(x, a), a)      -> x   also where no extent of x is known
///   Unsqueeze(Squeeze(x, a), a)      -> x   the Squeeze holds only where those extents are 1
///   Flatten(x), x of rank 2, axis 1  -> x   also where no extent of x is known
///   Transpose(Reshape(Transpose(x, p)), q), where the Reshape adds and drops extents of 1 only
///     -> Reshape(Transpose(x, pq)), or Reshape(x) where pq keeps the order
///   Gather(Transpose(x, p), c) of one position c, or with such a Reshape between, where all that
///   read it take one position each (queries, keys and values of one projection)
///     -> Transpose(Gather(x, c), ..)
#include <algorithm>

#include "build.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/rewrite_rule.h"

namespace weft::simplify {
namespace {

/// The axes of a Squeeze or Unsqueeze, sorted; empty where they are not given as numbers.
std::vector<int64_t> AxesOf(RewriteContext& ctx, const NodePtr& n) {
  if (n->num_inputs() < 2 || !n->inputs[1].node) return {};
  const SymTensorPtr v = ctx.value(n->inputs[1]);
  if (!v || !v->is_const()) return {};
  std::vector<int64_t> axes = v->ints();
  std::sort(axes.begin(), axes.end());
  return axes;
}

std::vector<NodeEntry> InverseViews(RewriteContext& ctx, const NodePtr& n) {
  const NodePtr inner = n->num_inputs() ? n->inputs[0].node : nullptr;
  if (IsOp(n, "Flatten")) {
    const Shape& x = ctx.shape(n->inputs[0]);
    const int64_t axis = n->attr<int64_t>("axis");
    if (!x.has_rank() || x.rank() != 2 || (axis != 1 && axis != -1)) return {};
    return {n->inputs[0]};
  }
  const bool drops = IsOp(n, "Squeeze") && IsOp(inner, "Unsqueeze");
  const bool adds = IsOp(n, "Unsqueeze") && IsOp(inner, "Squeeze");
  if (!drops && !adds) return {};
  // Both count axes in the tensor that has them, so equal numbers are equal
  // axes, negative ones too.
  const std::vector<int64_t> axes = AxesOf(ctx, n);
  if (axes.empty() || axes != AxesOf(ctx, inner)) return {};
  // What Squeeze says of an axis of unknown extent, that it is 1, would be lost.
  const Shape& x = ctx.shape(inner->inputs[0]);
  for (int64_t axis : axes)
    if (adds && (!x.has_rank() || !x[NormalizeAxis(axis, x.rank())].is(1))) return {};
  return {inner->inputs[0]};
}
WEFT_REGISTER_REWRITE_RULE("inverse-views")
    .group("views")
    .root("Squeeze", "Unsqueeze", "Flatten")
    .describe("Squeeze and Unsqueeze that undo each other, Flatten of rank 2")
    .apply(InverseViews);

/// Axes whose extent is not 1 for certain.
std::vector<int> Wide(const Shape& s) {
  std::vector<int> axes;
  for (int d = 0; d < s.rank(); ++d)
    if (!s[d].is(1)) axes.push_back(d);
  return axes;
}

/// Proved: but for extents of 1, the extents of both are the same in the same order.
bool DifferInUnits(RewriteContext& ctx, const Shape& a, const Shape& b) {
  const std::vector<int> wide_a = Wide(a), wide_b = Wide(b);
  bool equal = wide_a.size() == wide_b.size();
  for (size_t k = 0; equal && k < wide_a.size(); ++k)
    equal = ctx.facts().ProvedEqual(a[wide_a[k]], b[wide_b[k]]);
  return equal;
}

std::vector<NodeEntry> TransposeAcrossUnits(RewriteContext& ctx, const NodePtr& n) {
  if (!IsOp(n->inputs[0].node, "Reshape")) return {};
  const NodePtr reshape = n->inputs[0].node, first = reshape->inputs[0].node;
  if (!IsOp(first, "Transpose")) return {};
  const NodeEntry x = first->inputs[0];
  const Shape &from = ctx.shape(x), &before = ctx.shape(NodeEntry(first)),
              &after = ctx.shape(NodeEntry(reshape)), &out = ctx.shape(NodeEntry(n));
  if (!from.fully_known() || !before.fully_known() || !after.fully_known() || !out.fully_known())
    return {};
  const std::vector<int> wide_before = Wide(before), wide_after = Wide(after);
  if (!DifferInUnits(ctx, before, after)) return {};

  // Where the wide axes of x stand in the result.
  const Ints p = TransposePerm(first, from.rank()), q = TransposePerm(n, after.rank());
  Ints order;
  for (int64_t j : q) {
    const auto at = std::find(wide_after.begin(), wide_after.end(), int(j));
    if (at != wide_after.end())
      order.push_back(p[size_t(wide_before[size_t(at - wide_after.begin())])]);
  }
  Graph& g = ctx.graph();
  if (std::is_sorted(order.begin(), order.end())) return {ReshapeTo(g, x, out.dims())};
  for (int64_t d = 0; d < from.rank(); ++d)
    if (from[int(d)].is(1)) order.push_back(d);
  const NodeEntry moved(g.AddNode("Transpose", {x}, {{"perm", order}}));
  return {ReshapeTo(g, moved, out.dims())};
}
WEFT_REGISTER_REWRITE_RULE("transpose-across-units")
    .group("views")
    .root("Transpose")
    .describe("Transposes on both sides of a Reshape that moves only 1s")
    .apply(TransposeAcrossUnits);

/// Gather of one position that is known.
bool Selects(RewriteContext& ctx, const NodePtr& n) {
  if (!IsOp(n, "Gather")) return false;
  const TensorPtr c = ctx.constant(n->inputs[1]);
  return c && c->rank() == 0;
}
bool IsOnlySelected(RewriteContext& ctx, const NodePtr& n, SymInt extent) {
  if (ctx.graph().is_output(n) || !extent.is_const() || int64_t(n->uses().size()) > extent.value())
    return false;
  return std::all_of(n->uses().begin(), n->uses().end(), [&](const Use& u) {
    return !u.control && u.slot == 0 && Selects(ctx, u.user);
  });
}

std::vector<NodeEntry> SelectAcrossTranspose(RewriteContext& ctx, const NodePtr& n) {
  if (!Selects(ctx, n)) return {};
  const NodePtr whole = n->inputs[0].node;
  const NodePtr t = IsOp(whole, "Reshape") ? whole->inputs[0].node : whole;
  if (!IsOp(t, "Transpose")) return {};
  const NodeEntry x = t->inputs[0];
  const Shape &from = ctx.shape(x), &before = ctx.shape(NodeEntry(t)),
              &after = ctx.shape(NodeEntry(whole)), &out = ctx.shape(NodeEntry(n));
  if (!from.fully_known() || !before.fully_known() || !after.fully_known() || !out.fully_known())
    return {};
  int64_t axis = n->attr<int64_t>("axis");
  if (axis < 0) axis += after.rank();
  if (axis < 0 || axis >= after.rank() || !IsOnlySelected(ctx, whole, after[int(axis)])) return {};
  if (t != whole && (t->uses().size() != 1 || ctx.graph().is_output(t))) return {};
  const std::vector<int> wide_before = Wide(before), wide_after = Wide(after);
  if (!DifferInUnits(ctx, before, after)) return {};

  // The axis of x that is selected from, and where its other wide axes stand in the result.
  const Ints p = TransposePerm(t, from.rank());
  int64_t selected = -1;
  Ints order;
  for (size_t k = 0; k < wide_after.size(); ++k) {
    const int64_t source = p[size_t(wide_before[k])];
    if (wide_after[k] == axis)
      selected = source;
    else
      order.push_back(source);
  }
  if (selected < 0) return {};
  for (int64_t& d : order) d -= d > selected;
  Graph& g = ctx.graph();
  const NodeEntry part(g.AddNode("Gather", {x, n->inputs[1]}, {{"axis", selected}}));
  if (std::is_sorted(order.begin(), order.end())) return {ReshapeTo(g, part, out.dims())};
  for (int64_t d = 0; d < from.rank(); ++d)
    if (d != selected && from[int(d)].is(1)) order.push_back(d - (d > selected));
  const NodeEntry moved(g.AddNode("Transpose", {part}, {{"perm", order}}));
  return {ReshapeTo(g, moved, out.dims())};
}
WEFT_REGISTER_REWRITE_RULE("select-across-transpose")
    .group("views")
    .root("Gather")
    .describe("Gather of one position taken before a Transpose")
    .apply(SelectAcrossTranspose);

}  // namespace
}  // namespace weft::simplify
