/// integer_table.h: what every integer operator means, as plain functions on 128-bit integers,
/// and tensors of their results; the oracle of the tests of integers. Nothing here comes from
/// the code under test.
///
/// Weft's conventions: results wrap to their dtype, division truncates, x / 0 = 0, x mod 0 = 0,
/// shifts by the width or more give 0; float to integer truncates and saturates, NaN gives 0;
/// integers become f16 and bf16 by way of f32.
#pragma once

#include <string>
#include <vector>

#include "weft/core/graph/graph.h"
#include "weft/core/tensor/tensor.h"

namespace weft::integers {

using Wide = __int128;
/// Elements of a tensor in the range of its dtype.
using Column = std::vector<Wide>;

inline const std::vector<DType> kTypes = {DType::kI8, DType::kI16, DType::kI32, DType::kI64,
                                          DType::kU8, DType::kU16, DType::kU32, DType::kU64};
inline const std::vector<DType> kFloatTypes = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

Wide Least(DType t);
Wide Most(DType t);
/// v modulo 2^bits, in the range of t.
Wide Wrap(DType t, Wide v);
/// The ends of the range, what is near 0, powers of two and their neighbours; each once, ascending.
Column Corners(DType t);
/// A few of them, for constants.
Column FewCorners(DType t);
/// Every value of an 8-bit type.
Column AllValues(DType t);

struct BinaryRow {
  std::string op;
  AttrDict attrs;
  Wide (*f)(Wide a, Wide b, DType t);  ///< not wrapped yet
  bool to_bool = false;
};
/// Operators on two operands of dtype t (bool included).
std::vector<BinaryRow> BinaryRows(DType t);

struct UnaryRow {
  std::string op;
  AttrDict attrs;
  Wide (*f)(Wide a, DType t);
};
std::vector<UnaryRow> UnaryRows(DType t);

/// Reductions of a line, and sums and products that run along it.
struct LineRow {
  std::string op;
  AttrDict attrs;
  Column (*f)(const Column& line, DType t);  ///< one element, or one an element; wrapped
  bool running = false;
  DType result = DType::kUnknown;  ///< kUnknown: that of the line
};
std::vector<LineRow> LineRows(DType t);

/// v (of dtype `from`) as dtype `to`, both integers or bool.
Wide CastInteger(Wide v, DType to);
/// A float (f32 or f64 value) as an integer.
Wide CastFloat(double v, DType to);
/// An integer as a float, rounded as documented.
double CastToFloat(Wide v, DType to);

TensorPtr MakeTensor(DType t, std::vector<int64_t> dims, const Column& values);
TensorPtr ScalarOf(DType t, Wide v);
/// What differs first; empty when nothing does. Floats: equal values, NaN equals NaN.
std::string FirstDifference(const Tensor& got, const Tensor& want);

}  // namespace weft::integers
