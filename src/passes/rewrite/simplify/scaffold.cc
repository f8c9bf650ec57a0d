/// scaffold.cc: shape scaffold. Where inference has followed a value to the end, the nodes that
/// compute it are no longer needed.
///   %s = Shape(%x)  %t = Gather(%s, 0)  %u = Concat(%t, [64])
///     ->  %u = weft::ShapeTensor {dims = [batch, 64]}
///   %s = Concat(..) of integers only
///     ->  %s = Constant
///   %s = Shape(%x)  %t = Gather(%s, 2)  %u = Gather(%s, 3)  %v = Concat(%t, %u), of sizes that
///   only the run tells
///     ->  %v = Shape(%x) {start = 2, end = 4}
///   %s = Shape(%x)  %t = Gather(%s, 0)  %u = Gather(%s, 1)  %v = Mul(%t, %u), of such sizes
///     ->  %v = Size(%x)
///   %y = Reshape(%x, %computed) : f32[batch, 64]
///     ->  %y = Reshape(%x, weft::ShapeTensor {..})

#include <algorithm>

#include "build.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/rewrite_rule.h"
#include "weft/core/pass/body_types.h"

namespace weft::simplify {
namespace {

bool IsExtentVector(const NodeEntry& e, const std::vector<SymInt>& dims) {
  if (TensorPtr t = Graph::ConstantOf(e)) {
    if (t->dtype() != DType::kI64 || t->num_elements() != int64_t(dims.size())) return false;
    for (size_t i = 0; i < dims.size(); ++i)
      if (!dims[i].is(t->at_int(int64_t(i)))) return false;
    return true;
  }
  return IsOp(e.node, builtin::kShapeTensor) && e.node->attr<Shape>("dims").same(Shape(dims));
}

/// Whoever reads `n` has another operand that names the data-dependent ones of these extents, and
/// waits for it.
bool ReadersKeepTie(RewriteContext& ctx, const NodePtr& n, const std::vector<SymInt>& dims) {
  const std::vector<NodeEntry>& outputs = ctx.graph().outputs;
  if (std::any_of(outputs.begin(), outputs.end(), [&](const NodeEntry& e) { return e.node == n; }))
    return false;
  for (const Use& u : n->uses()) {
    std::vector<SymInt> named;
    for (const NodeEntry& e : u.user->inputs)
      if (e.node && ctx.shape(e).fully_known())
        for (SymInt d : ctx.shape(e).dims()) named.push_back(d);
    if (CutsTie(dims, Shape(std::move(named))) || !BodyNames(u.user).empty()) return false;
  }
  return true;
}

std::vector<NodeEntry> KnownValue(RewriteContext& ctx, const NodePtr& n) {
  if (n->num_outputs() != 1 || IsOp(n, builtin::kConstant) || IsOp(n, builtin::kShapeTensor))
    return {};
  const SymTensorPtr v = ctx.value(NodeEntry(n));
  if (!v || !v->fully_known()) return {};
  const DType t = ctx.dtype(NodeEntry(n));
  if (v->is_const()) {
    auto tensor = std::make_shared<Tensor>(t, v->dims);
    for (int64_t i = 0; i < tensor->num_elements(); ++i)
      tensor->set_int(i, v->elements[size_t(i)].value());
    return {ctx.graph().AddConstant(tensor)};
  }
  if (t != DType::kI64 || v->dims.size() != 1) return {};
  if (CutsTie(v->elements, Shape()) && !ReadersKeepTie(ctx, n, v->elements)) return {};
  return {ExtentVector(ctx.graph(), v->elements)};
}
WEFT_REGISTER_REWRITE_RULE("known-value")
    .group("shape-arithmetic")
    .any_root()
    .describe("shape arithmetic replaced by its value")
    .apply(KnownValue);

/// The nodes from which a vector is computed, as many as one asks.
constexpr size_t kMaxLookedAt = 24;

/// The first answer of `ask` for a tensor whose shape is among what `n` is computed from.
template <class Ask>
std::vector<NodeEntry> AskShapesBefore(const NodePtr& n, Ask ask) {
  std::vector<NodePtr> nodes = {n};
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (IsOp(nodes[i], "Shape"))
      if (const NodeEntry found = ask(nodes[i]->inputs[0]); found.node) return {found};
    for (const NodeEntry& e : nodes[i]->inputs)
      if (e.node && !e.node->is_variable() && nodes.size() < kMaxLookedAt) nodes.push_back(e.node);
  }
  return {};
}

/// Where sizes depend on data no weft::ShapeTensor may hold them, since it would not wait for the
/// node that tells them. Neighbours in one shape are read off it.
std::vector<NodeEntry> PartOfShape(RewriteContext& ctx, const NodePtr& n) {
  if (n->num_outputs() != 1 || ctx.dtype(NodeEntry(n)) != DType::kI64) return {};
  const SymTensorPtr v = ctx.value(NodeEntry(n));
  if (!v || !v->fully_known() || v->dims.size() != 1 || v->elements.empty() ||
      !CutsTie(v->elements, Shape()))
    return {};
  return AskShapesBefore(n, [&](const NodeEntry& x) -> NodeEntry {
    const std::vector<SymInt>& dims = ctx.shape(x).dims();
    const auto at = std::search(dims.begin(), dims.end(), v->elements.begin(), v->elements.end());
    if (at == dims.end()) return {};
    const int64_t start = at - dims.begin(), count = int64_t(v->elements.size());
    return AddOp(ctx, "Shape", {x}, {{"start", start}, {"end", start + count}});
  });
}
WEFT_REGISTER_REWRITE_RULE("part-of-shape")
    .group("shape-arithmetic")
    .root("Concat", "Reshape", "Squeeze", "Unsqueeze", "Gather", "Slice", "Cast")
    .describe("vectors of neighbouring dimensions read off one shape")
    .apply(PartOfShape);

/// All of a shape multiplied.
std::vector<NodeEntry> ProductOfShape(RewriteContext& ctx, const NodePtr& n) {
  const SymTensorPtr v = ctx.value(NodeEntry(n));
  if (!v || !v->fully_known() || !v->dims.empty() || ctx.dtype(NodeEntry(n)) != DType::kI64 ||
      !CutsTie(v->elements, Shape()))
    return {};
  return AskShapesBefore(n, [&](const NodeEntry& x) -> NodeEntry {
    if (ctx.shape(x).num_elements() != v->elements[0]) return {};
    return AddOp(ctx, "Size", {x});
  });
}
WEFT_REGISTER_REWRITE_RULE("product-of-shape")
    .group("shape-arithmetic")
    .root("Mul")
    .describe("dimensions that depend on data, all of a shape multiplied: Size")
    .apply(ProductOfShape);

/// A size that depended on data when the vector was made is known by now.
std::vector<NodeEntry> ResolvedExtents(RewriteContext& ctx, const NodePtr& n) {
  const SymTensorPtr v = ctx.value(NodeEntry(n));
  if (!v || !v->fully_known() || IsExtentVector(NodeEntry(n), v->elements)) return {};
  return {ExtentVector(ctx.graph(), v->elements)};
}
WEFT_REGISTER_REWRITE_RULE("resolved-extents")
    .group("shape-arithmetic")
    .root(builtin::kShapeTensor)
    .describe("dimensions that depended on data and are known by now")
    .apply(ResolvedExtents);

/// Every op that only arranges elements in row-major order, as Reshape to what it gives.
std::vector<NodeEntry> ViewAsReshape(RewriteContext& ctx, const NodePtr& n) {
  const Shape& out = ctx.shape(NodeEntry(n));
  if (!out.fully_known() || CutsTie(out.dims(), ctx.shape(n->inputs[0]))) return {};
  if (IsOp(n, "Reshape") && IsExtentVector(n->inputs[1], out.dims()) &&
      n->attr<int64_t>("allowzero") == 1)
    return {};
  return {ReshapeTo(ctx.graph(), n->inputs[0], out.dims())};
}
WEFT_REGISTER_REWRITE_RULE("view-as-reshape")
    .group("shape-arithmetic")
    .root("Reshape", "Squeeze", "Unsqueeze", "Flatten")
    .describe("Squeeze, Unsqueeze, Flatten and computed Reshape targets made explicit")
    .apply(ViewAsReshape);

std::vector<NodeEntry> ExpandTarget(RewriteContext& ctx, const NodePtr& n) {
  const Shape& out = ctx.shape(NodeEntry(n));
  if (!out.fully_known() || IsExtentVector(n->inputs[1], out.dims()) ||
      CutsTie(out.dims(), ctx.shape(n->inputs[0])))
    return {};
  return {ExpandTo(ctx, n->inputs[0], n)};
}
WEFT_REGISTER_REWRITE_RULE("expand-target")
    .group("shape-arithmetic")
    .root("Expand")
    .describe("computed Expand targets made explicit")
    .apply(ExpandTarget);

}  // namespace
}  // namespace weft::simplify
