/// resize_grid.cc: coordinates, positions and weights of Resize (resize_grid.h).
#include "resize_grid.h"

namespace weft::ops {
namespace {

Expr F64(const Expr& e) { return Expr::Cast(DType::kF64, e); }
Expr F64(SymInt e) { return F64(Expr::Dim(e)); }
Expr I64(const Expr& e) { return Expr::Cast(DType::kI64, e); }
Expr Floor(const Expr& e) { return Expr::Unary(UnOp::kFloor, e); }
Expr Ceil(const Expr& e) { return Expr::Unary(UnOp::kCeil, e); }

Expr Clamp(const ResizeAxis& a, const Expr& i) {
  return Max(Expr::Int(0), Min(i, Expr::Dim(a.in - 1)));
}

/// The nearest position for a whole scale s, from the coordinate as a fraction over 2 s:
///   asymmetric 2 i / 2 s       half_pixel (2 i + 1 - s) / 2 s
/// Null for other coordinates.
Expr WholeNearest(const ResizeRule& rule, const ResizeAxis& a, const Expr& i) {
  const bool centered = rule.coordinates == "half_pixel" ||
                        rule.coordinates == "half_pixel_symmetric" ||
                        rule.coordinates == "pytorch_half_pixel";
  if (a.whole == 0 || (!centered && rule.coordinates != "asymmetric")) return Expr();
  const bool up = rule.rounding == "ceil", down = rule.rounding == "floor";
  // With centers on centers no tie exists: both roundings give the block that i is in.
  if (centered ? !up && !down : down) return FloorDivExpr(i, Expr::Int(a.whole));
  const int64_t shift =
      (centered ? 1 - a.whole : 0) + (down                                   ? 0
                                      : up                                   ? 2 * a.whole - 1
                                      : rule.rounding == "round_prefer_ceil" ? a.whole
                                                                             : a.whole - 1);
  return Clamp(a, FloorDivExpr(i * Expr::Int(2) + Expr::Int(shift), Expr::Int(2 * a.whole)));
}

Expr Nearest(const ResizeRule& rule, const Expr& x) {
  if (rule.rounding == "floor") return Floor(x);
  if (rule.rounding == "ceil") return Ceil(x);
  return rule.rounding == "round_prefer_ceil" ? Floor(x + 0.5) : Ceil(x - 0.5);
}

/// Cubic convolution with parameter A at distance d >= 0; 0 from 2 on.
Expr Cubic(double a, const Expr& d) {
  const Expr near = ((d * (a + 2) - (a + 3)) * d) * d + 1.0;
  const Expr far = ((d * a - 5 * a) * d + 8 * a) * d - 4 * a;
  return Expr::Select(Le(d, Expr::Const(DType::kF64, 1)), near,
                      Expr::Select(Lt(d, Expr::Const(DType::kF64, 2)), far, Zero(DType::kF64)));
}
Expr Filter(const ResizeRule& rule, const Expr& distance) {
  const Expr d = Expr::Unary(UnOp::kAbs, distance);
  if (rule.mode == "cubic") return Cubic(rule.cubic_a, d);
  return Max(Zero(DType::kF64), 1.0 - d);
}

}  // namespace

Expr ResizeCoordinate(const ResizeRule& rule, const ResizeAxis& a, const Expr& i) {
  const Expr x = F64(i), in = F64(a.in), out = a.scale * in, one = Expr::Const(DType::kF64, 1);
  const Expr centered = (x + 0.5) / a.scale - 0.5;
  const std::string& mode = rule.coordinates;
  if (mode == "asymmetric") return x / a.scale;
  if (mode == "tf_half_pixel_for_nn") return (x + 0.5) / a.scale;
  if (mode == "align_corners")
    return Expr::Select(Eq(out, one), Zero(DType::kF64), x * (in - one) / (out - one));
  if (mode == "pytorch_half_pixel")
    return Expr::Select(Eq(out, one), Expr::Const(DType::kF64, -0.5), centered);
  // in / 2 (1 - out / (in s)) + (i + 1/2) / s - 1/2 with one division, which rounds the least.
  if (mode == "half_pixel_symmetric")
    return (x + 0.5 - F64(a.out) / 2.0) / a.scale + (in / 2.0 - 0.5);
  if (mode == "tf_crop_and_resize") {
    const Expr span = (a.end - a.begin) * (in - one);
    return Expr::Select(Eq(out, one), span / 2.0, x * span / (out - one)) + a.begin * (in - one);
  }
  return centered;
}

Expr ResizeOutside(const ResizeRule& rule, const ResizeAxis& a, const Expr& i) {
  if (rule.coordinates != "tf_crop_and_resize") return Expr();
  const Expr x = ResizeCoordinate(rule, a, i);
  return Or(Lt(x, Zero(DType::kF64)), Lt(F64(a.in - 1), x));
}

std::vector<ResizeTap> ResizeTaps(const ResizeRule& rule, const ResizeAxis& a, const Expr& i) {
  const Expr one = Expr::Const(DType::kF64, 1);
  if (rule.mode == "nearest") {
    if (const Expr p = WholeNearest(rule, a, i)) return {{p, one}};
    return {{Clamp(a, I64(Nearest(rule, ResizeCoordinate(rule, a, i)))), one}};
  }
  const Expr x = ResizeCoordinate(rule, a, i), base = Floor(x), first = I64(base), t = x - base;
  std::vector<ResizeTap> taps;
  Expr sum;
  const int reach = rule.mode == "cubic" ? 2 : 1;
  for (int k = 1 - reach; k <= reach; ++k) {
    const Expr p = first + Expr::Int(k);
    Expr w = reach == 1 ? (k == 0 ? one - t : t) : Filter(rule, t - Expr::Const(DType::kF64, k));
    if (rule.exclude_outside) w = Expr::Select(InRange(p, Expr::Dim(a.in)), w, Zero(DType::kF64));
    sum = sum ? sum + w : w;
    taps.push_back({Clamp(a, p), w});
  }
  if (rule.exclude_outside)
    for (ResizeTap& tap : taps) tap.weight = tap.weight / sum;
  return taps;
}

// ---- antialias: the filter is stretched by 1 / scale where that is more than 1 ----

namespace {
SymInt HalfTaps(const ResizeRule& rule, const ResizeAxis& a) {
  const int reach = rule.mode == "cubic" ? 2 : 1;
  // reach / scale <= reach in / out, for out is in scale rounded down.
  return Max(CeilDiv(a.in * reach, Max(a.out, 1)), reach);
}
}  // namespace

SymInt AntialiasTaps(const ResizeRule& rule, const ResizeAxis& a) { return HalfTaps(rule, a) * 2; }

ResizeTap AntialiasTap(const ResizeRule& rule, const ResizeAxis& a, const Expr& i, const Expr& r) {
  const Expr x = ResizeCoordinate(rule, a, i);
  const Expr p = I64(Floor(x)) + r + Expr::Int(1) - Expr::Dim(HalfTaps(rule, a));
  Expr w = Filter(rule, (x - F64(p)) * Min(a.scale, Expr::Const(DType::kF64, 1)));
  if (rule.exclude_outside) w = Expr::Select(InRange(p, Expr::Dim(a.in)), w, Zero(DType::kF64));
  return {Clamp(a, p), w};
}

Expr AntialiasSum(const ResizeRule& rule, const ResizeAxis& a, const Expr& i) {
  return Expr::Reduce(ReduceOp::kSum, {AntialiasTaps(rule, a)},
                      [&](const Indices& r) { return AntialiasTap(rule, a, i, r[0]).weight; });
}

}  // namespace weft::ops
