/// resize_grid.cc: coordinates, positions and weights of Resize (resize_grid.h).
#include "resize_grid.h"

#include <optional>

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

/// The coordinate of i where every stride-th element counts: stride i + halves / 2, which does not
/// leave the axis.
///   asymmetric stride i       half_pixel stride i + (stride - 1) / 2
/// Nothing for other coordinates.
std::optional<int64_t> StridedHalves(const ResizeRule& rule, const ResizeAxis& a) {
  if (a.stride == 0) return std::nullopt;
  if (rule.coordinates == "asymmetric") return 0;
  if (rule.coordinates == "half_pixel" ||
      (rule.coordinates == "half_pixel_symmetric" && a.in == a.out * a.stride) ||
      (rule.coordinates == "pytorch_half_pixel" && a.out.is_const() && a.out.value() > 1))
    return a.stride - 1;
  return std::nullopt;
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

/// x rounded to the 24 bits of f32 by f64 arithmetic alone (Veltkamp's splitting): the interpreter
/// in double precision does not round where it converts.
Expr InF32(const Expr& x) {
  const Expr high = x * double((1 << 29) + 1);
  return high + (x - high);
}

/// The coordinate where it is a quotient by the scale. `single`: what f32 gives, where
/// the scale is given.
Expr Scaled(const ResizeRule& rule, const ResizeAxis& a, const Expr& i, bool single) {
  const auto divided = [&](const Expr& e) {
    if (a.up) return e * a.down / a.up;
    return single ? InF32(e / a.scale) : e / a.scale;
  };
  const Expr x = F64(i);
  const std::string& mode = rule.coordinates;
  if (mode == "asymmetric") return divided(x);
  if (mode == "tf_half_pixel_for_nn") return divided(x + 0.5);
  const Expr centered = divided(x + 0.5) - 0.5;
  if (mode == "pytorch_half_pixel")
    return Expr::Select(Eq(Expr::Dim(a.out), Expr::Int(1)), Zero(DType::kF64), centered);
  if (mode != "half_pixel_symmetric") return centered;
  // in / 2 (1 - out / (in s)) + (i + 1/2) / s - 1/2: with one division, which rounds the least.
  // With a given scale ONNX Runtime rounds the first term and the whole to f32.
  const Expr in = F64(a.in), out = F64(a.out);
  if (!single) return divided(x + 0.5 - out / 2.0) + (in / 2.0 - 0.5);
  const Expr offset = InF32(in / 2.0 * InF32(1.0 - InF32(out / InF32(in * a.scale))));
  return InF32(offset + (x + 0.5) / a.scale - 0.5);
}

}  // namespace

int64_t FilterReach(const ResizeRule& rule) { return rule.mode == "cubic" ? 2 : 1; }

Expr ResizeCoordinate(const ResizeRule& rule, const ResizeAxis& a, const Expr& i) {
  const Expr x = F64(i), in = F64(a.in), one = Expr::Const(DType::kF64, 1);
  const Expr out = a.up ? a.up * in / a.down : a.scale * in;
  const std::string& mode = rule.coordinates;
  if (mode == "align_corners")
    return Expr::Select(Eq(out, one), Zero(DType::kF64), x * (in - one) / (out - one));
  if (mode == "tf_crop_and_resize") {
    const Expr span = (a.end - a.begin) * (in - one);
    return Expr::Select(Eq(out, one), span / 2.0, x * span / (out - one)) + a.begin * (in - one);
  }
  const Expr exact = Scaled(rule, a, i, false);
  if (rule.mode != "nearest" || a.up) return exact;
  // Beyond this f32 has no halves.
  const Expr most = Expr::Int(int64_t{1} << 22);
  const Expr small = And(Lt(Expr::Dim(a.in), most), Lt(Expr::Dim(a.out), most));
  return Expr::Select(small, Scaled(rule, a, i, true), exact);
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
    if (const auto halves = StridedHalves(rule, a)) {
      const bool up = rule.rounding == "ceil" || rule.rounding == "round_prefer_ceil";
      return {{i * Expr::Int(a.stride) + Expr::Int((*halves + up) / 2), one}};
    }
    return {{Clamp(a, I64(Nearest(rule, ResizeCoordinate(rule, a, i)))), one}};
  }
  Expr first, t;
  if (const auto halves = StridedHalves(rule, a)) {
    first = i * Expr::Int(a.stride) + Expr::Int(*halves / 2);
    t = Expr::Const(DType::kF64, *halves % 2 == 0 ? 0 : 0.5);
  } else {
    const Expr x = ResizeCoordinate(rule, a, i), base = Floor(x);
    first = I64(base);
    t = x - base;
  }
  std::vector<ResizeTap> taps;
  Expr sum;
  const int reach = int(FilterReach(rule));
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

SymInt AntialiasTaps(const ResizeAxis& a) { return a.half_taps * 2; }

ResizeTap AntialiasTap(const ResizeRule& rule, const ResizeAxis& a, const Expr& i, const Expr& r) {
  const Expr x = ResizeCoordinate(rule, a, i);
  const Expr p = I64(Floor(x)) + r + Expr::Int(1) - Expr::Dim(a.half_taps);
  Expr w = Filter(rule, (x - F64(p)) * Min(a.scale, Expr::Const(DType::kF64, 1)));
  if (rule.exclude_outside) w = Expr::Select(InRange(p, Expr::Dim(a.in)), w, Zero(DType::kF64));
  return {Clamp(a, p), w};
}

Expr AntialiasSum(const ResizeRule& rule, const ResizeAxis& a, const Expr& i) {
  return Expr::Reduce(ReduceOp::kSum, {AntialiasTaps(a)},
                      [&](const Indices& r) { return AntialiasTap(rule, a, i, r[0]).weight; });
}

}  // namespace weft::ops
