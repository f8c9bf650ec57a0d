/// where.cc: Where, element by element choice.
///
/// A NaN that the branch not taken makes is not masked in gradients.
#include "ops/util/op_util.h"

namespace weft::ops {
namespace {

void WhereType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kBoolOnly);
  if (!ctx.in(0).known()) ctx.set_in(0, DType::kBool);
  const Type t = CommonInputType(ctx, kAllTypes, 1, 3);
  if (t.known()) ctx.set_out(0, t);
}
SymInt WhereValue(const std::vector<SymInt>& x, const ValueArgs& args) {
  if (x[0].is(1)) return x[1];
  if (x[0].is(0)) return x[2];
  return x[1].known() && x[2].known() && args.facts.ProvedEqual(x[1], x[2]) ? x[1] : SymInt();
}
Exprs WhereCode(const NodePtr&, const Exprs& x) { return {Expr::Select(x[0], x[1], x[2])}; }

std::vector<NodeEntry> WhereGradient(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  if (!dys.at(0)) return NoGradient(n, dys);
  const NodeEntry c = n->inputs[0], dy = dys[0], zero = ScalarOf(dy, 0);
  return {NodeEntry(), ReduceLike(ApplyOp("Where", {c, dy, zero}), n->inputs[1]),
          ReduceLike(ApplyOp("Where", {c, zero, dy}), n->inputs[2])};
}

/// Where(true, x, y) = x; Where(false, x, y) = y; Where(c, x, x) = x; Where(Not(c), x, y) =
/// Where(c, y, x).
std::vector<NodeEntry> SimplifyWhere(RewriteContext& ctx, const NodePtr& n) {
  const NodeEntry c = n->inputs[0], x = n->inputs[1], y = n->inputs[2];
  if (x == y || IsUniform(ctx, c, 1)) {
    if (auto r = ReplaceIfSame(ctx, n, x); !r.empty()) return r;
  }
  if (IsUniform(ctx, c, 0)) {
    if (auto r = ReplaceIfSame(ctx, n, y); !r.empty()) return r;
  }
  if (IsOp(c.node, "Not")) {
    return {NodeEntry(ctx.graph().AddNode(n->op(), {c.node->inputs[0], y, x}))};
  }
  return {};
}

}  // namespace

WEFT_REGISTER_OP(Where)
    .describe(
        "out = condition ? x : y. Gradient: dx = SumTo(Where(condition, dout, 0), x), dy = "
        "SumTo(Where(condition, 0, "
        "dout), y); retains the condition. Source: ONNX Where-16.")
    .input("condition", "bool")
    .input("x", TypeDoc(kAllTypes), "numpy broadcasting of all three inputs")
    .input("y", "T")
    .output("out", "T", "the broadcast shape")
    .param<NoParam>()
    .include("ElementwiseVariadic")
    .set_attr<FInferType>("FInferType", WhereType)
    .set_attr<FInferShape>("FInferShape", BroadcastShapeAndValue(WhereValue))
    .set_attr<FInplace>("FInplace", InplaceOf({1, 2}))
    .set_attr<FCodeGen>("FCodeGen", WhereCode)
    .set_attr<FGradient>("FGradient", WhereGradient)
    .set_attr<FSimplify>("FSimplify", SimplifyWhere)
    .example({"bool[2, n, 3]", "f32[2, n, 3]", "f32[2, n, 3]"})
    .example({"bool[3]", "f32[m, 1, 1]", "f32[4, 1]"})
    .example({"bool[]", "f64[]", "f64[2]"})
    .example({"bool[4]", "i64[4]", "i64[]"})
    .set_attr<TMovesElements>("TMovesElements", true);

}  // namespace weft::ops
