/// row_dot.cc: weft::RowDot, scalar products of the rows of two matrices.
///
///   in      a, b : T[m, k]
///   out     y : T[m], y[i] = sum of a[i, j] b[i, j] over j
///   T       f16, bf16, f32, f64; 16-bit types are summed in f32
///   grad    da = dy b, db = dy a, dy spread over the rows; retains a and b
///   throws  kShapeMismatch for other ranks or unequal dimensions
///
/// Source: Weft, as an example. A library computes it; its definition below is what the call is
/// tested by.
#include "ops/util/op_util.h"
#include "ops/util/shape_util.h"

namespace weft::ops {
namespace {

void RowDotType(InferTypeContext& ctx) {
  const Type t = CommonInputType(ctx, kFloats);
  if (t.known()) ctx.set_out(0, t);
}

void RowDotShape(InferShapeContext& ctx) {
  if (!CheckRank(ctx, 0, 2, "a") || !CheckRank(ctx, 1, 2, "b")) return;
  const Shape &a = ctx.in(0), &b = ctx.in(1);
  UnifyDims(ctx, a[1], b[1], "the length of a row");
  ctx.set_out(0, Shape({UnifyDims(ctx, a[0], b[0], "the number of rows")}));
}

Exprs RowDotCode(const NodePtr&, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &a = in[0], &b = in[1];
  const DType t = AccumulatorOf(a.dtype);
  return {Expr::Cast(a.dtype, Expr::Reduce(ReduceOp::kSum, {a.shape[1]}, [&](const Indices& r) {
                       const Indices from{at(0)[0], r[0]};
                       return Expr::Cast(t, a(from)) * Expr::Cast(t, b(from));
                     }))};
}

std::vector<NodeEntry> RowDotGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  if (!dys[0]) return {NodeEntry(), NodeEntry()};
  const NodeEntry dy = ApplyOp("Unsqueeze", {dys[0], IntsLike(dys[0], {1})});
  return {dy * n->inputs[1], dy * n->inputs[0]};
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, RowDot)
    .describe(
        "y[i] = sum of a[i, j] b[i, j] over j. Gradient: da = dy b, db = dy a; retains a and b. "
        "Errors: unequal dimensions (kShapeMismatch).")
    .input("a", TypeDoc(kFloats), "[m, k]")
    .input("b", "T", "[m, k]")
    .output("y", "T", "[m]")
    .param<NoParam>()
    .set_attr<FInferType>("FInferType", RowDotType)
    .set_attr<FInferShape>("FInferShape", RowDotShape)
    .set_attr<FCodeGen>("FCodeGen", RowDotCode)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .set_attr<FGradient>("FGradient", RowDotGrad)
    .example({"f32[3, 4]", "f32[3, 4]"})
    .example({"f64[n, 2]", "f64[n, 2]"});

}  // namespace weft::ops
