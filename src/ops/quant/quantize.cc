/// quantize.cc: QuantizeLinear, DequantizeLinear, MatMulInteger, QLinearMatMul.
#include <algorithm>
#include <cmath>

#include "integer_sums.h"
#include "ops/util/host_util.h"
#include "weft/core/tensor/demand.h"

namespace weft::ops {
namespace {

struct QuantizeParam : OpParam<QuantizeParam> {
  int64_t axis, saturate, block_size;
  DTypeField output_dtype, precision;
  WEFT_OP_PARAM(QuantizeParam) {
    WEFT_FIELD(axis).set_default(1).describe("axis of a 1-D or blocked scale, in [-rank, rank)");
    WEFT_FIELD(saturate).set_default(1).set_range(0, 1).describe("8-bit float results: as of Cast");
    WEFT_FIELD(block_size).set_default(0).set_lower_bound(0).describe("0: no blocks");
    WEFT_FIELD(output_dtype)
        .set_default({})
        .describe("dtype of the result; default: that of zero, else u8");
    WEFT_FIELD(precision).set_default({}).describe(
        "dtype of the division; default: that of scale, f16 and bf16 in f32");
  }
};
WEFT_REGISTER_OP_PARAM(QuantizeParam);

struct DequantizeParam : OpParam<DequantizeParam> {
  int64_t axis, block_size;
  DTypeField output_dtype;
  WEFT_OP_PARAM(DequantizeParam) {
    WEFT_FIELD(axis).set_default(1).describe("axis of a 1-D or blocked scale, in [-rank, rank)");
    WEFT_FIELD(block_size).set_default(0).set_lower_bound(0).describe("0: no blocks");
    WEFT_FIELD(output_dtype)
        .set_default({})
        .describe("dtype of the result; default: that of scale");
  }
};
WEFT_REGISTER_OP_PARAM(DequantizeParam);

constexpr DTypeSet kQuantized =
    kFloat8 | DTypeSet{DType::kI8, DType::kU8, DType::kI16, DType::kU16,   DType::kI4,
                       DType::kU4, DType::kI2, DType::kU2,  DType::kF4E2M1};
constexpr DTypeSet kDequantizable = kQuantized | DTypeSet{DType::kI32};
constexpr DTypeSet kQuantizable = kFloats | DTypeSet{DType::kI32};
constexpr DTypeSet kScales = kQuantizable | DTypeSet{DType::kF8E8M0};

// ---- scale and zero ----

/// Position of the scale that an element at `at` has. `Int` is int64_t or Expr.
template <class Int, class Divide>
std::vector<Int> ScaleAt(const std::vector<Int>& at, int scale_rank, bool single, int axis,
                         int64_t block, const Int& zero, Divide divide) {
  if (scale_rank == 0) return {};
  if (single) return std::vector<Int>(size_t(scale_rank), zero);
  if (scale_rank == 1 && (at.size() > 1 || block == 0)) return {at[size_t(axis)]};
  std::vector<Int> from = at;
  from[size_t(axis)] = divide(at[size_t(axis)], block);
  return from;
}

/// Elements of one block: `block_size`, or what the extents tell.
int64_t BlockOf(const NodePtr& n, int64_t block_size, const Dims& x, const Dims& scale, int axis) {
  if (block_size > 0) return block_size;
  const int64_t blocks = scale[size_t(axis)], extent = x[size_t(axis)];
  WEFT_CHECK(blocks > 0 && extent % blocks == 0, kShapeMismatch,
             "{}: {} blocks do not divide the size {}", n->Describe(), blocks, extent);
  return extent / blocks;
}

/// Extents of `scale` against those of x: one an index of the axis, or one a block of it.
void CheckScaleExtents(InferShapeContext& ctx, const Shape& x, const Shape& scale, int axis,
                       int64_t block) {
  const bool blocked = scale.rank() > 1 || (x.rank() == 1 && block > 0);
  for (int d = 0; d < scale.rank(); ++d) {
    const int of_x = scale.rank() == 1 ? axis : d;
    if (!blocked || of_x != axis)
      UnifyDims(ctx, x[of_x], scale[d], "the dimensions of scale and x");
    else if (block > 0 && x[of_x].known())
      UnifyDims(ctx, CeilDiv(x[of_x], block), scale[d], "the blocks of x and the size of scale");
  }
}

/// Of those that are known before the run. A quantiser that gives a scale below zero is wrong; as
/// factors such numbers are fine, and formats of few bits use the sign. Zero is what a
/// DynamicQuantizeLinear finds for zeros.
void CheckScaleValues(InferShapeContext& ctx, bool quantises) {
  const TensorPtr scale = ctx.in_constant(1);
  const float* floats = scale && scale->dtype() == DType::kF32 ? scale->data_as<float>() : nullptr;
  for (int64_t i = 0; scale && i < scale->num_elements(); ++i) {
    const double v = floats ? double(floats[i]) : scale->at(i);
    if (std::isfinite(v) && (v >= 0 || !quantises)) continue;
    ThrowError(ErrorCode::kInvalidModel,
               fmt::format("scale {} at index {} is {}", v, i,
                           std::isfinite(v) ? "below zero" : "not a finite number"),
               {},  // inference says where
               "quantise the model again: its quantiser saw nothing but zeros, or NaN or infinity, "
               "where it took this scale from");
  }
}

void CheckScale(InferShapeContext& ctx, int64_t axis_attr, int64_t block, bool quantises) {
  const Shape &x = ctx.in(0), &scale = ctx.in(1);
  UnaryShape(ctx);
  CheckScaleValues(ctx, quantises);
  if (!x.has_rank() || !scale.has_rank()) return;
  const bool single = scale.rank() <= 1 && scale.num_elements().is(1);
  const int axis = x.rank() == 0 ? 0 : single ? 0 : AxisOf(axis_attr, x.rank(), ctx.node());
  WEFT_CHECK(scale.rank() <= 1 || scale.rank() == x.rank(), kShapeMismatch,
             "{}: scale {} for x {}: one, one an index of the axis, or one a block",
             ctx.node()->Describe(), scale.ToString(), x.ToString());
  WEFT_CHECK(single || scale.rank() == 0 || x.rank() > 0, kShapeMismatch,
             "{}: scale {} for a scalar", ctx.node()->Describe(), scale.ToString());
  if (!single && scale.rank() > 0) CheckScaleExtents(ctx, x, scale, axis, block);
  if (HasInput(ctx, 2) && ctx.in(2).has_rank()) {
    const Shape& zero = ctx.in(2);
    const bool both_single = single && zero.rank() <= 1 && zero.num_elements().is(1);
    WEFT_CHECK(both_single || zero.rank() == scale.rank(), kShapeMismatch,
               "{}: scale {} and zero {}", ctx.node()->Describe(), scale.ToString(),
               zero.ToString());
    for (int d = 0; !both_single && d < zero.rank(); ++d)
      UnifyDims(ctx, scale[d], zero[d], "the dimensions of scale and zero");
  }
}

struct Scaling {
  Expr scale, zero;  ///< zero null: absent
};
Scaling ScalingAt(const NodePtr& n, const std::vector<TensorArg>& in, const Indices& at,
                  int64_t axis_attr, int64_t block_size) {
  const TensorArg &x = in[0], &scale = in[1];
  const bool single = scale.rank() <= 1 && scale.shape.num_elements().is(1);
  const int axis = single || x.rank() == 0 ? 0 : AxisOf(axis_attr, x.rank(), n);
  int64_t block = block_size;
  if (scale.rank() > 1 && block == 0) {
    WEFT_CHECK(x.shape[axis].is_const() && scale.shape[axis].is_const(), kUnsupported,
               "{}: blocks of an axis whose size is not known", n->Describe());
    const int64_t blocks = scale.shape[axis].value(), extent = x.shape[axis].value();
    WEFT_CHECK(blocks > 0 && extent % blocks == 0, kShapeMismatch,
               "{}: {} blocks do not divide the size {}", n->Describe(), blocks, extent);
    block = extent / blocks;
  }
  const auto from = ScaleAt<Expr>(
      at, scale.rank(), single, axis, block, Expr::Int(0),
      [](const Expr& i, int64_t b) { return FloorDivExpr(i, Expr::Int(std::max<int64_t>(b, 1))); });
  Scaling s;
  s.scale = scale(from);
  if (HasInput(in, 2)) s.zero = in[2](single ? Indices(size_t(in[2].rank()), Expr::Int(0)) : from);
  return s;
}

// ---- QuantizeLinear ----

DType QuantizedTypeOf(const NodePtr& n, Type zero) {
  const DType given = ParamOf<QuantizeParam>(n).output_dtype.dtype;
  if (zero.known()) {
    WEFT_CHECK(given == DType::kUnknown || given == zero.dtype, kTypeMismatch,
               "{}: output_dtype {} and zero of {}", n->Describe(), DTypeName(given),
               zero.ToString());
    return zero.dtype;
  }
  return given == DType::kUnknown ? DType::kU8 : given;
}
void QuantizeType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kQuantizable);
  CheckInputType(ctx, 1, kScales);
  CheckInputType(ctx, 2, kQuantized);
  const bool waits = ctx.num_inputs() > 2 && ctx.has_input(2) && !ctx.in(2).known();
  if (waits) return;
  const DType t =
      QuantizedTypeOf(ctx.node(), ctx.num_inputs() > 2 && ctx.has_input(2) ? ctx.in(2) : Type());
  WEFT_CHECK(kQuantized.has(t), kBadAttribute, "{}: output_dtype {}", ctx.node()->Describe(),
             DTypeName(t));
  ctx.set_out(0, t);
}
void QuantizeShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<QuantizeParam>(ctx.node());
  CheckScale(ctx, p.axis, p.block_size, true);
}
Exprs QuantizeCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<QuantizeParam>(n);
  const DType out = at.dtype[0];
  const Scaling s = ScalingAt(n, in, at(0), p.axis, p.block_size);
  const DType c = s.scale->dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  // Division in the dtype of scale where that is narrower, as the standard's precision says.
  const DType precision =
      p.precision.dtype == DType::kUnknown ? s.scale->dtype() : p.precision.dtype;
  Expr q = Expr::Cast(c, in[0](at(0))) / Expr::Cast(c, s.scale);
  if (IsFloat(precision) && precision != c) q = Expr::Cast(c, Expr::Cast(precision, q));
  const bool whole = ValueTypeOf(out) != DType::kF32;
  if (whole) q = Expr::Unary(UnOp::kRound, q);
  if (s.zero) q = q + Expr::Cast(c, s.zero);
  if (!whole) return {CastElement(n, Expr::Cast(DType::kF32, q), out, p.saturate != 0)};
  if (IsLowBit(out)) {
    const double range = double(1 << DTypeBits(out));
    const double lowest = ValueTypeOf(out) == DType::kI8 ? -range / 2 : 0;
    q = Min(Max(q, Expr::Const(c, lowest)), Expr::Const(c, lowest + range - 1));
  }
  return {Expr::Cast(ValueTypeOf(out), q)};  // float to integer saturates
}
/// Which scale (and zero) an element of x has, by row-major positions in both.
class ScaleWalk {
 public:
  ScaleWalk(const NodePtr& n, const Tensor& x, const Tensor& scale, int64_t axis,
            int64_t block_size)
      : x_(x.dims()),
        scale_(scale.dims()),
        single_(scale.rank() <= 1 && scale.num_elements() == 1),
        axis_(single_ || x.rank() == 0 ? 0 : AxisOf(axis, x.rank(), n)),
        block_(scale.rank() > 1 ? BlockOf(n, block_size, x_, scale_, axis_) : block_size),
        at_(x_.size(), 0) {}
  int64_t At(int64_t element) {
    for (size_t d = at_.size(); d-- > 0; element /= x_[d]) at_[d] = element % x_[d];
    const Dims from =
        ScaleAt<int64_t>(at_, int(scale_.size()), single_, axis_, block_, 0,
                         [](int64_t a, int64_t b) { return a / std::max<int64_t>(b, 1); });
    int64_t k = 0;
    for (size_t d = 0; d < from.size(); ++d) k = k * scale_[d] + from[d];
    return k;
  }

 private:
  const Dims &x_, &scale_;
  const bool single_;
  const int axis_;
  const int64_t block_;
  Dims at_;
};

Tensors QuantizeHost(const NodePtr& n, const Tensors& in) {
  const auto& p = ParamOf<QuantizeParam>(n);
  const Tensor &x = *in[0], &scale = *in[1];
  const TensorPtr zero = InputAt(in, 2);
  const DType out = QuantizedTypeOf(n, zero ? Type(zero->dtype()) : Type());
  const bool whole = !IsFloat(out) && !kFloat8.has(out) && out != DType::kF4E2M1;
  ScaleWalk walk(n, x, scale, p.axis, p.block_size);
  auto wide = NewTensor(DType::kF32, x.dims());
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int64_t k = walk.At(i);
    float q = float(x.at(i)) / float(scale.at(k));
    if (whole) q = std::nearbyintf(q);
    q += zero ? float(zero->at(k)) : 0.0f;
    if (whole) {
      const int bits = DTypeBits(out);
      const bool has_sign = IsSigned(out) || out == DType::kI4 || out == DType::kI2;
      const float range = float(int64_t{1} << bits), lowest = has_sign ? -range / 2 : 0;
      q = std::isnan(q) ? 0 : std::clamp(q, lowest, lowest + range - 1);
    }
    wide->set(i, q);
  }
  return {CastTensor(*wide, out, p.saturate != 0)};
}

// ---- DequantizeLinear ----

void DequantizeType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kDequantizable);
  CheckInputType(ctx, 1, kScales);
  CheckInputType(ctx, 2, kDequantizable);
  CheckZeroType(ctx, 0, 2);
  const DType given = ParamOf<DequantizeParam>(ctx.node()).output_dtype.dtype;
  if (given != DType::kUnknown)
    ctx.set_out(0, given);
  else if (ctx.in(1).known())
    ctx.set_out(0, ctx.in(1));
}
void DequantizeShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<DequantizeParam>(ctx.node());
  CheckScale(ctx, p.axis, p.block_size, false);
}
Exprs DequantizeCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<DequantizeParam>(n);
  const Scaling s = ScalingAt(n, in, at(0), p.axis, p.block_size);
  const Expr code = in[0](at(0));
  const DType t = IsFloat(code->dtype()) ? DType::kF32 : DType::kI32;
  Expr x = Expr::Cast(t, code);
  if (s.zero) x = x - Expr::Cast(t, s.zero);
  const DType c = AccumulatorOf(s.scale->dtype());
  return {Expr::Cast(at.dtype[0], Expr::Cast(c, x) * Expr::Cast(c, s.scale))};
}
/// Narrow dtypes by the same formula in f32, from which every one of them comes exactly.
Tensors DequantizeHost(const NodePtr& n, const Tensors& in) {
  const auto& p = ParamOf<DequantizeParam>(n);
  const Tensor &x = *in[0], &scale = *in[1];
  const TensorPtr zero = InputAt(in, 2);
  ScaleWalk walk(n, x, scale, p.axis, p.block_size);
  const DType out = p.output_dtype.dtype == DType::kUnknown ? scale.dtype() : p.output_dtype.dtype;
  auto y = NewTensor(out, x.dims());
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int64_t k = walk.At(i);
    y->set(i, (float(x.at(i)) - (zero ? float(zero->at(k)) : 0.0f)) * float(scale.at(k)));
  }
  return {y};
}

// ---- integer products ----

void MatMulIntegerType(InferTypeContext& ctx) {
  for (int i = 0; i < 4; ++i) CheckInputType(ctx, i, kByte);
  ctx.set_out(0, DType::kI32);
}
void MatMulIntegerShape(InferShapeContext& ctx) {
  const Shape &a = ctx.in(0), &b = ctx.in(1);
  if (!a.has_rank() || !b.has_rank()) return Unknown(ctx, 0, "the rank of an operand is unknown");
  CheckPerRow(ctx, 2, a, RowsOf(a), true);
  CheckPerRow(ctx, 3, b, ColumnsOf(b), false);
  ctx.set_out(0, IntegerProductShape(ctx, a, b));
}
Exprs MatMulIntegerCode(const NodePtr&, const std::vector<TensorArg>& in, const OutputAt& at) {
  return {IntegerProduct(in[0], in[1], HasInput(in, 2) ? &in[2] : nullptr,
                         HasInput(in, 3) ? &in[3] : nullptr, at(0))};
}

void QLinearMatMulType(InferTypeContext& ctx) {
  for (int i : {0, 2, 3, 5, 7}) CheckInputType(ctx, i, kByte);
  for (int i : {1, 4, 6}) CheckInputType(ctx, i, kFloats);
  if (ctx.in(7).known()) ctx.set_out(0, ctx.in(7));
}
void QLinearMatMulShape(InferShapeContext& ctx) {
  const Shape &a = ctx.in(0), &b = ctx.in(3);
  if (!a.has_rank() || !b.has_rank()) return Unknown(ctx, 0, "the rank of an operand is unknown");
  for (int i : {1, 2, 4, 5, 6, 7}) {
    WEFT_CHECK(!ctx.in(i).has_rank() || ctx.in(i).rank() <= 1, kShapeMismatch,
               "{}: input {} has shape {}, expected one value or one a row", ctx.node()->Describe(),
               i, ctx.in(i).ToString());
  }
  for (int i : {1, 2}) CheckPerRow(ctx, i, a, RowsOf(a), true);
  for (int i : {4, 5, 6, 7}) CheckPerRow(ctx, i, b, ColumnsOf(b), false);
  ctx.set_out(0, IntegerProductShape(ctx, a, b));
}
Exprs QLinearMatMulCode(const NodePtr&, const std::vector<TensorArg>& in, const OutputAt& at) {
  const TensorArg &a = in[0], &b = in[3];
  const auto one = [&](const TensorArg& s, const Expr& own) {
    Indices from;
    if (s.rank() == 1) from = {s.shape[0].is(1) || !own ? Expr::Int(0) : own};
    return Expr::Cast(DType::kF32, s(from));
  };
  const Expr row = a.rank() > 1 ? at(0)[at(0).size() - (b.rank() > 1 ? 2 : 1)] : Expr();
  const Expr column = b.rank() > 1 ? at(0).back() : Expr();
  const Expr product = IntegerProduct(a, b, &in[2], &in[5], at(0));
  const Expr scale = one(in[1], row) * one(in[4], column) / one(in[6], column);
  const Expr q =
      Expr::Unary(UnOp::kRound, Expr::Cast(DType::kF32, product) * scale) + one(in[7], column);
  return {Expr::Cast(at.dtype[0], q)};
}

}  // namespace

WEFT_REGISTER_OP(QuantizeLinear)
    .describe(
        "y = saturate(round(x / scale) + zero), ties to the even neighbour; for 8-bit floats y = "
        "cast(x / scale + zero).\nscale and zero: one, one an index of `axis`, or one a block of "
        "it. Gradient: none.\n"
        "Errors: scale does not fit x (kShapeMismatch), a constant scale that is not finite "
        "or below zero (kInvalidModel). Source: ONNX QuantizeLinear-25.")
    .input("x", TypeDoc(kQuantizable, "T1"))
    .input("y_scale", TypeDoc(kScales, "T2"))
    .optional_input("y_zero_point", TypeDoc(kQuantized, "T3"), "the shape of y_scale")
    .output("y", "T3", "the shape of x")
    .param<QuantizeParam>()
    .example({"f32[2, 3]", "f32[] = [0.5]", "u8[] = [7]"})
    .example({"f32[2, n]", "f32[2]"}, "axis = 0, output_dtype = i8")
    .example({"f32[3, n]", "f32[] = [0.5]"}, "output_dtype = i4")
    .example({"f32[3, 4]", "f32[3, 2]"}, "block_size = 2, output_dtype = f8e4m3fn")
    .set_attr<FInferType>("FInferType", QuantizeType)
    .set_attr<FInferShape>("FInferShape", QuantizeShape)
    .set_attr<FCodeGen>("FCodeGen", QuantizeCode)
    .set_attr<TTakesLowBit>("TTakesLowBit", true)
    .set_attr<FHostEval>("FHostEval", QuantizeHost)
    .set_attr<FGradient>("FGradient", NoGradient)
    .set_attr<FInputDomains>("FInputDomains", Domains({Any(), Positive()}));

WEFT_REGISTER_OP(DequantizeLinear)
    .describe(
        "y = (x - zero) * scale. scale and zero: one, one an index of `axis`, or one a block of "
        "it.\n"
        "Gradient: none, quantized values are constants. Errors: scale does not fit x "
        "(kShapeMismatch), a zero of another dtype than x (kTypeMismatch), a constant scale that "
        "is not finite (kInvalidModel). Source: ONNX DequantizeLinear-25.")
    .input("x", TypeDoc(kDequantizable, "T1"))
    .input("x_scale", TypeDoc(kScales, "T2"))
    .optional_input("x_zero_point", "T1", "the shape of x_scale")
    .output("y", TypeDoc(kFloats, "T3"), "the shape of x")
    .param<DequantizeParam>()
    .example({"u8[2, 3]", "f32[] = [0.5]", "u8[] = [7]"})
    .example({"i8[n, 3]", "f32[3]"}, "axis = -1")
    .set_attr<FInferType>("FInferType", DequantizeType)
    .set_attr<FInferShape>("FInferShape", DequantizeShape)
    .set_attr<FCodeGen>("FCodeGen", DequantizeCode)
    .set_attr<TTakesLowBit>("TTakesLowBit", true)
    .set_attr<FHostEval>("FHostEval", DequantizeHost)
    .set_attr<FGradient>("FGradient", NoGradient)
    .set_attr<FInputDomains>("FInputDomains", Domains({Any(), Positive()}));

WEFT_REGISTER_OP(MatMulInteger)
    .describe(
        "The matmul of a - a_zero and b - b_zero in i32; shapes as of MatMul. Gradient: "
        "none. Source: ONNX MatMulInteger-10.")
    .input("A", TypeDoc(kByte, "T1"))
    .input("B", TypeDoc(kByte, "T2"))
    .optional_input("a_zero_point", "T1", "one, or one a row of A")
    .optional_input("b_zero_point", "T2", "one, or one a column of B")
    .output("Y", "i32")
    .param<NoParam>()
    .example({"u8[2, 3]", "i8[3, n]", "u8[] = [3]"})
    .example({"i8[2, 2, 3]", "i8[3]"})
    .set_attr<FInferType>("FInferType", MatMulIntegerType)
    .set_attr<FInferShape>("FInferShape", MatMulIntegerShape)
    .set_attr<FCodeGen>("FCodeGen", MatMulIntegerCode)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(QLinearMatMul)
    .describe(
        "y = saturate(round(sum((a - a_zero) * (b - b_zero)) * a_scale * b_scale / y_scale) + "
        "y_zero), the sum in i32.\nGradient: none. Source: ONNX QLinearMatMul-21.")
    .input("a", TypeDoc(kByte, "T1"))
    .input("a_scale", TypeDoc(kFloats, "TS"), "one, or one a row of a")
    .input("a_zero_point", "T1")
    .input("b", TypeDoc(kByte, "T2"))
    .input("b_scale", "TS", "one, or one a column of b")
    .input("b_zero_point", "T2")
    .input("y_scale", "TS")
    .input("y_zero_point", TypeDoc(kByte, "T3"))
    .output("y", "T3")
    .param<NoParam>()
    .example({"u8[2, 3]", "f32[] = [0.5]", "u8[] = [3]", "i8[3, n]", "f32[] = [0.25]", "i8[] = [1]",
              "f32[] = [2]", "u8[] = [9]"})
    .example({"i8[3]", "f32[]", "i8[]", "i8[3, 4]", "f32[4]", "i8[4]", "f32[]", "i8[]"})
    .set_attr<FInferType>("FInferType", QLinearMatMulType)
    .set_attr<FInferShape>("FInferShape", QLinearMatMulShape)
    .set_attr<FCodeGen>("FCodeGen", QLinearMatMulCode)
    .set_attr<FGradient>("FGradient", NoGradient)
    .set_attr<FInputDomains>("FInputDomains", Domains({Any(), Positive(), Any(), Any(), Positive(),
                                                       Any(), Positive(), Any()}));

}  // namespace weft::ops
