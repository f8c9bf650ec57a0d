/// chains.cc: Reshape, Transpose, Expand.
///   Reshape(Reshape(x))                 -> Reshape(x); the same for Squeeze, Unsqueeze, Flatten
///                                       and any other view inside
///   Reshape(x), x of that very shape    -> x
///   Transpose(Transpose(x, p), q)       -> Transpose(x, p[q]), nothing when that is the identity
///   Transpose that moves only 1s        -> Reshape
///   Expand(x), x of that very shape     -> x
///   Add(Expand(x), y), y spans it       -> Add(x, y), where operands broadcast both ways;
///                                       structural zeros (weft::Zeros) likewise become one zero
///   Split(x) into unequal parts         -> a Slice each, which fuse with what reads them
#include <algorithm>

#include "build.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/op/rewrite_rule.h"
#include "weft/core/tensor/demand.h"

namespace weft::simplify {
namespace {

/// Does the target of a Reshape say the same whatever the shape of its operand? A -1 asks for the
/// number of elements, which views do not change; a 0 copies an extent of the operand.
bool TargetIsAbsolute(RewriteContext& ctx, const NodePtr& n) {
  if (n->attr<int64_t>("allowzero") == 1) return ctx.shape(NodeEntry(n)).fully_known();
  const SymTensorPtr target = ctx.value(n->inputs[1]);
  return target && target->is_const() &&
         std::none_of(target->elements.begin(), target->elements.end(),
                      [](SymInt e) { return e.is(0); });
}

std::vector<NodeEntry> ReshapeChain(RewriteContext& ctx, const NodePtr& n) {
  if (ctx.same_shape(n->inputs[0], NodeEntry(n))) return {n->inputs[0]};
  static const auto& is_view = Op::GetAttr<TIsView>("TIsView");
  const NodeEntry inner = n->inputs[0];
  if (inner.index != 0 || !is_view.get(inner.node->op(), false) || !TargetIsAbsolute(ctx, n))
    return {};
  const NodeEntry& source = inner.node->inputs[0];
  const SymTensorPtr target = ctx.value(n->inputs[1]);
  if (target && CutsTie(target->elements, ctx.shape(source))) return {};
  return {AddOp(ctx, "Reshape", {source, n->inputs[1]}, n->attrs.dict)};
}
WEFT_REGISTER_REWRITE_RULE("reshape-chain")
    .group("chains")
    .root("Reshape")
    .describe("Reshape of a view, Reshape to the same shape")
    .apply(ReshapeChain);

std::vector<NodeEntry> TransposeChain(RewriteContext& ctx, const NodePtr& n) {
  const Shape& in = ctx.shape(n->inputs[0]);
  const NodePtr inner = n->inputs[0].node;
  const bool twice = IsOp(inner, "Transpose");
  int rank = in.has_rank() ? in.rank() : int(GivenPerm(n).size());
  if (rank == 0 && twice) rank = int(GivenPerm(inner).size());
  if (rank == 0 && !in.has_rank())  // both reverse, however many axes there are
    return twice ? std::vector<NodeEntry>{inner->inputs[0]} : std::vector<NodeEntry>();
  const Ints q = TransposePerm(n, rank);
  if (IsIdentityPerm(q)) return {n->inputs[0]};
  if (twice) {
    const Ints p = TransposePerm(inner, rank);
    Ints both;
    for (int64_t k : q) both.push_back(p[size_t(k)]);
    if (IsIdentityPerm(both)) return {inner->inputs[0]};
    return {AddOp(ctx, "Transpose", {inner->inputs[0]}, {{"perm", both}})};
  }
  if (!in.has_rank()) return {};
  // The order of the extents that are not 1 decides where elements go.
  int64_t last = -1;
  for (int64_t k : q) {
    if (in[int(k)].is(1)) continue;
    if (k < last) return {};
    last = k;
  }
  const Shape& out = ctx.shape(NodeEntry(n));
  if (!out.fully_known()) return {};
  return {ReshapeTo(ctx.graph(), n->inputs[0], out.dims())};
}
WEFT_REGISTER_REWRITE_RULE("transpose-chain")
    .group("chains")
    .root("Transpose")
    .describe("Transpose of Transpose, Transpose that moves nothing")
    .apply(TransposeChain);

std::vector<NodeEntry> ExpandIdentity(RewriteContext& ctx, const NodePtr& n) {
  if (!ctx.same_shape(n->inputs[0], NodeEntry(n))) return {};
  return {n->inputs[0]};
}
WEFT_REGISTER_REWRITE_RULE("expand-identity")
    .group("chains")
    .root("Expand")
    .describe("Expand to the same shape")
    .apply(ExpandIdentity);

/// Do the operands of the operator broadcast against each other?
bool Broadcasts(const Op* op) {
  static const auto& codegen = Op::GetAttr<FCodeGen>("FCodeGen");
  static const auto& infer = Op::GetAttr<FInferShape>("FInferShape");
  static const auto& broadcasts = Op::GetAttr<TBroadcasts>("TBroadcasts");
  const FCodeGen* code = codegen.find(op);
  return code && code->elementwise && broadcasts.get(op, !infer.find(op));
}

/// An operand that is expanded to what broadcasting gives anyway.
std::vector<NodeEntry> ExpandBeforeBroadcast(RewriteContext& ctx, const NodePtr& n) {
  if (n->num_outputs() != 1 || !Broadcasts(n->op())) return {};
  const Shape& out = ctx.shape(NodeEntry(n));
  if (!out.fully_known()) return {};
  std::vector<NodeEntry> inputs = n->inputs;
  std::vector<Shape> shapes;
  for (const NodeEntry& e : inputs) shapes.push_back(e.node ? ctx.shape(e) : Shape::Scalar());
  bool changed = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const NodeEntry e = inputs[i];
    const Shape whole = shapes[i];
    const bool zeros = IsOp(e.node, builtin::kZeros) && whole.has_rank() && whole.rank() > 0;
    if (!zeros && !IsOp(e.node, "Expand")) continue;
    shapes[i] = zeros ? Shape::Scalar() : ctx.shape(e.node->inputs[0]);
    Shape s = shapes[0];
    for (size_t k = 1; k < shapes.size(); ++k) s = BroadcastShapes(s, shapes[k], &ctx.facts());
    if (!ProvedSame(s, out, ctx.facts())) {
      shapes[i] = whole;
      continue;
    }
    changed = true;
    inputs[i] = zeros ? NodeEntry(ctx.graph().AddNode(
                            builtin::kZeros, {ExtentVector(ctx.graph(), {})}, e.node->attrs.dict))
                      : e.node->inputs[0];
  }
  if (!changed) return {};
  return {AddOp(ctx, n->op()->name, inputs, n->attrs.dict)};
}
WEFT_REGISTER_REWRITE_RULE("expand-before-broadcast")
    .group("chains")
    .any_root()
    .describe("Expand that broadcasting does by itself")
    .apply(ExpandBeforeBroadcast);

std::vector<NodeEntry> UnequalSplit(RewriteContext& ctx, const NodePtr& n) {
  if (n->num_outputs() < 2) return {};
  const Shape& in = ctx.shape(n->inputs[0]);
  if (!in.has_rank()) return {};
  const int axis = NormalizeAxis(n->attr<int64_t>("axis"), in.rank());
  bool equal = true;
  for (uint32_t k = 0; k < n->num_outputs(); ++k) {
    const Shape& out = ctx.shape(NodeEntry(n, k));
    if (!out.fully_known() || CutsTie(out.dims(), in)) return {};
    equal = equal && out[axis] == ctx.shape(NodeEntry(n))[axis];
  }
  if (equal) return {};
  auto vector = [&](SymInt v) { return ExtentVector(ctx.graph(), {v}); };
  const NodeEntry axes = vector(axis);
  std::vector<NodeEntry> parts;
  SymInt begin = 0;
  for (uint32_t k = 0; k < n->num_outputs(); ++k) {
    const SymInt end = begin + ctx.shape(NodeEntry(n, k))[axis];
    parts.push_back(AddOp(ctx, "Slice", {n->inputs[0], vector(begin), vector(end), axes}));
    begin = end;
  }
  return parts;
}
WEFT_REGISTER_REWRITE_RULE("unequal-split")
    .group("chains")
    .root("Split")
    .describe("Split into unequal parts made Slices")
    .apply(UnequalSplit);

}  // namespace
}  // namespace weft::simplify
