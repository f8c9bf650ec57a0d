/// zeros.cc: structural zeros (weft::Zeros) and the terms of gradients.
///   Add(x, 0), Sub(x, 0), Sum(.., 0, ..)  -> without the zeros
///   Sub(0, x)                             -> Neg(x)
///   Mul(0, x), Div(0, x), MatMul(0, x)    -> 0
///   f(0), f linear: a movement, a sum, a cast; Where(c, 0, 0)   -> 0
///   Add(Where(c, a, 0), Where(c, 0, b))   -> Where(c, a, b): masks that complement each other
///   Mul(Expand(1), x), Div(x, Expand(1))  -> x, expanded where it was
///   Neg(Expand(1)), of scalars only       -> Expand(Neg(1))
///   Add(a, Neg(b))                        -> Sub(a, b);  Sub(a, Neg(b)) -> Add(a, b)
///
/// "0" is a structural zero, but for the masks, where any zero is: a sum with +0 in place of the -0
/// in a or b is the one difference.
#include <algorithm>

#include "build.h"
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/gradient/gradient.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/graph/repeatable.h"
#include "weft/core/op/op.h"
#include "weft/core/op/rewrite_rule.h"

namespace weft::simplify {
namespace {

bool IsZeros(const NodeEntry& e) { return IsOp(e.node, builtin::kZeros); }

/// Structural zeros in place of output 0 of n; null where its shape is not known.
NodeEntry ZerosFor(RewriteContext& ctx, const NodePtr& n) {
  const Shape& out = ctx.shape(NodeEntry(n));
  const DType t = ctx.dtype(NodeEntry(n));
  if (!out.fully_known() || !IsFloat(t)) return {};
  return AddOp(ctx, builtin::kZeros, {ExtentVector(ctx.graph(), out.dims())}, {{"dtype", t}});
}
std::vector<NodeEntry> Result(const NodeEntry& e) {
  return e ? std::vector<NodeEntry>{e} : std::vector<NodeEntry>();
}

std::vector<NodeEntry> ZeroTerm(RewriteContext& ctx, const NodePtr& n) {
  const bool minus = IsOp(n, "Sub");
  if (std::none_of(n->inputs.begin(), n->inputs.end(), IsZeros)) return {};
  std::vector<NodeEntry> terms;
  bool whole = false;  // some term has the shape of the sum
  for (const NodeEntry& e : n->inputs) {
    if (IsZeros(e)) continue;
    terms.push_back(e);
    whole = whole || ctx.same_shape(e, NodeEntry(n));
  }
  if (terms.empty()) return Result(ZerosFor(ctx, n));
  if (!whole) return {};
  if (minus) return {IsZeros(n->inputs[0]) ? ApplyOp("Neg", {terms[0]}) : terms[0]};
  if (terms.size() == 1) return {terms[0]};
  return {AddOp(ctx, n->op()->name, terms, n->attrs.dict)};
}
WEFT_REGISTER_REWRITE_RULE("zero-term")
    .group("zeros")
    .root("Add", "Sub", "Sum")
    .describe("structural zeros dropped from sums")
    .apply(ZeroTerm);

std::vector<NodeEntry> ZeroFactor(RewriteContext& ctx, const NodePtr& n) {
  if (!IsZeros(n->inputs[0]) && (IsOp(n, "Div") || !IsZeros(n->inputs[1]))) return {};
  return Result(ZerosFor(ctx, n));
}
WEFT_REGISTER_REWRITE_RULE("zero-factor")
    .group("zeros")
    .root("Mul", "Div", "MatMul")
    .describe("products that a structural zero decides")
    .apply(ZeroFactor);

std::vector<NodeEntry> ZeroThrough(RewriteContext& ctx, const NodePtr& n) {
  if (n->num_outputs() != 1 || n->num_inputs() == 0) return {};
  if (IsOp(n, "Where")) {
    if (!IsZeros(n->inputs[1]) || !IsZeros(n->inputs[2])) return {};
  } else if (!IsZeros(n->inputs[0])) {
    return {};
  }
  return Result(ZerosFor(ctx, n));
}
// Where, and operators that are linear in their first operand and do not add anything.
WEFT_REGISTER_REWRITE_RULE("zero-through")
    .group("zeros")
    .root("Where", "Cast", "CastLike", "Expand", "Gather", "GatherElements", "GatherND", "Identity",
          "Neg", "ReduceMean", "ReduceSum", "Reshape", "Slice", "Squeeze", "Tile", "Transpose",
          "Unsqueeze", "weft::SumTo")
    .describe("linear operators of structural zeros")
    .apply(ZeroThrough);

/// Any zero: the structural one, or a constant whose elements are all 0.
bool IsAnyZero(RewriteContext& ctx, const NodeEntry& e) {
  if (IsZeros(e)) return true;
  const TensorPtr t = ctx.constant(e);
  constexpr int64_t kMaxLooked = 64;  // a mask's other branch is a scalar
  if (!t || !IsFloat(t->dtype()) || t->num_elements() == 0 || t->num_elements() > kMaxLooked)
    return false;
  for (int64_t i = 0; i < t->num_elements(); ++i)
    if (t->at(i) != 0) return false;
  return true;
}

std::vector<NodeEntry> MaskSum(RewriteContext& ctx, const NodePtr& n) {
  const NodePtr p = n->inputs[0].node, q = n->inputs[1].node;
  if (!IsOp(p, "Where") || !IsOp(q, "Where") || p == q || p->inputs[0] != q->inputs[0]) return {};
  // Neither sum may be spread by the zero that goes.
  if (!ctx.same_shape(NodeEntry(p), NodeEntry(n)) || !ctx.same_shape(NodeEntry(q), NodeEntry(n)))
    return {};
  for (const auto& [a, b] : {std::pair(p, q), std::pair(q, p)}) {
    if (!IsAnyZero(ctx, a->inputs[2]) || !IsAnyZero(ctx, b->inputs[1])) continue;
    const NodeEntry where = AddOp(ctx, "Where", {a->inputs[0], a->inputs[1], b->inputs[2]});
    Shape s = ctx.shape(a->inputs[0]);
    for (const NodeEntry& e : {a->inputs[1], b->inputs[2]})
      s = BroadcastShapes(s, ctx.shape(e), &ctx.facts());
    if (ProvedSame(s, ctx.shape(NodeEntry(n)), ctx.facts())) return {where};
  }
  return {};
}
WEFT_REGISTER_REWRITE_RULE("mask-sum")
    .group("zeros")
    .root("Add")
    .describe("sums of two complementary masks made one choice")
    .apply(MaskSum);

/// The scalar constant that e spreads, null where it is none.
NodeEntry SpreadScalar(RewriteContext& ctx, const NodeEntry& e) {
  if (!IsOp(e.node, "Expand")) return {};
  const NodeEntry c = e.node->inputs[0];
  const TensorPtr t = ctx.constant(c);
  return t && t->rank() == 0 ? c : NodeEntry();
}

std::vector<NodeEntry> UnitFactor(RewriteContext& ctx, const NodePtr& n) {
  if (!ctx.shape(NodeEntry(n)).fully_known()) return {};
  for (size_t i = IsOp(n, "Mul") ? 0 : 1; i < 2; ++i) {
    const NodeEntry c = SpreadScalar(ctx, n->inputs[i]);
    if (!c || ctx.constant(c)->at(0) != 1) continue;
    const NodeEntry x = n->inputs[1 - i];
    return {ctx.same_shape(x, NodeEntry(n)) ? x : ExpandTo(ctx, x, n)};
  }
  return {};
}
WEFT_REGISTER_REWRITE_RULE("unit-factor")
    .group("zeros")
    .root("Mul", "Div")
    .describe("products with spread ones")
    .apply(UnitFactor);

std::vector<NodeEntry> ScalarBeforeExpand(RewriteContext& ctx, const NodePtr& n) {
  static const auto& codegen = Op::GetAttr<FCodeGen>("FCodeGen");
  const FCodeGen* code = codegen.find(n->op());
  if (!code || !code->elementwise || n->num_outputs() != 1 || !IsRepeatable(n) ||
      !ctx.shape(NodeEntry(n)).fully_known())
    return {};
  std::vector<NodeEntry> inputs = n->inputs;
  bool spread = false;
  for (NodeEntry& e : inputs) {
    if (!e.node) continue;
    if (const NodeEntry c = SpreadScalar(ctx, e)) {
      e = c;
      spread = true;
    } else if (const TensorPtr t = ctx.constant(e); !t || t->rank() != 0) {
      return {};
    }
  }
  if (!spread) return {};
  return {ExpandTo(ctx, NodeEntry(ctx.graph().AddNode(n->op(), inputs, n->attrs.dict)), n)};
}
WEFT_REGISTER_REWRITE_RULE("scalar-before-expand")
    .group("zeros")
    .any_root()
    .describe("element-wise operators of spread scalars done on the scalar")
    .apply(ScalarBeforeExpand);

std::vector<NodeEntry> NegTerm(RewriteContext& ctx, const NodePtr& n) {
  const bool plus = IsOp(n, "Add");
  if (!IsFloat(ctx.dtype(NodeEntry(n)))) return {};
  const NodeEntry a = n->inputs[0], b = n->inputs[1];
  if (IsOp(b.node, "Neg")) return {AddOp(ctx, plus ? "Sub" : "Add", {a, b.node->inputs[0]})};
  if (plus && IsOp(a.node, "Neg")) return {AddOp(ctx, "Sub", {b, a.node->inputs[0]})};
  return {};
}
WEFT_REGISTER_REWRITE_RULE("neg-term")
    .group("zeros")
    .root("Add", "Sub")
    .describe("sums with a negated term made differences, and back")
    .apply(NegTerm);

}  // namespace
}  // namespace weft::simplify
