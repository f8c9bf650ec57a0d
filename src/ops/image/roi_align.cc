/// roi_align.cc: RoiAlign: regions of an image averaged (or maximized) over a fixed number of bins,
/// each sampled on a regular grid by linear interpolation.
///
///   formula a bin of extent e (in elements of X) has s = sampling_ratio, or ceil(e), samples an
///           axis, at start + (i + 1/2) e / s; one further than an element outside counts as 0.
///           avg: their mean; max: the largest of the four weighted neighbours over all samples
///           (ONNX's definition, not the largest interpolated value)
///   grad    avg: to X, by weft::RoiAlignGrad; the regions are positions and have none. max: none
///
/// How many samples ceil(e) gives depends on the data, but samples are at least half an element
/// apart where there are two, so at most 2 extent + 5 of them lie inside: the sum runs over those.
#include <limits>

#include "ops/util/adjoint.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct RoiAlignParam : OpParam<RoiAlignParam> {
  std::string coordinate_transformation_mode, mode;
  int64_t output_height, output_width, sampling_ratio;
  double spatial_scale;
  WEFT_OP_PARAM(RoiAlignParam) {
    WEFT_FIELD(coordinate_transformation_mode)
        .set_default("half_pixel")
        .describe("half_pixel: regions move by half an element; output_half_pixel: they do not");
    WEFT_FIELD(mode).set_default("avg").describe("avg or max");
    WEFT_FIELD(output_height).set_default(1).set_range(1, INT32_MAX).describe("bins, vertically");
    WEFT_FIELD(output_width).set_default(1).set_range(1, INT32_MAX).describe("bins, horizontally");
    WEFT_FIELD(sampling_ratio)
        .set_default(0)
        .set_range(0, INT32_MAX)
        .describe("samples an axis and bin; 0: as many as a bin has elements, rounded up");
    WEFT_FIELD(spatial_scale).set_default(1).describe("from coordinates of rois to those of X");
  }
};
WEFT_REGISTER_OP_PARAM(RoiAlignParam);

void RoiAlignType(InferTypeContext& ctx) {
  const auto& p = ParamOf<RoiAlignParam>(ctx.node());
  WEFT_CHECK(p.mode == "avg" || p.mode == "max", kBadAttribute, "{}: mode '{}'",
             ctx.node()->Describe(), p.mode);
  WEFT_CHECK(p.coordinate_transformation_mode == "half_pixel" ||
                 p.coordinate_transformation_mode == "output_half_pixel",
             kBadAttribute, "{}: coordinate_transformation_mode '{}'", ctx.node()->Describe(),
             p.coordinate_transformation_mode);
  const Type t = CommonInputType(ctx, kFloats, 0, 2);
  CheckInputType(ctx, 2, kI64Only);
  if (t.known()) ctx.set_out(0, t);
}
void RoiAlignShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<RoiAlignParam>(ctx.node());
  SymInt regions, channels;
  if (CheckRank(ctx, 0, 4, "X")) channels = ctx.in(0)[1];
  if (CheckRank(ctx, 1, 2, "rois")) {
    regions = ctx.in(1)[0];
    UnifyDims(ctx, ctx.in(1)[1], 4, "the dimensions of a region");
  }
  if (CheckRank(ctx, 2, 1, "batch_indices"))
    regions = UnifyDims(ctx, regions, ctx.in(2)[0], "rois and batch_indices");
  ctx.set_out(0, Shape({regions, channels, p.output_height, p.output_width}));
}

/// One axis of one bin, in dtype t.
struct BinAxis {
  SymInt extent;    ///< of X
  SymInt count;     ///< samples that the sum runs over
  Expr samples;     ///< i64, how many there are
  Expr first;       ///< i64, number of the first of `count`
  Expr base, step;  ///< sample i lies at base + (i + 1/2) step
};
BinAxis MakeAxis(const NodePtr& n, DType t, const TensorArg& rois, const Expr& region,
                 bool vertical, SymInt extent, const Expr& bin) {
  const auto& p = ParamOf<RoiAlignParam>(n);
  const bool shifted = p.coordinate_transformation_mode == "half_pixel";
  const int64_t bins = vertical ? p.output_height : p.output_width;
  const auto edge = [&](int64_t k) {
    const Expr e = Expr::Cast(t, rois({region, Expr::Int(k)})) * p.spatial_scale;
    return shifted ? e - 0.5 : e;
  };
  const Expr start = edge(vertical ? 1 : 0);
  Expr length = edge(vertical ? 3 : 2) - start;
  if (!shifted) length = Max(length, Expr::Const(t, 1));
  const Expr size = length / double(bins);
  BinAxis a;
  a.extent = extent;
  a.base = start + Expr::Cast(t, bin) * size;
  if (p.sampling_ratio > 0) {
    a.samples = Expr::Int(p.sampling_ratio);
    a.count = p.sampling_ratio;
    a.step = size / double(p.sampling_ratio);
    a.first = Expr::Int(0);
    return a;
  }
  const Expr samples = Expr::Unary(UnOp::kCeil, size);
  a.samples = Expr::Cast(DType::kI64, samples);
  a.count = extent * 2 + 5;
  a.step = size / Max(samples, Expr::Const(t, 1));
  // The last sample before the image, at a distance of one element from it.
  const Expr before = Expr::Unary(UnOp::kFloor, (-1.0 - a.base) / a.step - 0.5);
  a.first = Max(Expr::Int(0), Expr::Cast(DType::kI64, before));
  return a;
}

/// Where sample i lies: two positions, their weights, and whether it counts.
struct Sample {
  Expr low, high, low_weight, high_weight, inside;
};
Sample SampleOf(const BinAxis& a, const Expr& number) {
  const DType t = a.base->dtype();
  const Expr i = a.first + number, extent = Expr::Cast(t, Expr::Dim(a.extent));
  const Expr at = a.base + (Expr::Cast(t, i) + 0.5) * a.step;
  const Expr last = Expr::Dim(a.extent - 1);
  const Expr y = Min(Max(at, Zero(t)), Expr::Cast(t, last));
  Sample s;
  s.low = Expr::Cast(DType::kI64, y);
  s.high = Min(s.low + Expr::Int(1), last);
  s.high_weight = y - Expr::Cast(t, s.low);
  s.low_weight = 1.0 - s.high_weight;
  s.inside = And(Lt(i, a.samples), And(Le(Expr::Const(t, -1), at), Le(at, extent)));
  if (!a.extent.is_const() || a.extent.is(0))  // nothing lies inside an empty image
    s.inside = And(s.inside, Lt(Zero(t), extent));
  return s;
}

Exprs RoiAlignCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg& x = in[0];
  const DType t = AccumulatorOf(x.dtype);
  const Expr region = at(0)[0], c = at(0)[1];
  const BinAxis rows = MakeAxis(n, t, in[1], region, true, x.shape[2], at(0)[2]),
                columns = MakeAxis(n, t, in[1], region, false, x.shape[3], at(0)[3]);
  const Expr image = in[2]({region});
  const std::vector<SymInt> extents{rows.count, columns.count};
  const auto corners = [&](const Indices& r, Sample* v, Sample* h) {
    *v = SampleOf(rows, r[0]);
    *h = SampleOf(columns, r[1]);
    const auto read = [&](const Expr& i, const Expr& j, const Expr& wi, const Expr& wj) {
      return Expr::Cast(t, x({image, c, i, j})) * (wi * wj);
    };
    return Exprs{read(v->low, h->low, v->low_weight, h->low_weight),
                 read(v->low, h->high, v->low_weight, h->high_weight),
                 read(v->high, h->low, v->high_weight, h->low_weight),
                 read(v->high, h->high, v->high_weight, h->high_weight)};
  };
  const Expr all = rows.samples * columns.samples;
  const Expr any = And(Lt(Expr::Int(0), rows.samples), Lt(Expr::Int(0), columns.samples));
  Expr y;
  if (ParamOf<RoiAlignParam>(n).mode == "avg") {
    const Expr sum = Expr::Reduce(ReduceOp::kSum, extents, [&](const Indices& r) {
      Sample v, h;
      const Exprs e = corners(r, &v, &h);
      return ReadWhere(And(v.inside, h.inside), e[0] + e[1] + e[2] + e[3], Zero(t));
    });
    y = sum / Expr::Cast(t, Max(all, Expr::Int(1)));
  } else {
    const Expr lowest = Expr::Const(t, -std::numeric_limits<double>::infinity());
    const Expr most = Expr::Reduce(ReduceOp::kMax, extents, [&](const Indices& r) {
      Sample v, h;
      const Exprs e = corners(r, &v, &h);
      return ReadWhere(And(v.inside, h.inside), Max(Max(e[0], e[1]), Max(e[2], e[3])), lowest);
    });
    const Expr inside = Expr::Reduce(ReduceOp::kSum, extents, [&](const Indices& r) {
      return Expr::Cast(DType::kI64,
                        And(SampleOf(rows, r[0]).inside, SampleOf(columns, r[1]).inside));
    });
    y = Expr::Select(Lt(inside, all), Max(most, Zero(t)), most);
  }
  return {Expr::Cast(x.dtype, Expr::Select(any, y, Zero(t)))};
}

// ---- gradient ----

/// dX[b, c, i, j] = sum over the bins of regions of image b of dy / samples, times what the samples
/// weigh row i and column j with.
Exprs RoiAlignGradCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &dy = in[0], &rois = in[1], &batch = in[2];
  const DType t = AccumulatorOf(dy.dtype);
  const Shape& x = at.shape[0];
  const auto own = [&](const BinAxis& a, const Expr& i) {
    return Expr::Reduce(ReduceOp::kSum, {a.count}, [&](const Indices& r) {
      const Sample s = SampleOf(a, r[0]);
      const Expr low = Expr::Select(Eq(s.low, i), s.low_weight, Zero(t));
      const Expr high = Expr::Select(Eq(s.high, i), s.high_weight, Zero(t));
      return Expr::Select(s.inside, low + high, Zero(t));
    });
  };
  const std::vector<SymInt> bins{dy.shape[0], dy.shape[2], dy.shape[3]};
  const Expr sum = Expr::Reduce(ReduceOp::kSum, bins, [&](const Indices& r) {
    const BinAxis rows = MakeAxis(n, t, rois, r[0], true, x[2], r[1]),
                  columns = MakeAxis(n, t, rois, r[0], false, x[3], r[2]);
    const Expr all = Expr::Cast(t, Max(rows.samples * columns.samples, Expr::Int(1)));
    const Expr any = And(Lt(Expr::Int(0), rows.samples), Lt(Expr::Int(0), columns.samples));
    const Expr here = And(any, Eq(batch({r[0]}), at(0)[0]));
    const Expr seed = Expr::Cast(t, dy({r[0], at(0)[1], r[1], r[2]})) / all;
    return Expr::Select(here, seed * own(rows, at(0)[2]) * own(columns, at(0)[3]), Zero(t));
  });
  return {Expr::Cast(dy.dtype, sum)};
}
std::vector<NodeEntry> RoiAlignGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry(), NodeEntry(), NodeEntry()};
  WEFT_CHECK(ParamOf<RoiAlignParam>(n).mode == "avg", kUnsupported,
             "{}: mode \"max\" has no gradient", n->Describe());
  return {ApplyOp("weft::RoiAlignGrad", {dy[0], n->inputs[1], n->inputs[2], ShapeOf(n->inputs[0])},
                  AttrsOf(n)),
          NodeEntry(), NodeEntry()};
}
std::vector<NodeEntry> RoiAlignGradGradient(const NodePtr& n, const std::vector<NodeEntry>& g) {
  std::vector<NodeEntry> d(4);
  if (g[0]) d[0] = ApplyOp("RoiAlign", {g[0], n->inputs[1], n->inputs[2]}, AttrsOf(n));
  return d;
}

}  // namespace

WEFT_REGISTER_OP(RoiAlign)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .describe(
        "Y[r, c, i, j] = mean (or maximum) over the samples of bin (i, j) of region r of image "
        "batch_indices[r], read linearly.\n"
        "f16 and bf16 compute in f32. Gradient: weft::RoiAlignGrad for X under avg. Errors: ranks "
        "or dimensions that do not fit (kShapeMismatch), an unknown mode (kBadAttribute), an index "
        "outside the batch (kIndexRange). Source: ONNX RoiAlign-22.")
    .input("X", TypeDoc(kFloats), "[n, c, h, w]")
    .input("rois", "T", "[m, 4], x1, y1, x2, y2")
    .input("batch_indices", "i64", "[m]")
    .output("Y", "T", "[m, c, output_height, output_width]")
    .param<RoiAlignParam>()
    .example({"f32[1, 2, 4, 5]", "f32[2, 4] = [0, 0, 3, 3, 1, 0.5, 4, 2]", "i64[2] = [0, 0]"},
             "output_height = 2, output_width = 2, sampling_ratio = 2")
    .example({"f32[n, 1, 6, 6]", "f32[1, 4] = [-1, 0, 5, 7]", "i64[1] = [0]"}, "mode = \"max\"")
    .set_attr<FInferType>("FInferType", RoiAlignType)
    .set_attr<FInferShape>("FInferShape", RoiAlignShape)
    .set_attr<FCodeGen>("FCodeGen", RoiAlignCode)
    .set_attr<FInputDomains>("FInputDomains",
                             [](const NodePtr&) -> std::vector<InputDomain> {
                               return {InputDomain(), InputDomain(), {InputDomain::kIndex}};
                             })
    .set_attr<FGradient>("FGradient", RoiAlignGradient);

WEFT_REGISTER_OP_IN(weft, RoiAlignGrad)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .describe(
        "Adjoint of RoiAlign (avg) in X. By looking: every element asks every bin. Gradient: "
        "RoiAlign for dy. Source: Weft.")
    .input("dy", TypeDoc(kFloats), "[m, c, output_height, output_width]")
    .input("rois", "T", "[m, 4]")
    .input("batch_indices", "i64", "[m]")
    .input("shape", "i64", "dimensions of X")
    .output("dX", "T")
    .param<RoiAlignParam>()
    .example({"f32[2, 2, 2, 2]", "f32[2, 4] = [0, 0, 3, 3, 1, 0.5, 4, 2]", "i64[2] = [0, 0]",
              "i64[4] = [1, 2, 4, 5]"},
             "output_height = 2, output_width = 2, sampling_ratio = 2")
    .set_attr<FInferType>("FInferType",
                          [](InferTypeContext& ctx) {
                            const Type t = CommonInputType(ctx, kFloats, 0, 2);
                            for (int i : {2, 3}) CheckInputType(ctx, i, kI64Only);
                            if (t.known()) ctx.set_out(0, t);
                          })
    .set_attr<FInferShape>("FInferShape", AdjointShape(RoiAlignShape, 3, {kSought, 1, 2}))
    .set_attr<FCodeGen>("FCodeGen", RoiAlignGradCode)
    .set_attr<FGradient>("FGradient", RoiAlignGradGradient);

}  // namespace weft::ops
