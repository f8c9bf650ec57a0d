/// lookup.cc: a product with one-hot rows is a look-up, and the gradient of a look-up at one
/// place is a Pad.
///   MatMul(Cast(Equal(i, [0, 1 .. n-1])), W)   ->   Where(0 <= i < n, Gather(W, i), 0)
/// where i has a last extent of 1 against the n columns. Exact for finite W: every other product is
/// 0 * w = 0, and sums of zeros are 0. An i outside [0, n) gives a row of zeros on both sides.
///   weft::GatherGrad(dy, shape, c)             ->   Pad(dy, [c, n - 1 - c])
/// along the axis, for one constant index c: queries, keys and values of one projection, each of
/// which adds to a third of its gradient. A Pad fuses with the sum behind it, where a scatter
/// fills, adds and writes all of it.
#include "build.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/rewrite_rule.h"

namespace weft::simplify {
namespace {

/// The constant counts 0, 1, .. n-1 along its last axis and has no other extent but 1s.
bool IsCount(const TensorPtr& t) {
  if (!t || !IsInt(t->dtype()) || t->rank() == 0 || t->dims().back() != t->num_elements())
    return false;
  for (int64_t i = 0; i < t->num_elements(); ++i)
    if (t->at_int(i) != i) return false;
  return true;
}

std::vector<NodeEntry> OneHotProduct(RewriteContext& ctx, const NodePtr& n) {
  if (!IsOp(n->inputs[0].node, "Cast")) return {};
  const NodeEntry w = n->inputs[1], hot = n->inputs[0].node->inputs[0];
  const TensorPtr table = ctx.constant(w);
  if (!table || table->rank() != 2 || !IsFloat(table->dtype()) || !IsOp(hot.node, "Equal") ||
      !AllFinite(*table))
    return {};
  // One column of the comparison for each row of the table.
  const int64_t count = table->dims()[0];
  NodeEntry index;
  for (int k : {0, 1}) {
    const TensorPtr counter = ctx.constant(hot.node->inputs[size_t(1 - k)]);
    if (IsCount(counter) && counter->num_elements() == count) index = hot.node->inputs[size_t(k)];
  }
  if (!index.node || count == 0) return {};
  // The rows may have been spread over the columns before they are compared.
  if (IsOp(index.node, "Expand")) index = index.node->inputs[0];
  const Shape &spread = ctx.shape(hot), &rows = ctx.shape(index);
  if (!spread.fully_known() || !rows.fully_known() || rows.rank() != spread.rank() ||
      rows.rank() < 2)
    return {};
  const int last = rows.rank() - 1;
  if (!rows[last].is(1) || !spread[last].is(count)) return {};
  for (int d = 0; d < last; ++d)
    if (!ctx.facts().ProvedEqual(rows[d], spread[d])) return {};
  Graph& g = ctx.graph();
  const DType t = ctx.dtype(index);
  if (t != DType::kI32 && t != DType::kI64) return {};
  // Rows of the table by the indices without their last extent of 1, clamped so that
  // every read is inside.
  std::vector<SymInt> lead(rows.dims().begin(), rows.dims().end() - 1);
  auto scalar = [&](DType dtype, double v) { return g.AddConstant(Tensor::Scalar(dtype, v)); };
  const NodeEntry clamped(g.AddNode(
      "Max", {NodeEntry(g.AddNode("Min", {index, scalar(t, double(count - 1))})), scalar(t, 0)}));
  const NodeEntry flat = ReshapeTo(g, clamped, lead);
  const NodeEntry found(g.AddNode("Gather", {w, flat}, {{"axis", 0}}));
  const NodeEntry inside(g.AddNode("Equal", {clamped, index}));
  return {AddOp(ctx, "Where", {inside, found, scalar(table->dtype(), 0)})};
}
WEFT_REGISTER_REWRITE_RULE("one-hot-product")
    .group("lookup")
    .root("MatMul")
    .describe("products with one-hot rows made look-ups")
    .apply(OneHotProduct);

std::vector<NodeEntry> ScatterOfOne(RewriteContext& ctx, const NodePtr& n) {
  const TensorPtr index = ctx.constant(n->inputs[2]);
  const Shape& whole = ctx.shape(NodeEntry(n));
  if (!index || index->num_elements() != 1 || index->rank() > 1 || !whole.fully_known()) return {};
  const int rank = whole.rank();
  const int64_t given = n->attr<int64_t>("axis"), axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank || !whole[int(axis)].is_const()) return {};
  const int64_t extent = whole[int(axis)].value(), c = index->at_int(0),
                at = c < 0 ? c + extent : c;
  if (at < 0 || at >= extent) return {};
  Graph& g = ctx.graph();
  std::vector<SymInt> one = whole.dims();
  one[size_t(axis)] = 1;
  std::vector<int64_t> pads(2 * size_t(rank), 0);
  pads[size_t(axis)] = at;
  pads[size_t(rank + axis)] = extent - 1 - at;
  const NodeEntry piece = index->rank() == 1 ? n->inputs[0] : ReshapeTo(g, n->inputs[0], one);
  return {AddOp(ctx, "Pad", {piece, g.AddConstant(Tensor::Ints(pads))})};
}
WEFT_REGISTER_REWRITE_RULE("scatter-of-one")
    .group("lookup")
    .root("weft::GatherGrad")
    .describe("gradients of a look-up at one constant index made Pads")
    .apply(ScatterOfOne);

}  // namespace
}  // namespace weft::simplify
