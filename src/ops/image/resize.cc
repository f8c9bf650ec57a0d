/// resize.cc: Resize in all modes of ONNX, and weft::ResizeGrad, its adjoint.
///
///   T       numbers and bool; other modes than nearest compute in f32 or f64 and round integers to
///           even, saturating
///
/// Positions and weights are in resize_grid.h. The scale that coordinates use is the one given, or
/// sizes / extents exactly, for axes that keep their ratio that of the axis that decides.
#include <algorithm>
#include <cmath>

#include "ops/util/adjoint.h"
#include "ops/util/interpolation.h"
#include "resize_grid.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct ResizeParam : OpParam<ResizeParam> {
  int64_t antialias, exclude_outside;
  Ints axes;
  std::string coordinate_transformation_mode, keep_aspect_ratio_policy, mode, nearest_mode;
  double cubic_coeff_a, extrapolation_value;
  WEFT_OP_PARAM(ResizeParam) {
    WEFT_FIELD(antialias).set_default(0).set_range(0, 1).describe(
        "linear, cubic: 1: the filter widens where the image shrinks");
    WEFT_FIELD(axes).set_default({}).describe("axes of roi, scales and sizes; default all");
    WEFT_FIELD(coordinate_transformation_mode)
        .set_default("half_pixel")
        .describe(
            "half_pixel, half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric, "
            "tf_crop_and_resize or (operator set 11) tf_half_pixel_for_nn");
    WEFT_FIELD(cubic_coeff_a).set_default(-0.75).describe("parameter of the cubic filter");
    WEFT_FIELD(exclude_outside)
        .set_default(0)
        .set_range(0, 1)
        .describe("1: positions outside weigh 0, the others more");
    WEFT_FIELD(extrapolation_value)
        .set_default(0)
        .describe("tf_crop_and_resize: the value outside the input");
    WEFT_FIELD(keep_aspect_ratio_policy)
        .set_default("stretch")
        .describe("with sizes: stretch, not_larger or not_smaller");
    WEFT_FIELD(mode).set_default("nearest").describe("nearest, linear or cubic");
    WEFT_FIELD(nearest_mode)
        .set_default("round_prefer_floor")
        .describe("round_prefer_floor, round_prefer_ceil, floor or ceil");
  }
};
WEFT_REGISTER_OP_PARAM(ResizeParam);

const std::string& OneOf(const NodePtr& n, const char* what, const std::string& value,
                         std::initializer_list<const char*> allowed) {
  const bool found =
      std::any_of(allowed.begin(), allowed.end(), [&](const char* a) { return value == a; });
  WEFT_CHECK(found, kBadAttribute, "{}: {} '{}'", n->Describe(), what, value);
  return value;
}

ResizeRule RuleOf(const NodePtr& n) {
  const auto& p = ParamOf<ResizeParam>(n);
  ResizeRule r;
  r.mode = OneOf(n, "mode", p.mode, {"nearest", "linear", "cubic"});
  r.coordinates =
      OneOf(n, "coordinate_transformation_mode", p.coordinate_transformation_mode,
            {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
             "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"});
  r.rounding = OneOf(n, "nearest_mode", p.nearest_mode,
                     {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  OneOf(n, "keep_aspect_ratio_policy", p.keep_aspect_ratio_policy,
        {"stretch", "not_larger", "not_smaller"});
  r.cubic_a = p.cubic_coeff_a;
  r.antialias = p.antialias != 0;
  r.exclude_outside = p.exclude_outside != 0;
  WEFT_CHECK(!r.antialias || r.mode != "nearest", kBadAttribute,
             "{}: antialias needs mode linear or cubic", n->Describe());
  return r;
}

std::vector<int> ResizedAxes(const NodePtr& n, int rank) {
  const Ints& given = ParamOf<ResizeParam>(n).axes;
  if (!given.empty()) return NormalizeAxes(given, rank, n);
  std::vector<int> all;
  for (int k = 0; k < rank; ++k) all.push_back(k);
  return all;
}

/// Input i is given; exporters write an empty tensor for an absent one.
bool Given(const InferShapeContext& ctx, int i) {
  return HasInput(ctx, i) && !(ctx.in(i).has_rank() && ctx.in(i).rank() == 1 && ctx.in(i)[0].is(0));
}
const TensorArg* Given(const std::vector<TensorArg>& in, size_t i) {
  static const TensorArg absent = [] {
    TensorArg a;
    a.present = false;
    return a;
  }();
  return HasInput(in, i) && !(in[i].rank() == 1 && in[i].shape[0].is(0)) ? &in[i] : &absent;
}

// ---- extents ----

/// The fraction a / b with b <= 1024 that rounds to `s` in f32, the first such convergent of its
/// continued fraction; b = 0 where there is none.
std::pair<int64_t, int64_t> Fraction(float s) {
  int64_t a = 1, b = 0, last_a = 0, last_b = 1;
  for (double x = double(s); x < 1e6;) {
    const double q = std::floor(x);
    std::swap(a, last_a), std::swap(b, last_b);
    a += int64_t(q) * last_a, b += int64_t(q) * last_b;
    if (b > 1024) break;
    if (float(double(a) / double(b)) == s) return {a, b};
    if (x == q) break;
    x = 1 / (x - q);
  }
  return {0, 0};
}

/// floor(extent scale). A scale is a rounded f32 (0.7 is less than 7 / 10), and ONNX multiplies in
/// f32, which rounds back: the simple fraction behind it says the same for every extent. Other
/// scales need a known extent.
SymInt Scaled(SymInt extent, float scale) {
  const auto [a, b] = Fraction(scale);
  if (b != 0) return FloorDiv(extent * a, b);
  if (!extent.known() || !extent.is_const()) return SymInt();
  const double scaled = std::floor(double(float(extent.value()) * scale));
  WEFT_CHECK(scaled >= 0 && scaled < 0x1p62, kOverflow,
             "a dimension of {} by a scale of {} overflows", extent.value(), scale);
  return int64_t(scaled);
}

/// Extents under keep_aspect_ratio_policy: floor(in s + 1 / 2) with s the least (greatest) of
/// sizes / in: floor rises with s, so it is the least (greatest) of those.
SymInt KeptExtent(SymInt in, const std::vector<SymInt>& sizes, const std::vector<SymInt>& extents,
                  bool least) {
  SymInt best;
  for (size_t j = 0; j < sizes.size(); ++j) {
    const SymInt d = FloorDiv(sizes[j] * in * 2 + extents[j], Max(extents[j], 1) * 2);
    best = j == 0 ? d : least ? Min(best, d) : Max(best, d);
  }
  return best;
}

void ResizeShape(InferShapeContext& ctx) {
  const NodePtr& n = ctx.node();
  const auto& p = ParamOf<ResizeParam>(n);
  RuleOf(n);
  const bool by_sizes = Given(ctx, 3);
  WEFT_CHECK(by_sizes != Given(ctx, 2), kArity, "{}: exactly one of scales and sizes must be given",
             n->Describe());
  WEFT_CHECK(p.coordinate_transformation_mode != "tf_crop_and_resize" || Given(ctx, 1), kArity,
             "{}: tf_crop_and_resize needs roi", n->Describe());
  const Shape& x = ctx.in(0);
  const int which = by_sizes ? 3 : 2;
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  const std::vector<int> axes = ResizedAxes(n, x.rank());
  CheckRank(ctx, which, 1, by_sizes ? "sizes" : "scales");
  if (p.coordinate_transformation_mode == "tf_crop_and_resize" && CheckRank(ctx, 1, 1, "roi")) {
    UnifyDims(ctx, ctx.in(1)[0], int64_t(axes.size()) * 2,
              "the elements of roi and twice the axes");
  }
  if (const auto length = VectorLength(ctx, which)) {
    WEFT_CHECK(*length == int64_t(axes.size()), kShapeMismatch, "{}: {} {} for {} axes",
               n->Describe(), *length, by_sizes ? "sizes" : "scales", axes.size());
  }
  std::vector<SymInt> dims = x.dims();
  const SymTensorPtr value = InputValue(ctx, which);
  const TensorPtr constant = ctx.in_constant(which);
  std::vector<SymInt> extents, sizes;
  for (size_t k = 0; k < axes.size(); ++k) {
    SymInt& d = dims[size_t(axes[k])];
    extents.push_back(d);
    if (by_sizes) {
      d = value ? value->elements.at(k) : SymInt();
    } else if (constant) {
      const double s = constant->at(int64_t(k));
      WEFT_CHECK(s > 0 && std::isfinite(s), kShapeMismatch, "{}: scale {} of axis {}",
                 n->Describe(), s, axes[k]);
      d = Scaled(d, float(s));
    } else {
      d = value && value->elements.at(k).known() ? d * value->elements[k] : SymInt();
    }
    sizes.push_back(d);
    if (by_sizes) DemandElement(ctx, extents.back(), d, "the axis is empty, its size is not");
    if (!d.known() && extents[k].known()) {
      d = ctx.unbacked(axes[k]);
      Unknown(ctx, 0,
              by_sizes ? "the sizes are not known at compile time"
                       : "the scales are not known at compile time");
    }
    WEFT_CHECK(!d.known() || !d.is_const() || d.value() >= 0, kShapeMismatch, "{}: size {}",
               n->Describe(), d.ToString());
  }
  if (by_sizes && p.keep_aspect_ratio_policy != "stretch") {
    for (size_t k = 0; k < axes.size(); ++k) {
      const SymInt kept =
          KeptExtent(extents[k], sizes, extents, p.keep_aspect_ratio_policy == "not_larger");
      dims[size_t(axes[k])] = kept.known() ? kept : ctx.unbacked(axes[k]);
    }
  }
  ctx.set_out(0, Shape(std::move(dims)));
}

// ---- code ----

/// Element k of roi, scales or sizes in f64; known, or read when the code runs.
Expr Element64(const TensorArg& arg, size_t k) {
  if (arg.value && k < arg.value->elements.size() && arg.value->elements[k].known())
    return Expr::Cast(DType::kF64, Expr::Dim(arg.value->elements[k]));
  return Expr::Cast(DType::kF64, arg({Expr::Int(int64_t(k))}));
}

/// The one scale of all axes that keep their ratio: the least (not_larger) or
/// greatest sizes / extents.
struct KeptScale {
  Expr up, down;     ///< f64, of the axis that decides
  SymInt half_taps;  ///< reach / scale, rounded up; unknown where a size is
};
KeptScale KeptScaleOf(const NodePtr& n, const ResizeRule& rule, const Shape& x,
                      const TensorArg& sizes, const std::vector<int>& axes) {
  const bool least = ParamOf<ResizeParam>(n).keep_aspect_ratio_policy == "not_larger";
  KeptScale kept;
  for (size_t k = 0; k < axes.size(); ++k) {
    const SymInt in = x[axes[k]];
    const Expr up = Element64(sizes, k), down = Expr::Cast(DType::kF64, Expr::Dim(in));
    const SymInt size =
        sizes.value && k < sizes.value->elements.size() ? sizes.value->elements[k] : SymInt();
    const SymInt half = size.known() ? CeilDiv(in * FilterReach(rule), Max(size, 1)) : SymInt();
    if (k == 0) {
      kept = {up, down, half};
      continue;
    }
    const Expr mine = up * kept.down, best = kept.up * down;
    const Expr better = least ? Lt(mine, best) : Lt(best, mine);
    kept.up = Expr::Select(better, up, kept.up);
    kept.down = Expr::Select(better, down, kept.down);
    if (!half.known() || !kept.half_taps.known())
      kept.half_taps = SymInt();
    else
      kept.half_taps = least ? Max(kept.half_taps, half) : Min(kept.half_taps, half);
  }
  return kept;
}

/// Taps of a given scale: a number, or one that is read when the code runs. Then the extents tell,
/// for out is in scale rounded down.
SymInt HalfTapsOf(const ResizeAxis& a, int64_t reach) {
  if (a.scale->kind() != ExprKind::kConst) return CeilDiv(a.in * reach, Max(a.out, 1));
  return int64_t(std::min(std::ceil(double(reach) / a.scale->const_value()), 0x1p60));
}

/// Extents whose products f64 holds exactly.
constexpr int64_t kMaxStrided = int64_t{1} << 25;

/// The axes on which something happens. `in` are roi, scales, sizes.
std::vector<ResizeAxis> AxesOf(const NodePtr& n, const ResizeRule& rule, const Shape& x,
                               const Shape& y, const std::vector<const TensorArg*>& in) {
  const auto& p = ParamOf<ResizeParam>(n);
  const TensorArg &roi = *in[0], &scales = *in[1], &sizes = *in[2];
  const bool crop = p.coordinate_transformation_mode == "tf_crop_and_resize";
  const bool keeps = sizes.present && p.keep_aspect_ratio_policy != "stretch";
  const int64_t reach = FilterReach(rule);
  const std::vector<int> axes = ResizedAxes(n, x.rank());
  const KeptScale common = keeps ? KeptScaleOf(n, rule, x, sizes, axes) : KeptScale();
  std::vector<ResizeAxis> out;
  for (size_t k = 0; k < axes.size(); ++k) {
    ResizeAxis a;
    a.axis = axes[k];
    a.in = x[axes[k]];
    a.out = y[axes[k]];
    if (scales.present) a.scale = Element64(scales, k);
    const bool kept = scales.present ? a.scale->is_const(1) : !keeps && a.in == a.out;
    if (kept && !crop) continue;
    if (scales.present) {
      a.half_taps = HalfTapsOf(a, reach);
      if (const double s = a.scale->kind() == ExprKind::kConst ? a.scale->const_value() : 0;
          s >= 1 && s < 0x1p31 && s == std::floor(s)) {
        a.whole = int64_t(s);
      } else if (int half = 0; s > 0x1p-31 && s < 1 && std::frexp(s, &half) == 0.5) {
        a.stride = int64_t{1} << (1 - half);  // of other scales the quotient rounds
      }
    } else if (keeps) {
      a.up = common.up;
      a.down = common.down;
      // Out is in scale rounded to the nearest: 1 / scale <= in / (out - 1/2).
      a.half_taps = common.half_taps.known() ? common.half_taps
                                             : CeilDiv(a.in * (2 * reach), Max(a.out * 2 - 1, 1));
    } else {
      a.up = Expr::Cast(DType::kF64, Expr::Dim(a.out));
      a.down = Expr::Cast(DType::kF64, Expr::Dim(a.in));
      a.half_taps = CeilDiv(a.in * reach, Max(a.out, 1));
      for (const int64_t s : {2, 3, 4, 8, 16, 32})
        if (a.out == a.in * s) a.whole = s;
      if (a.in.is_const() && a.out.is_const() && a.in.value() > 0 &&
          a.out.value() % a.in.value() == 0)
        a.whole = a.out.value() / a.in.value();
      if (a.in.is_const() && a.out.is_const() && a.out.value() > 0 &&
          a.in.value() % a.out.value() == 0 && a.in.value() > a.out.value() &&
          a.in.value() <= kMaxStrided)
        a.stride = a.in.value() / a.out.value();
    }
    a.half_taps = Max(a.half_taps, reach);
    if (a.up) a.scale = a.up / a.down;
    if (!crop && !keeps) {
      const Expr unit = scales.present ? Eq(a.scale, Expr::Const(DType::kF64, 1))
                                       : Eq(Expr::Dim(a.in), Expr::Dim(a.out));
      if (unit->kind() != ExprKind::kConst) a.unit = unit;
    }
    if (crop) {
      a.begin = Element64(roi, k);
      a.end = Element64(roi, k + axes.size());
    }
    out.push_back(a);
  }
  std::sort(out.begin(), out.end(),
            [](const ResizeAxis& a, const ResizeAxis& b) { return a.axis < b.axis; });
  return out;
}

/// The dtype that interpolation is done in.
DType ComputeType(DType x) {
  if (!IsFloat(x)) return DType::kF64;
  return AccumulatorOf(x);
}
Expr Rounded(DType to, const Expr& y) {
  if (y->dtype() == to) return y;
  return Expr::Cast(to, IsFloat(to) ? y : Expr::Unary(UnOp::kRound, y));
}

/// Some output position reads outside; null where none can.
Expr Outside(const ResizeRule& rule, const std::vector<ResizeAxis>& axes, const Indices& at) {
  Expr outside;
  for (const ResizeAxis& a : axes) {
    const Expr o = ResizeOutside(rule, a, at[size_t(a.axis)]);
    if (o) outside = outside ? Or(outside, o) : o;
  }
  return outside;
}

/// `e`, or 0 where the axis turns out not to be resized and this tap is beside the element
/// itself: a weight of 0 would make NaN of what is not finite, and where the scale is known
/// no tap is there.
Expr UnlessUnit(const ResizeAxis& a, const Expr& beside, const Expr& e) {
  return a.unit ? Expr::Select(And(a.unit, beside), Zero(e->dtype()), e) : e;
}

/// Interpolation along axes k, k + 1 ...: the sum over the taps of each.
Expr Interpolate(const TensorArg& x, DType t, const std::vector<ResizeAxis>& axes,
                 const std::vector<std::vector<ResizeTap>>& taps, size_t k, Indices* from) {
  if (k == axes.size()) return Expr::Cast(t, x(*from));
  Expr sum;
  const size_t own = taps[k].size() / 2 - 1;
  for (size_t i = 0; i < taps[k].size(); ++i) {
    const ResizeTap& tap = taps[k][i];
    (*from)[size_t(axes[k].axis)] = tap.position;
    const Expr weighed = Interpolate(x, t, axes, taps, k + 1, from) * Expr::Cast(t, tap.weight);
    const Expr e = UnlessUnit(axes[k], Expr::Bool(i != own), weighed);
    sum = sum ? sum + e : e;
  }
  return sum;
}

Expr Antialiased(const ResizeRule& rule, const TensorArg& x, DType t,
                 const std::vector<ResizeAxis>& axes, const Indices& at) {
  std::vector<SymInt> extents;
  for (const ResizeAxis& a : axes) extents.push_back(AntialiasTaps(a));
  Expr weights = Expr::Const(DType::kF64, 1);
  for (const ResizeAxis& a : axes) weights = weights * AntialiasSum(rule, a, at[size_t(a.axis)]);
  const Expr sum = ReduceOver(ReduceOp::kSum, extents, [&](const Indices& r) {
    Indices from = at;
    Expr w = Expr::Const(DType::kF64, 1);
    for (size_t k = 0; k < axes.size(); ++k) {
      Expr& i = from[size_t(axes[k].axis)];
      const ResizeTap tap = AntialiasTap(rule, axes[k], i, r[k]);
      i = tap.position;
      w = w * tap.weight;
    }
    Expr e = Expr::Cast(t, x(from)) * Expr::Cast(t, w);
    for (size_t k = 0; k < axes.size(); ++k)
      e = UnlessUnit(axes[k], Ne(r[k], Expr::Dim(axes[k].half_taps - 1)), e);
    return e;
  });
  return sum / Expr::Cast(t, weights);
}

Exprs ResizeCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const ResizeRule rule = RuleOf(n);
  const TensorArg& x = in[0];
  const auto axes =
      AxesOf(n, rule, x.shape, at.shape[0], {Given(in, 1), Given(in, 2), Given(in, 3)});
  Expr y;
  if (rule.mode == "nearest") {
    Indices from = at(0);
    for (const ResizeAxis& a : axes) {
      Expr& i = from[size_t(a.axis)];
      i = ResizeTaps(rule, a, i)[0].position;
    }
    y = x(from);
  } else {
    const DType t = ComputeType(x.dtype);
    if (rule.antialias) {
      y = Antialiased(rule, x, t, axes, at(0));
    } else {
      std::vector<std::vector<ResizeTap>> taps;
      for (const ResizeAxis& a : axes) taps.push_back(ResizeTaps(rule, a, at(0)[size_t(a.axis)]));
      CheckTaps(n, rule.mode == "cubic" ? 4 : 2, taps.size());
      Indices from = at(0);
      y = Interpolate(x, t, axes, taps, 0, &from);
    }
    y = Rounded(x.dtype, y);
  }
  if (const Expr outside = Outside(rule, axes, at(0)))
    y = Expr::Select(outside, Expr::Const(x.dtype, ParamOf<ResizeParam>(n).extrapolation_value), y);
  return {y};
}

// ---- gradient ----

/// What input position `to` weighs in output position `o` along one axis, in f64.
Expr WeightOf(const ResizeRule& rule, const ResizeAxis& a, const Expr& o, const Expr& to) {
  const Expr zero = Zero(DType::kF64);
  if (rule.antialias) {
    const Expr sum = Expr::Reduce(ReduceOp::kSum, {AntialiasTaps(a)}, [&](const Indices& r) {
      const ResizeTap tap = AntialiasTap(rule, a, o, r[0]);
      return Expr::Select(Eq(tap.position, to), tap.weight, zero);
    });
    return sum / AntialiasSum(rule, a, o);
  }
  Expr sum;
  for (const ResizeTap& tap : ResizeTaps(rule, a, o)) {
    const Expr w = Expr::Select(Eq(tap.position, to), tap.weight, zero);
    sum = sum ? sum + w : w;
  }
  return sum;
}

/// dx[i] = sum over output positions o of dy[o] times the product of the axes' weights.
Exprs ResizeGradCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const ResizeRule rule = RuleOf(n);
  const TensorArg& dy = in[0];
  const DType t = AccumulatorOf(dy.dtype);
  const auto axes =
      AxesOf(n, rule, at.shape[0], dy.shape, {Given(in, 2), Given(in, 3), Given(in, 4)});
  std::vector<SymInt> extents;
  for (const ResizeAxis& a : axes) extents.push_back(a.out);
  const Expr dx = ReduceOver(ReduceOp::kSum, extents, [&](const Indices& r) {
    Indices from = at(0);
    Expr w = Expr::Const(DType::kF64, 1);
    for (size_t k = 0; k < axes.size(); ++k) {
      const size_t axis = size_t(axes[k].axis);
      from[axis] = r[k];
      w = w * WeightOf(rule, axes[k], r[k], at(0)[axis]);
    }
    if (const Expr outside = Outside(rule, axes, from))
      w = Expr::Select(outside, Zero(DType::kF64), w);
    return Expr::Cast(t, dy(from)) * Expr::Cast(t, w);
  });
  return {Expr::Cast(dy.dtype, dx)};
}

/// Inputs of the gradient: dy, the shape of x, then roi, scales and sizes as they were.
std::vector<NodeEntry> ResizeGradient(const NodePtr& n, const std::vector<NodeEntry>& dy) {
  std::vector<NodeEntry> d(n->inputs.size());
  if (!dy[0]) return d;
  std::vector<NodeEntry> in{dy[0], ShapeOf(n->inputs[0])};
  for (size_t i = 1; i < 4; ++i) in.push_back(HasInput(n, i) ? n->inputs[i] : NodeEntry());
  d[0] = ApplyOp("weft::ResizeGrad", in, AttrsOf(n));
  return d;
}
std::vector<NodeEntry> ResizeGradGradient(const NodePtr& n, const std::vector<NodeEntry>& g) {
  std::vector<NodeEntry> d(n->inputs.size());
  if (!g[0]) return d;
  std::vector<NodeEntry> in{g[0]};
  for (size_t i = 2; i < 5; ++i) in.push_back(HasInput(n, i) ? n->inputs[i] : NodeEntry());
  while (!in.back()) in.pop_back();
  AttrDict attrs = AttrsOf(n);
  attrs["extrapolation_value"] = 0.0;
  d[0] = ApplyOp("Resize", in, attrs);
  return d;
}

void ResizeType(InferTypeContext& ctx) {
  const bool nearest = ParamOf<ResizeParam>(ctx.node()).mode == "nearest";
  const bool grad = IsOp(ctx.node(), "weft::ResizeGrad");
  CheckInputType(ctx, 0, grad ? kFloats : nearest ? kComputable : kNumeric);
  const int roi = grad ? 2 : 1;
  CheckInputType(ctx, roi, kFloats);
  CheckInputType(ctx, roi + 1, kFloats);
  CheckInputType(ctx, roi + 2, kI64Only);
  if (grad) CheckInputType(ctx, 1, kI64Only);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}

}  // namespace

WEFT_REGISTER_OP(Resize)
    .describe(
        "y[.., o, ..] = sum of weight(o) x[.., position(o), ..] over the positions that the mode "
        "reads, axis by axis; scales or sizes give the dimensions floor(in scale) or size. "
        "Coordinates are computed in f64, nearest ones by a given scale as f32 rounds them.\n"
        "Integers round to even.\n"
        "Gradient: weft::ResizeGrad; keeps roi, scales, sizes. Errors: both or none of scales and "
        "sizes (kArity), an unknown mode (kBadAttribute), as many scales as axes, a scale that is "
        "not positive (kShapeMismatch). Source: ONNX Resize-19.")
    .input("X", TypeDoc(kComputable), "bool with mode nearest only")
    .optional_input("roi", TypeDoc(kFloats, "T2"), "begins, then ends, for tf_crop_and_resize")
    .optional_input("scales", TypeDoc(kFloats, "T3"), "one an axis")
    .optional_input("sizes", "i64", "one an axis")
    .output("Y", "T")
    .param<ResizeParam>()
    .example({"f32[1, 2, 3, 4]", "_", "f32[4] = [1, 1, 2, 3]"})
    .example({"f32[1, 1, 4, 4]", "_", "f32[4] = [1, 1, 0.6, 1.5]"}, "mode = \"cubic\"")
    .example({"f32[n, 2, 5]", "_", "_", "i64[1] = [3]"},
             "mode = \"linear\", axes = [2], antialias = 1")
    .example({"f32[1, 1, 4, 4]", "f32[4] = [0.25, 0, 0.75, 1.5]", "_", "i64[2] = [3, 3]"},
             "mode = \"linear\", axes = [2, 3], coordinate_transformation_mode = "
             "\"tf_crop_and_resize\", extrapolation_value = 10.0")
    .example({"f32[h, w]", "_", "_", "i64[2] = [7, 9]"},
             "keep_aspect_ratio_policy = \"not_larger\"")
    .set_attr<FInferType>("FInferType", ResizeType)
    .set_attr<FInferShape>("FInferShape", ResizeShape)
    .set_attr<TSizeOperands>("TSizeOperands", {1, 2, 3})
    .set_attr<FCodeGen>("FCodeGen", ResizeCode)
    .set_attr<FInputDomains>("FInputDomains",
                             [](const NodePtr&) -> std::vector<InputDomain> {
                               return {InputDomain(), InputDomain(), {InputDomain::kPositive}};
                             })
    .set_attr<FGradient>("FGradient", ResizeGradient);

WEFT_REGISTER_OP_IN(weft, ResizeGrad)
    .describe(
        "Gradient of Resize from dy, the shape of x and the inputs of Resize. Gradient: Resize. "
        "Source: Weft.")
    .input("dy", TypeDoc(kFloats))
    .input("shape", "i64", "dimensions of x")
    .optional_input("roi", TypeDoc(kFloats, "T2"))
    .optional_input("scales", TypeDoc(kFloats, "T3"))
    .optional_input("sizes", "i64")
    .output("dx", "T")
    .param<ResizeParam>()
    .example({"f32[1, 6]", "i64[2] = [1, 3]", "_", "f32[2] = [1, 2]"}, "mode = \"linear\"")
    .set_attr<FInferType>("FInferType", ResizeType)
    .set_attr<FInferShape>("FInferShape", AdjointShape(ResizeShape, 1, {kSought, 2, 3, 4}))
    .set_attr<FCodeGen>("FCodeGen", ResizeGradCode)
    .set_attr<FGradient>("FGradient", ResizeGradGradient);

}  // namespace weft::ops
