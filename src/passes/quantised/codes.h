/// codes.h: 8-bit numbers and what they stand for, as DequantizeLinear and QuantizeLinear say it;
/// for the pass Quantised.
#pragma once

#include <optional>
#include <vector>

#include "weft/core/graph/typed_edit.h"
#include "weft/core/tensor/tensor.h"

namespace weft::quantised {

/// Scales and zero points of a tensor of 8-bit numbers, all constant, every scale above zero and
/// finite. One number, or one for each index of `axis`.
struct Scaling {
  std::vector<float> scale;
  std::vector<int64_t> zero;      ///< as many as scales, or one
  int64_t axis = 0;               ///< of several; counted from the front
  DType dtype = DType::kUnknown;  ///< kU8, kI8; kI32 of a bias
  NodeEntry zero_entry;           ///< null: zero

  bool single() const { return scale.size() == 1; }
  bool same(const Scaling& other) const {
    return scale == other.scale && zero == other.zero && dtype == other.dtype &&
           (single() || axis == other.axis);
  }
};

/// A value that DequantizeLinear makes of `codes`, and one that QuantizeLinear makes of `x`.
struct Codes {
  NodeEntry codes;
  Scaling by;
};
struct Rounded {
  NodeEntry x;
  Scaling by;
};
/// Nothing where it is something else: of 8 bits, in f32, and in no blocks. `e` may be of i32 for a
/// bias.
std::optional<Codes> CodesOf(const TypedEdit& edit, const NodeEntry& e);
std::optional<Rounded> RoundedBy(const TypedEdit& edit, const NodePtr& n);

/// Of operands of QLinearConv and QLinearMatMul: `scale` and `zero` constants.
std::optional<Scaling> ScalingOf(const NodeEntry& scale, const NodeEntry& zero, DType dtype,
                                 int64_t axis);

/// The least and the greatest number of a dtype.
struct Bounds {
  int64_t low = 0, high = 0;
};
Bounds BoundsOf(DType dtype);
/// round(x / scale) + zero, within the dtype: the operator QuantizeLinear of one number.
int64_t Quantise(float x, const Scaling& by);

}  // namespace weft::quantised
