/// affine_grid.cc: AffineGrid: the grid of coordinates that GridSample reads, from affine maps of
/// two or three dimensions.
///
///   formula grid[n, o] = theta[n] (x, y(, z), 1), each coordinate of o in [-1, 1]: centers of the
///           outermost elements at -1 and 1 with align_corners (0 for an extent of 1), else their
///           outer edges
#include "ops/util/shape_util.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct AffineGridParam : OpParam<AffineGridParam> {
  int64_t align_corners;
  WEFT_OP_PARAM(AffineGridParam) {
    WEFT_FIELD(align_corners)
        .set_default(0)
        .set_range(0, 1)
        .describe("1: -1 and 1 are the centers of the outermost elements, 0: their outer edges");
  }
};
WEFT_REGISTER_OP_PARAM(AffineGridParam);

void AffineGridShape(InferShapeContext& ctx) {
  const NodePtr& n = ctx.node();
  const auto length = VectorLength(ctx, 1);
  int axes = length ? int(*length) - 2 : -1;
  const bool known = CheckRank(ctx, 0, 3, "theta");
  if (axes < 0 && known && ctx.in(0)[1].known() && ctx.in(0)[1].is_const())
    axes = int(ctx.in(0)[1].value());
  if (axes < 0) return Unknown(ctx, 0, "the length of size is unknown");
  WEFT_CHECK(axes == 2 || axes == 3, kShapeMismatch, "{}: {} spatial axes, 2 or 3 are expected",
             n->Describe(), axes);
  const Shape size = ShapeFromInput(ctx, 1);
  std::vector<SymInt> dims{size.has_rank() ? size[0] : SymInt()};
  if (known) {
    dims[0] = UnifyDims(ctx, dims[0], ctx.in(0)[0], "the batch");
    UnifyDims(ctx, ctx.in(0)[1], axes, "the rows of theta");
    UnifyDims(ctx, ctx.in(0)[2], axes + 1, "the columns of theta");
  }
  for (int k = 0; k < axes; ++k) dims.push_back(size.has_rank() ? size[k + 2] : SymInt());
  dims.push_back(axes);
  ctx.set_out(0, Shape(std::move(dims)));
}

Exprs AffineGridCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& theta = in[0];
  const DType t = AccumulatorOf(theta.dtype);
  const int axes = at.shape[0].rank() - 2;
  const bool align = ParamOf<AffineGridParam>(n).align_corners != 0;
  const auto map = [&](int column) {
    return Expr::Cast(t, theta({at(0)[0], at(0)[size_t(axes) + 1], Expr::Int(column)}));
  };
  Expr y;
  for (int k = 0; k < axes; ++k) {
    const int axis = axes - k;  // x is the last one
    const Expr i = Expr::Cast(t, at(0)[size_t(axis)]),
               extent = Expr::Cast(t, Expr::Dim(at.shape[0][axis])), one = Expr::Const(t, 1);
    const Expr c = align ? Expr::Select(Lt(one, extent), i * 2.0 / (extent - one) - one, Zero(t))
                         : (i * 2.0 + one) / extent - one;
    const Expr e = map(k) * c;
    y = y ? y + e : e;
  }
  return {Expr::Cast(theta.dtype, y + map(axes))};
}

/// grid = theta (p, 1) with the coordinates p of every position, which the op itself gives for the
/// map [I, 0]:   dtheta = dy^T (p, 1)
std::vector<NodeEntry> AffineGridGrad(const NodePtr& n, const std::vector<NodeEntry>& dys) {
  if (!dys[0]) return {NodeEntry(), NodeEntry()};
  const NodeEntry theta = n->inputs[0], zero = ConstantLike(theta, Tensor::Scalar(DType::kI64, 0));
  const NodeEntry unit =
      ExpandLike(ApplyOp("EyeLike", {ApplyOp("Gather", {theta, zero}, {{"axis", 0}})}), theta);
  const NodeEntry points =
      ApplyOp("AffineGrid", {ApplyOp("CastLike", {unit, theta}), n->inputs[1]}, AttrsOf(n));
  const NodeEntry flat =
      ApplyOp("Concat",
              {ApplyOp("Shape", {theta}, {{"start", 0}, {"end", 1}}), IntsLike(theta, {-1}),
               ApplyOp("Shape", {theta}, {{"start", 1}, {"end", 2}})},
              {{"axis", 0}});
  const NodeEntry padded =
      ApplyOp("Pad", {ApplyOp("Reshape", {points, flat}), IntsLike(theta, {0, 0, 0, 0, 0, 1}),
                      ScalarOf(theta, 1)});
  const NodeEntry dy =
      ApplyOp("Transpose", {ApplyOp("Reshape", {dys[0], flat})}, {{"perm", Ints{0, 2, 1}}});
  return {ApplyOp("MatMul", {dy, padded}), NodeEntry()};
}

}  // namespace

WEFT_REGISTER_OP(AffineGrid)
    .describe(
        "grid[n, o] = theta[n] (x, y(, z), 1) with the coordinates of position o in [-1, 1], for "
        "GridSample.\n"
        "f16 and bf16 compute in f32. Gradient: by theta, ordinary ops. Errors: neither 2 nor 3 "
        "spatial axes, theta of other dimensions (kShapeMismatch). Source: ONNX AffineGrid-20.")
    .input("theta", TypeDoc(kFloats), "[n, r, r + 1]")
    .input("size", "i64", "n, c and r dimensions")
    .output("grid", "T", "[n, dimensions..., r]")
    .param<AffineGridParam>()
    .example({"f32[2, 2, 3]", "i64[4] = [2, 3, 4, 5]"})
    .example({"f32[1, 3, 4]", "i64[5] = [1, 1, 2, 1, 3]"}, "align_corners = 1")
    .set_attr<FInferType>("FInferType", TypeOfDataInput(kFloats, {1}))
    .set_attr<FInferShape>("FInferShape", AffineGridShape)
    .set_attr<TSizeOperands>("TSizeOperands", {1})
    .set_attr<FCodeGen>("FCodeGen", AffineGridCode)
    .set_attr<FGradient>("FGradient", AffineGridGrad);

}  // namespace weft::ops
