/// max_roi_pool.cc: MaxRoiPool: the maximum of an image over each of a fixed number of bins of a
/// region.
///
///   formula the corners x1, y1, x2, y2 times spatial_scale, rounded away from zero at ties, bound
///           a region of whole elements, at least one each way. Bin i of p of an extent e covers
///           [floor(i e / p), ceil((i + 1) e / p)) of it, cut to the image; an empty one gives 0
///   grad    none: RoiAlign took its place in networks that are trained
///
/// The extent of a bin depends on the data: the maximum runs over as many elements as the image
/// has, and those outside the bin are not read.
#include <limits>

#include "ops/util/shape_util.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct MaxRoiPoolParam : OpParam<MaxRoiPoolParam> {
  Ints pooled_shape;
  double spatial_scale;
  WEFT_OP_PARAM(MaxRoiPoolParam) {
    WEFT_FIELD(pooled_shape).describe("bins, vertically and horizontally");
    WEFT_FIELD(spatial_scale).set_default(1).describe("from coordinates of rois to those of X");
  }
};
WEFT_REGISTER_OP_PARAM(MaxRoiPoolParam);

void MaxRoiPoolShape(InferShapeContext& ctx) {
  const auto& bins = ParamOf<MaxRoiPoolParam>(ctx.node()).pooled_shape;
  WEFT_CHECK(bins.size() == 2 && bins[0] > 0 && bins[1] > 0, kBadAttribute,
             "{}: pooled_shape must hold two positive numbers", ctx.node()->Describe());
  SymInt regions, channels;
  if (CheckRank(ctx, 0, 4, "X")) channels = ctx.in(0)[1];
  if (CheckRank(ctx, 1, 2, "rois")) {
    regions = ctx.in(1)[0];
    UnifyDims(ctx, ctx.in(1)[1], 5, "the numbers of a region and 5");
  }
  ctx.set_out(0, Shape({regions, channels, bins[0], bins[1]}));
}

/// To the nearest integer, ties away from zero.
Expr RoundAway(const Expr& x) {
  const Expr whole = Expr::Unary(UnOp::kTrunc, x), zero = Zero(x->dtype());
  const Expr step = Expr::Select(Lt(x, zero), ConstOf(x, -1), ConstOf(x, 1));
  const Expr far = Le(ConstOf(x, 0.5), Expr::Unary(UnOp::kAbs, x - whole));
  return Expr::Select(far, whole + step, whole);
}

/// Elements [begin, end) of one axis of one bin.
struct BinRange {
  Expr begin, end;
};
BinRange RangeOf(const MaxRoiPoolParam& p, const TensorArg& rois, const Expr& region, int axis,
                 const Expr& extent, const Expr& bin, DType t) {
  const auto corner = [&](int64_t k) {
    const Expr at = Expr::Cast(t, rois({region, Expr::Int(k)})) * p.spatial_scale;
    return Expr::Cast(DType::kI64, RoundAway(at));
  };
  const Expr start = corner(axis == 0 ? 2 : 1), last = corner(axis == 0 ? 4 : 3);
  const Expr size = Expr::Cast(t, Max(last - start + Expr::Int(1), Expr::Int(1))) /
                    double(p.pooled_shape[size_t(axis)]);
  const Expr i = Expr::Cast(t, bin);
  const auto inside = [&](UnOp round, const Expr& edge) {
    const Expr at = start + Expr::Cast(DType::kI64, Expr::Unary(round, edge));
    return Min(Max(at, Expr::Int(0)), extent);
  };
  return {inside(UnOp::kFloor, i * size), inside(UnOp::kCeil, (i + 1.0) * size)};
}

Exprs MaxRoiPoolCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<MaxRoiPoolParam>(n);
  const TensorArg &x = in[0], &rois = in[1];
  const DType t = AccumulatorOf(x.dtype);
  const Expr region = at(0)[0], channel = at(0)[1];
  const Expr image = Expr::Cast(DType::kI64, rois({region, Expr::Int(0)}));
  const BinRange rows = RangeOf(p, rois, region, 0, x.dim(2), at(0)[2], t),
                 columns = RangeOf(p, rois, region, 1, x.dim(3), at(0)[3], t);
  const Expr lowest = Expr::Const(x.dtype, -std::numeric_limits<double>::infinity());
  const Expr most = Expr::Reduce(ReduceOp::kMax, {x.shape[2], x.shape[3]}, [&](const Indices& r) {
    const Expr i = rows.begin + r[0], j = columns.begin + r[1];
    return ReadWhere(And(Lt(i, rows.end), Lt(j, columns.end)), x({image, channel, i, j}), lowest);
  });
  const Expr any = And(Lt(rows.begin, rows.end), Lt(columns.begin, columns.end));
  return {Expr::Select(any, most, Zero(x.dtype))};
}

}  // namespace

WEFT_REGISTER_OP(MaxRoiPool)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .describe(
        "Y[r, c, i, j] = the maximum over bin (i, j) of region r of image rois[r, 0]; 0 where the "
        "bin is empty.\n"
        "f16 and bf16 compute positions in f32. Gradient: none. Errors: ranks or dimensions that "
        "do not fit (kShapeMismatch), an index outside the batch (kIndexRange). Source: ONNX "
        "MaxRoiPool-22.")
    .input("X", TypeDoc(kFloats), "[n, c, h, w]")
    .input("rois", "T", "[m, 5], image, x1, y1, x2, y2")
    .output("Y", "T", "[m, c, pooled_shape...]")
    .param<MaxRoiPoolParam>()
    .example({"f32[1, 2, 5, 6]", "f32[2, 5] = [0, 0, 0, 3, 3, 0, 1, 0.5, 4, 2]"},
             "pooled_shape = [2, 3]")
    .example({"f32[n, 1, 6, 6]", "f32[1, 5] = [0, -3, 0, 9, 7]"},
             "pooled_shape = [3, 2], spatial_scale = 0.5")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FInferShape>("FInferShape", MaxRoiPoolShape)
    .set_attr<FCodeGen>("FCodeGen", MaxRoiPoolCode)
    .set_attr<FGradient>("FGradient", NoGradient);

}  // namespace weft::ops
