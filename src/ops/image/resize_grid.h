/// resize_grid.h: where Resize reads: one axis's map from output positions to input coordinates,
/// and the input positions and weights that a coordinate is interpolated from.
///
/// Coordinates are computed in f64: they decide which element is read, so rounding must not. A
/// scale that comes from extents is kept as their quotient, so a coordinate that is an element is
/// exactly that. A scale that is given is f32, and 3 / 0.6f lies below 5: nearest divides by it in
/// f32, where the quotient rounds back to 5, as in ONNX Runtime. Where the scale is a whole number,
/// or one over one, known when the code is made, nearest positions are integer arithmetic.
#pragma once

#include <string>
#include <vector>

#include "ops/util/shape_util.h"

namespace weft::ops {

/// The attributes that decide positions and weights.
struct ResizeRule {
  std::string mode = "nearest";  ///< nearest, linear, cubic
  std::string coordinates = "half_pixel";
  std::string rounding = "round_prefer_floor";  ///< nearest
  double cubic_a = -0.75;
  bool antialias = false, exclude_outside = false;
};

/// One axis that is resized.
struct ResizeAxis {
  int axis = 0;
  SymInt in, out;
  Expr scale;     ///< f64
  Expr up, down;  ///< f64, scale = up / down where it comes from extents; null where it is given
  int64_t whole = 0;   ///< the scale where it is known to be a whole number, and out = in whole
  int64_t stride = 0;  ///< 1 / scale where it is known to be a whole number, exactly; out is in /
                       ///< stride, rounded down where the scale is given
  SymInt half_taps;    ///< antialias: reach / scale, rounded up, no less than the filter's reach
  /// the scale is 1, where only a run tells; else null: an axis of scale 1 is not resized
  Expr unit;
  Expr begin, end;  ///< f64, region of interest; tf_crop_and_resize only
};

/// An input position (inside the axis) and its weight in f64.
struct ResizeTap {
  Expr position, weight;
};

/// How far a filter reaches, in elements, where the image does not shrink.
int64_t FilterReach(const ResizeRule& rule);
/// Input coordinate (f64) of output position `i`.
Expr ResizeCoordinate(const ResizeRule& rule, const ResizeAxis& a, const Expr& i);
/// The coordinate lies outside [0, in - 1]: the result is the extrapolation value.
/// Null where that cannot be.
Expr ResizeOutside(const ResizeRule& rule, const ResizeAxis& a, const Expr& i);
/// One tap (nearest), two (linear) or four (cubic). Weights add up to 1.
std::vector<ResizeTap> ResizeTaps(const ResizeRule& rule, const ResizeAxis& a, const Expr& i);

/// With antialias: the number of taps, tap r of them, and what their weights add up to.
SymInt AntialiasTaps(const ResizeAxis& a);
ResizeTap AntialiasTap(const ResizeRule& rule, const ResizeAxis& a, const Expr& i, const Expr& r);
Expr AntialiasSum(const ResizeRule& rule, const ResizeAxis& a, const Expr& i);

}  // namespace weft::ops
