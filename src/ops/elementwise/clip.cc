/// clip.cc: Clip, min(max(x, lo), hi).
/// NaN in x or a bound stays NaN.
#include "ops/util/op_util.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

bool HasInput(const NodePtr& n, size_t i) { return n->inputs.size() > i && n->inputs[i]; }

void ClipShape(InferShapeContext& ctx) {
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    if (!ctx.has_input(i) || !ctx.in(i).has_rank()) continue;
    // Older models hold bounds of shape [1]; those broadcast to any x but a scalar.
    const Shape& s = ctx.in(i);
    const bool scalar = s.rank() == 0 || (s.rank() == 1 && s[0].is(1) &&
                                          !(ctx.in(0).has_rank() && ctx.in(0).rank() == 0));
    WEFT_CHECK(scalar, kShapeMismatch, "{}: bound {} must be a scalar, its shape is {}",
               ctx.node()->Describe(), i == 1 ? "min" : "max", s.ToString());
  }
  UnaryShape(ctx);
  ElementwiseValue(ctx, [](const std::vector<SymInt>& x, const ValueArgs& args) {
    SymInt y = x[0];
    if (HasInput(args.node, 1)) y = Max(y, x[1]);
    if (HasInput(args.node, 2)) y = Min(y, x[2]);
    return y;
  });
}

Exprs ClipCode(const NodePtr& n, const Exprs& x) {
  Expr y = x[0];
  if (HasInput(n, 1)) y = Max(y, x[1]);
  if (HasInput(n, 2)) y = Min(y, x[2]);
  return {y};  // extrema of f16 are f16: no wider arithmetic
}

std::vector<NodeEntry> ClipGradient(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  std::vector<NodeEntry> grads(n->inputs.size());
  if (!dys.at(0)) return grads;
  const NodeEntry x = n->inputs[0], dy = dys[0];
  const auto both = [](const char* op, const NodeEntry& a, const NodeEntry& b) {
    return a && b ? ApplyOp(op, {a, b}) : a ? a : b;
  };
  NodeEntry above_lo, below_hi, below_lo, above_hi, ordered, crossed;
  if (HasInput(n, 1)) {
    above_lo = ApplyOp("GreaterOrEqual", {x, n->inputs[1]});
    below_lo = ApplyOp("Less", {x, n->inputs[1]});
  }
  if (HasInput(n, 2)) {
    below_hi = ApplyOp("LessOrEqual", {x, n->inputs[2]});
    above_hi = ApplyOp("Greater", {x, n->inputs[2]});
  }
  if (HasInput(n, 1) && HasInput(n, 2)) {
    ordered = ApplyOp("Less", {n->inputs[1], n->inputs[2]});
    crossed = ApplyOp("Less", {n->inputs[2], n->inputs[1]});
  }
  const NodeEntry inside = both("And", above_lo, below_hi);
  grads[0] = inside ? MaskedGrad(inside, dy) : dy;
  if (HasInput(n, 1))
    grads[1] = ReduceLike(MaskedGrad(both("And", below_lo, ordered), dy), n->inputs[1]);
  if (HasInput(n, 2))
    grads[2] = ReduceLike(MaskedGrad(both("Or", above_hi, crossed), dy), n->inputs[2]);
  return grads;
}

/// No bounds: x.
std::vector<NodeEntry> SimplifyClip(RewriteContext&, const NodePtr& n) {
  if (HasInput(n, 1) || HasInput(n, 2)) return {};
  return {n->inputs[0]};
}

}  // namespace

WEFT_REGISTER_OP(Clip)
    .describe(
        "y = min(max(x, min), max), each bound optional; where min > max, y = max. Gradient: dx = "
        "dy where min <= x <= "
        "max, else 0; dmin = sum of dy where x < min < max; dmax = sum of dy where x > max or max "
        "< min; retains x and "
        "the bounds. Errors: a bound of several elements (kShapeMismatch). Source: ONNX Clip-13.")
    .input("x", TypeDoc(kNumeric))
    .optional_input("min", "T", "scalar; absent: no lower bound")
    .optional_input("max", "T", "scalar; absent: no upper bound")
    .output("y", "T", "the shape of x")
    .param<NoParam>()
    .include("ElementwiseUnary")
    .set_attr<FInferType>("FInferType", SameType(kNumeric))
    .set_attr<FInferShape>("FInferShape", ClipShape)
    .set_attr<FCodeGen>("FCodeGen", ClipCode)
    .set_attr<FGradient>("FGradient", ClipGradient)
    .set_attr<FSimplify>("FSimplify", SimplifyClip)
    .example({"f32[2, n, 3]", "f32[] = [-0.5]", "f32[] = [0.5]"})
    .example({"f32[2, n, 3]", "_", "f32[] = [0.5]"})
    .example({"f64[]", "f64[]", "f64[]"})
    .example({"i32[4]", "i32[] = [0]"})
    .example({"f16[m]"});

}  // namespace weft::ops
