/// grid_sample.cc: GridSample: an image read where a grid of normalized coordinates points, over
/// any number of spatial axes.
///
///   formula coordinate = (g + 1) / 2 (d - 1) with align_corners, else ((g + 1) d - 1) / 2; one tap
///           (nearest, halves to even), two (linear) or four (cubic, A = -3/4) an axis
///   padding zeros: 0 outside; border: the nearest element; reflection: mirrored at the border,
///           which is the outermost center (align_corners) or half a pixel further. Linear and
///           nearest move the coordinate, cubic each of the elements that it reads, as PyTorch and
///           ONNX Runtime do
///   NaN     as a coordinate reads the first element where linear or nearest move it, nothing for
///           nearest with zeros, and gives NaN else; so do infinities that are not moved
///   grad    to X: weft::GridSampleGrad, every element gets dy where its taps read it; to the grid:
///           the sum over the channels of dy times weft::GridSampleSlope, the derivative by each
///           coordinate (0 for nearest; linear: 0 at and beyond the outermost elements where the
///           coordinate is moved; at a tap's position that of the interval above it)
#include "ops/util/adjoint.h"
#include "ops/util/interpolation.h"
#include "ops/util/window.h"
#include "weft/support/check.h"

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

/// Of the results; unknown where no rank is known.
Shape SampledShape(InferShapeContext& ctx) {
  const NodePtr& n = ctx.node();
  const Shape &x = ctx.in(0), &grid = ctx.in(1);
  const int rank = x.has_rank() ? x.rank() : grid.has_rank() ? grid.rank() : -1;
  if (rank < 0) return Shape();
  WEFT_CHECK(rank >= 3, kShapeMismatch, "{}: X must have rank 3 or more, got {}", n->Describe(),
             rank);
  const auto& p = ParamOf<GridSampleParam>(n);
  CheckTaps(n, p.mode == "nearest" ? 1 : p.mode == "linear" ? 2 : 4, size_t(rank) - 2);
  CheckRank(ctx, 0, rank, "X");
  CheckRank(ctx, 1, rank, "grid");
  const Shape xs = x.has_rank() ? x : Shape::OfRank(rank),
              gs = grid.has_rank() ? grid : Shape::OfRank(rank);
  UnifyDims(ctx, gs[rank - 1], rank - 2,
            "the last dimension of grid and the number of spatial axes");
  std::vector<SymInt> dims{UnifyDims(ctx, xs[0], gs[0], "the batch"), xs[1]};
  for (int k = 1; k + 1 < rank; ++k) dims.push_back(gs[k]);
  for (int k = 2; k < rank && p.padding_mode != "zeros"; ++k)
    DemandAtLeast(ctx, xs[k], 1, "elements to continue beyond the border of X");
  return Shape(std::move(dims));
}
void GridSampleShape(InferShapeContext& ctx) {
  const Shape y = SampledShape(ctx);
  if (!y.has_rank()) return Unknown(ctx, 0, "the ranks of X and grid are unknown");
  ctx.set_out(0, y);
}

/// x mirrored into [low, high], and the slope of that (1 or -1); t is a float dtype.
struct Mirrored {
  Expr value, slope;
};
Mirrored Reflect(const Expr& x, const Expr& low, const Expr& high) {
  const DType t = x->dtype();
  const Expr range = Max(high - low, Zero(t)), period = range * 2.0;
  const Expr m = x - low;
  const Expr rest = m - period * Expr::Unary(UnOp::kFloor, m / period);
  const Expr mirrored = low + Min(rest, period - rest);
  const Expr inside = And(Le(low, x), Le(x, high));
  const Expr value = Expr::Select(inside, x, Expr::Select(Lt(Zero(t), range), mirrored, low));
  const Expr one = Expr::Const(t, 1);
  const Expr turned = Expr::Select(Lt(rest, period - rest), one, -one);
  return {value, Expr::Select(inside, one, Expr::Select(Lt(Zero(t), range), turned, Zero(t)))};
}

struct Tap {
  Expr position, inside;  ///< inside: null where it always is
  Expr weight, slope;     ///< slope: of the weight by the normalized coordinate
};

/// One axis: extent d, normalized coordinate g of a float dtype.
std::vector<Tap> TapsOf(const GridSampleParam& p, SymInt extent, const Expr& g) {
  const DType t = g->dtype();
  const Expr d = Expr::Cast(t, Expr::Dim(extent)), last = d - 1.0, one = Expr::Const(t, 1);
  const Expr low = p.align_corners ? Zero(t) : Expr::Const(t, -0.5);
  const Expr high = p.align_corners ? last : d - 0.5;
  Expr x = p.align_corners ? (g + 1.0) / 2.0 * last : ((g + 1.0) * d - 1.0) / 2.0;
  Expr dx = (p.align_corners ? last : d) / 2.0;  // of x by g
  if (p.mode == "nearest") x = Expr::Unary(UnOp::kRound, x);
  // Cubic pads each element that it reads; the others move the coordinate, a NaN
  // to the first element.
  if (p.mode != "cubic" && p.padding_mode != "zeros") {
    if (p.padding_mode == "reflection") {
      const Mirrored m = Reflect(x, low, high);
      x = m.value;
      dx = dx * m.slope;
    }
    const Expr above = Lt(Zero(t), x);
    dx = Expr::Select(And(above, Lt(x, last)), dx, Zero(t));
    x = Expr::Select(above, Min(x, last), Zero(t));
  } else if (p.mode == "nearest") {
    x = Expr::Select(Le(low, x), x, Expr::Const(t, -1));  // NaN is outside
  }

  const auto tap = [&](const Expr& position, const Expr& weight, const Expr& slope) -> Tap {
    const Expr i = Expr::Cast(DType::kI64, position);
    if (p.padding_mode == "zeros") return {i, InRange(i, Expr::Dim(extent)), weight, slope * dx};
    const Expr mirrored = p.mode == "cubic" && p.padding_mode == "reflection"
                              ? Expr::Cast(DType::kI64, Reflect(position, low, high).value)
                              : i;
    return {Max(Expr::Int(0), Min(mirrored, Expr::Dim(extent - 1))), Expr(), weight, slope * dx};
  };
  if (p.mode == "nearest") return {tap(x, one, Zero(t))};
  const Expr base = Expr::Unary(UnOp::kFloor, x), f = x - base;
  if (p.mode == "linear") return {tap(base, one - f, -one), tap(base + 1.0, f, one)};
  // Cubic convolution, A = -3/4, and its derivative.
  const auto near = [](const Expr& e) { return (e * 1.25 - 2.25) * e * e + 1.0; };
  const auto far = [](const Expr& e) { return ((e * -0.75 + 3.75) * e - 6.0) * e + 3.0; };
  const auto dnear = [](const Expr& e) { return (e * 3.75 - 4.5) * e; };
  const auto dfar = [](const Expr& e) { return (e * -2.25 + 7.5) * e - 6.0; };
  return {tap(base - 1.0, far(f + 1.0), dfar(f + 1.0)), tap(base, near(f), dnear(f)),
          tap(base + 1.0, near(one - f), -dnear(one - f)),
          tap(base + 2.0, far(2.0 - f), -dfar(2.0 - f))};
}
/// All axes, at one point of the grid (batch, then out spatial).
std::vector<std::vector<Tap>> TapsAt(const GridSampleParam& p, const std::vector<SymInt>& extents,
                                     const TensorArg& grid, const Indices& point) {
  std::vector<std::vector<Tap>> taps;
  for (size_t k = 0; k < extents.size(); ++k) {
    Indices g = point;
    g.push_back(Expr::Int(int64_t(extents.size() - 1 - k)));
    taps.push_back(TapsOf(p, extents[k], Expr::Cast(AccumulatorOf(grid.dtype), grid(g))));
  }
  return taps;
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
  Indices point{at(0)[0]};
  for (int k = 2; k < x.rank(); ++k) point.push_back(at(0)[size_t(k)]);
  const auto taps = TapsAt(p, Tail(x.shape, 2), grid, point);
  const DType t = p.mode == "nearest" ? x.dtype : AccumulatorOf(x.dtype);
  Indices from = at(0);
  return {Expr::Cast(x.dtype, Interpolate(x, t, taps, 0, Expr::Bool(true), &from))};
}

// ---- gradients ----

/// The results of GridSample with one more axis: the derivatives by the coordinates of the grid, in
/// its order.
void SlopeShape(InferShapeContext& ctx) {
  const Shape y = SampledShape(ctx);
  if (!y.has_rank()) return Unknown(ctx, 0, "the ranks of X and grid are unknown");
  std::vector<SymInt> dims = y.dims();
  dims.push_back(y.rank() - 2);
  ctx.set_out(0, Shape(std::move(dims)));
}
Exprs SlopeCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &x = in[0], &grid = in[1];
  const size_t axes = size_t(x.rank()) - 2;
  Indices point{at(0)[0]};
  for (size_t k = 0; k < axes; ++k) point.push_back(at(0)[k + 2]);
  const auto taps = TapsAt(ParamOf<GridSampleParam>(n), Tail(x.shape, 2), grid, point);
  const DType t = AccumulatorOf(x.dtype);
  const Expr which = at(0).back();
  Expr y = Zero(t);
  for (size_t k = 0; k < axes; ++k) {
    auto sloped = taps;
    for (Tap& tap : sloped[k]) tap.weight = tap.slope;
    // A single tap would be read without its weight.
    if (sloped[k].size() == 1) continue;
    Indices from(at(0).begin(), at(0).end() - 1);
    const Expr v = Interpolate(x, t, sloped, 0, Expr::Bool(true), &from);
    y = Expr::Select(Eq(which, Expr::Int(int64_t(axes - 1 - k))), v, y);
  }
  return {Expr::Cast(x.dtype, y)};
}

/// dX[n, c, i] = sum over the points o and their taps at i of the weight times dy[n, c, o].
Exprs GridSampleGradCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &dy = in[0], &grid = in[1];
  const size_t axes = at.shape[0].dims().size() - 2;
  const std::vector<SymInt> extents = Tail(at.shape[0], 2);
  const DType t = AccumulatorOf(dy.dtype);
  const Expr sum = Expr::Reduce(ReduceOp::kSum, Tail(dy.shape, 2), [&](const Indices& o) {
    Indices point{at(0)[0]}, from{at(0)[0], at(0)[1]};
    point.insert(point.end(), o.begin(), o.end());
    from.insert(from.end(), o.begin(), o.end());
    const auto taps = TapsAt(ParamOf<GridSampleParam>(n), extents, grid, point);
    Expr weight;
    for (size_t k = 0; k < axes; ++k) {
      Expr own = Zero(t);
      for (const Tap& tap : taps[k]) {
        // Positions outside equal no index: `inside` needs no test.
        const Expr hit = Eq(tap.position, at(0)[k + 2]);
        own = own + Expr::Select(hit, Expr::Cast(t, tap.weight), Zero(t));
      }
      weight = weight ? weight * own : own;
    }
    return Expr::Select(Eq(weight, Zero(t)), Zero(t), weight * Expr::Cast(t, dy(from)));
  });
  return {Expr::Cast(dy.dtype, sum)};
}

/// To the grid, given what is read: the sum over the channels.
NodeEntry ToGrid(const NodePtr& n, const NodeEntry& x, const NodeEntry& grid, const NodeEntry& dy) {
  const NodeEntry slope = ApplyOp("weft::GridSampleSlope", {x, grid}, AttrsOf(n));
  const NodeEntry each = ApplyOp("Unsqueeze", {dy, IntsLike(dy, {-1})}) * slope;
  const NodeEntry sum = ApplyOp("ReduceSum", {each, IntsLike(dy, {1})}, {{"keepdims", 0}});
  return ApplyOp("CastLike", {sum, grid});
}
std::vector<NodeEntry> GridSampleGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  if (!dy[0]) return {NodeEntry(), NodeEntry()};
  const NodeEntry x = n->inputs[0], grid = n->inputs[1];
  const bool nearest = ParamOf<GridSampleParam>(n).mode == "nearest";
  return {ApplyOp("weft::GridSampleGrad", {dy[0], grid, ShapeOf(x)}, AttrsOf(n)),
          nearest ? NodeEntry() : ToGrid(n, x, grid, dy[0])};
}
/// Linear in dy; in the grid as GridSample of g, with dy for its gradient.
std::vector<NodeEntry> GridSampleGradGradient(const NodePtr& n, const std::vector<NodeEntry>& g) {
  if (!g[0]) return {NodeEntry(), NodeEntry(), NodeEntry()};
  const NodeEntry dy = n->inputs[0], grid = n->inputs[1];
  const bool nearest = ParamOf<GridSampleParam>(n).mode == "nearest";
  return {ApplyOp("GridSample", {g[0], grid}, AttrsOf(n)),
          nearest ? NodeEntry() : ToGrid(n, g[0], grid, dy), NodeEntry()};
}

}  // namespace

WEFT_REGISTER_OP(GridSample)
    .describe(
        "Y[n, c, o] = X[n, c] interpolated at the coordinates that grid[n, o] normalizes to [-1, "
        "1], the last spatial axis first.\n"
        "Gradient: weft::GridSampleGrad for X, weft::GridSampleSlope for the grid. Errors: ranks, "
        "batch or the grid's last dimension do not fit (kShapeMismatch), an unknown mode "
        "(kBadAttribute). Source: ONNX GridSample-22.")
    .input("X", TypeDoc(kComputable, "T1"), "[n, c, spatial...]; floats but for mode nearest")
    .input("grid", TypeDoc(kFloats, "T2"), "[n, out spatial..., number of spatial axes]")
    .output("Y", "T1", "[n, c, out spatial...]")
    .param<GridSampleParam>()
    .example({"f32[1, 2, 3, 4]", "f32[1, 2, 2, 2]"})
    .example({"f32[n, 1, 5]", "f32[n, 3, 1]"}, "mode = \"cubic\", padding_mode = \"reflection\"")
    .example({"i32[1, 1, 3, 4]", "f32[1, 2, 2, 2]"},
             "mode = \"nearest\", padding_mode = \"border\", align_corners = 1")
    .set_attr<FInferType>("FInferType", GridSampleType)
    .set_attr<FInferShape>("FInferShape", GridSampleShape)
    .set_attr<FCodeGen>("FCodeGen", GridSampleCode)
    .set_attr<FGradient>("FGradient", GridSampleGradient);

WEFT_REGISTER_OP_IN(weft, GridSampleGrad)
    .describe(
        "Adjoint of GridSample in X: dX[n, c, i] = sum over the points that read i of their weight "
        "times dy. By looking: every element asks every point. Gradient: GridSample for dy, "
        "weft::GridSampleSlope for the grid. Source: Weft.")
    .input("dy", TypeDoc(kFloats, "T1"), "[n, c, out spatial...]")
    .input("grid", TypeDoc(kFloats, "T2"))
    .input("shape", "i64", "dimensions of X")
    .output("dX", "T1")
    .param<GridSampleParam>()
    .example({"f32[1, 2, 2, 2]", "f32[1, 2, 2, 2]", "i64[4] = [1, 2, 3, 4]"})
    .set_attr<FInferType>("FInferType",
                          [](InferTypeContext& ctx) {
                            CheckModes(ctx.node());
                            for (int i : {0, 1}) CheckInputType(ctx, i, kFloats);
                            CheckInputType(ctx, 2, kI64Only);
                            if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
                          })
    .set_attr<FInferShape>("FInferShape", AdjointShape(GridSampleShape, 2, {kSought, 1}))
    .set_attr<FCodeGen>("FCodeGen", GridSampleGradCode)
    .set_attr<FGradient>("FGradient", GridSampleGradGradient);

WEFT_REGISTER_OP_IN(weft, GridSampleSlope)
    .describe(
        "The derivatives of GridSample by each coordinate of the grid, on a last axis in the "
        "grid's order. Gradient: none registered. Source: Weft.")
    .input("X", TypeDoc(kFloats, "T1"))
    .input("grid", TypeDoc(kFloats, "T2"))
    .output("slope", "T1", "[n, c, out spatial..., axes]")
    .param<GridSampleParam>()
    .example({"f32[1, 2, 3, 4]", "f32[1, 2, 2, 2]"}, "padding_mode = \"border\"")
    .set_attr<FInferType>("FInferType",
                          [](InferTypeContext& ctx) {
                            CheckModes(ctx.node());
                            for (int i : {0, 1}) CheckInputType(ctx, i, kFloats);
                            if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
                          })
    .set_attr<FInferShape>("FInferShape", SlopeShape)
    .set_attr<FCodeGen>("FCodeGen", SlopeCode);

}  // namespace weft::ops
