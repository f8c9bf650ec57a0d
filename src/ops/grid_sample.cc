/// grid_sample.cc: GridSample: an image read where a grid of normalized coordinates points, over any
/// number of spatial axes.
///
///   in      X : T1[n, c, d1 .. dr], grid : T2[n, o1 .. or, r], the last axis of X first
///   out     Y : T1[n, c, o1 .. or]
///   T1      floats; with mode nearest any number or bool
///   formula coordinate = (g + 1) / 2 (d - 1) with align_corners, else ((g + 1) d - 1) / 2; one tap
///           (nearest, halves to even), two (linear) or four (cubic, A = -3/4) an axis
///   padding zeros: 0 outside; border: the nearest element; reflection: mirrored at the border, which
///           is the outermost center (align_corners) or half a pixel further
///   grad    none registered
#include "interpolation.h"
#include "weft/support/check.h"
#include "window.h"

namespace weft::ops {
namespace {

struct GridSampleParam : OpParam<GridSampleParam> {
  int64_t align_corners;
  std::string mode, padding_mode;
  WEFT_OP_PARAM(GridSampleParam) {
    WEFT_FIELD(align_corners)
        .set_default(0)
        .set_range(0, 1)
        .describe("1: -1 and 1 are the centers of the outermost elements, 0: their outer edges");
    WEFT_FIELD(mode).set_default("linear").describe("linear, nearest or cubic");
    WEFT_FIELD(padding_mode).set_default("zeros").describe("zeros, border or reflection");
  }
};
WEFT_REGISTER_OP_PARAM(GridSampleParam);

void CheckModes(const NodePtr& n) {
  const auto& p = ParamOf<GridSampleParam>(n);
  WEFT_CHECK(p.mode == "linear" || p.mode == "nearest" || p.mode == "cubic", kBadAttribute,
             "{}: mode '{}'", n->Describe(), p.mode);
  WEFT_CHECK(
      p.padding_mode == "zeros" || p.padding_mode == "border" || p.padding_mode == "reflection",
      kBadAttribute, "{}: padding_mode '{}'", n->Describe(), p.padding_mode);
}

void GridSampleType(InferTypeContext& ctx) {
  CheckModes(ctx.node());
  const bool nearest = ParamOf<GridSampleParam>(ctx.node()).mode == "nearest";
  CheckInputType(ctx, 0, nearest ? kComputable : kFloats);
  CheckInputType(ctx, 1, kFloats);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}

void GridSampleShape(InferShapeContext& ctx) {
  const NodePtr& n = ctx.node();
  const Shape &x = ctx.in(0), &grid = ctx.in(1);
  const int rank = x.has_rank() ? x.rank() : grid.has_rank() ? grid.rank() : -1;
  if (rank < 0) return Unknown(ctx, 0, "the ranks of X and grid are unknown");
  WEFT_CHECK(rank >= 3, kShapeMismatch, "{}: X must have rank 3 or more, got {}", n->Describe(),
             rank);
  const auto& p = ParamOf<GridSampleParam>(n);
  CheckTaps(n, p.mode == "nearest" ? 1 : p.mode == "linear" ? 2 : 4, size_t(rank) - 2);
  CheckRank(ctx, 0, rank, "X");
  CheckRank(ctx, 1, rank, "grid");
  const Shape xs = x.has_rank() ? x : Shape::OfRank(rank),
              gs = grid.has_rank() ? grid : Shape::OfRank(rank);
  UnifyDims(ctx, gs[rank - 1], rank - 2, "the last extent of grid and the number of spatial axes");
  std::vector<SymInt> dims{UnifyDims(ctx, xs[0], gs[0], "the batch"), xs[1]};
  for (int k = 1; k + 1 < rank; ++k) dims.push_back(gs[k]);
  for (int k = 2; k < rank; ++k)
    WEFT_CHECK(p.padding_mode == "zeros" || !xs[k].is(0), kShapeMismatch,
               "{}: X {} has no element to continue beyond its border", n->Describe(),
               xs.ToString());
  ctx.set_out(0, Shape(std::move(dims)));
}

/// x mirrored into [low, high]; t is a float dtype.
Expr Reflect(const Expr& x, const Expr& low, const Expr& high) {
  const DType t = x->dtype();
  const Expr range = Max(high - low, Zero(t)), period = range * 2.0;
  const Expr m = x - low;
  const Expr rest = m - period * Expr::Unary(UnOp::kFloor, m / period);
  const Expr mirrored = low + Min(rest, period - rest);
  const Expr inside = And(Le(low, x), Le(x, high));
  return Expr::Select(inside, x, Expr::Select(Lt(Zero(t), range), mirrored, low));
}

struct Tap {
  Expr position, inside, weight;  ///< inside: null where it always is
};

/// One axis: extent d, normalized coordinate g of a float dtype.
std::vector<Tap> TapsOf(const GridSampleParam& p, SymInt extent, const Expr& g) {
  const DType t = g->dtype();
  const Expr d = Expr::Cast(t, Expr::Dim(extent)), last = d - 1.0, one = Expr::Const(t, 1);
  const Expr low = p.align_corners ? Zero(t) : Expr::Const(t, -0.5);
  const Expr high = p.align_corners ? last : d - 0.5;
  Expr x = p.align_corners ? (g + 1.0) / 2.0 * last : ((g + 1.0) * d - 1.0) / 2.0;
  if (p.mode == "nearest") x = Expr::Unary(UnOp::kRound, x);
  const Expr outside = Or(Lt(x, low), Lt(high, x));
  if (p.padding_mode == "border")
    x = Expr::Select(outside, Max(Zero(t), Min(x, last)), x);
  else if (p.padding_mode == "reflection")
    x = Reflect(x, low, high);

  const auto tap = [&](const Expr& position, const Expr& weight) -> Tap {
    const Expr i = Expr::Cast(DType::kI64, position);
    if (p.padding_mode == "zeros") return {i, InRange(i, Expr::Dim(extent)), weight};
    const Expr mirrored =
        p.padding_mode == "reflection" ? Expr::Cast(DType::kI64, Reflect(position, low, high)) : i;
    return {Max(Expr::Int(0), Min(mirrored, Expr::Dim(extent - 1))), Expr(), weight};
  };
  if (p.mode == "nearest") return {tap(x, one)};
  const Expr base = Expr::Unary(UnOp::kFloor, x), f = x - base;
  if (p.mode == "linear") return {tap(base, one - f), tap(base + 1.0, f)};
  // Cubic convolution, A = -3/4.
  const auto near = [](const Expr& e) { return (e * 1.25 - 2.25) * e * e + 1.0; };
  const auto far = [](const Expr& e) { return ((e * -0.75 + 3.75) * e - 6.0) * e + 3.0; };
  return {tap(base - 1.0, far(f + 1.0)), tap(base, near(f)), tap(base + 1.0, near(one - f)),
          tap(base + 2.0, far(2.0 - f))};
}

Expr Interpolate(const TensorArg& x, DType t, const std::vector<std::vector<Tap>>& taps, size_t k,
                 const Expr& inside, Indices* from) {
  if (k == taps.size()) {
    const Expr v = Expr::Cast(t, x(*from));
    return ReadWhere(inside, v, Zero(t));
  }
  Expr sum;
  for (const Tap& tap : taps[k]) {
    (*from)[k + 2] = tap.position;
    const Expr in = tap.inside ? And(inside, tap.inside) : inside;
    const Expr v = Interpolate(x, t, taps, k + 1, in, from);
    const Expr e = taps[k].size() == 1 ? v : v * Expr::Cast(t, tap.weight);
    sum = sum ? sum + e : e;
  }
  return sum;
}

Exprs GridSampleCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<GridSampleParam>(n);
  const TensorArg &x = in[0], &grid = in[1];
  const int axes = x.rank() - 2;
  Indices point{at(0)[0]};
  for (int k = 0; k < axes; ++k) point.push_back(at(0)[size_t(k) + 2]);
  std::vector<std::vector<Tap>> taps;
  for (int k = 0; k < axes; ++k) {
    Indices g = point;
    g.push_back(Expr::Int(axes - 1 - k));
    taps.push_back(TapsOf(p, x.shape[k + 2], Expr::Cast(AccumulatorOf(grid.dtype), grid(g))));
  }
  const DType t = p.mode == "nearest" ? x.dtype : AccumulatorOf(x.dtype);
  Indices from = at(0);
  return {Expr::Cast(x.dtype, Interpolate(x, t, taps, 0, Expr::Bool(true), &from))};
}

}  // namespace

WEFT_REGISTER_OP(GridSample)
    .describe(
        "Y[n, c, o] = X[n, c] interpolated at the coordinates that grid[n, o] normalizes to [-1, "
        "1], the last spatial axis first.\n"
        "Gradient: none registered. Errors: ranks, batch or the grid's last extent do not fit "
        "(kShapeMismatch), an unknown mode\n"
        "(kBadAttribute). Source: ONNX GridSample-22.")
    .input("X", TypeDoc(kComputable, "T1"), "[n, c, spatial...]; floats but for mode nearest")
    .input("grid", TypeDoc(kFloats, "T2"), "[n, out spatial..., number of spatial axes]")
    .output("Y", "T1", "[n, c, out spatial...]")
    .set_num_inputs(2)
    .set_num_outputs(1)
    .param<GridSampleParam>()
    .example({"f32[1, 2, 3, 4]", "f32[1, 2, 2, 2]"})
    .example({"f32[n, 1, 5]", "f32[n, 3, 1]"}, "mode = \"cubic\", padding_mode = \"reflection\"")
    .example({"i32[1, 1, 3, 4]", "f32[1, 2, 2, 2]"},
             "mode = \"nearest\", padding_mode = \"border\", align_corners = 1")
    .set_attr<FInferType>("FInferType", GridSampleType)
    .set_attr<FInferShape>("FInferShape", GridSampleShape)
    .set_attr<FCodeGen>("FCodeGen", GridSampleCode);

}  // namespace weft::ops
