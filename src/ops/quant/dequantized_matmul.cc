/// dequantized_matmul.cc: weft::DequantizedMatMul: rows by a matrix of few bits that has a scale
/// for each block of a column.
///
/// The pass FoldDequantize makes it of a DequantizeLinear and the product that reads it, where a
/// library reads such a matrix as it lies.
///   inputs    A [.., k] of floats; B [k, n], or [n, k] with transB = 1, of integers or floats of
///             at most 8 bits; scale [ceil(k / block_size), n], or [n, ceil(k / block_size)] alike;
///             zero as scale, of the dtype of B
///   output    Y [.., n] in the dtype of A: y[.., j] = sum_k a[.., k] (b[k, j] - zero[h, j])
///             scale[h, j], h = floor(k / block_size)
///   errors    a scalar A, other ranks, dimensions that differ (kShapeMismatch), dtypes
///             (kTypeMismatch), block_size below 1 (kBadAttribute)
///   gradient  none: made after gradients are taken
///   source    Weft; ONNX DequantizeLinear-25 and MatMul-13, com.microsoft MatMulNBits
#include "ops/util/onnx_body_util.h"
#include "ops/util/op_util.h"
#include "ops/util/shape_util.h"
#include "weft/core/tensor/demand.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct DequantizedMatMulParam : OpParam<DequantizedMatMulParam> {
  int64_t block_size, transB;
  WEFT_OP_PARAM(DequantizedMatMulParam) {
    WEFT_FIELD(block_size).set_lower_bound(1).describe("rows of B that share a scale");
    WEFT_FIELD(transB).set_default(0).set_range(0, 1).describe("B is [n, k]");
  }
};
WEFT_REGISTER_OP_PARAM(DequantizedMatMulParam);

constexpr DTypeSet kWeights = kFloat8 | DTypeSet{DType::kI8, DType::kU8,     DType::kI4, DType::kU4,
                                                 DType::kI2, DType::kF4E2M1, DType::kU2};
constexpr DTypeSet kWeightScales = kFloats | DTypeSet{DType::kF8E8M0};

void DequantizedMatMulType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kFloats);
  CheckInputType(ctx, 1, kWeights);
  CheckInputType(ctx, 2, kWeightScales);
  CheckInputType(ctx, 3, kWeights);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}

void DequantizedMatMulShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<DequantizedMatMulParam>(ctx.node());
  const Shape& a = ctx.in(0);
  const Shape b = CheckRank(ctx, 1, 2, "B") ? ctx.in(1) : Shape::OfRank(2);
  const int rows = p.transB ? 1 : 0, columns = 1 - rows;
  for (int i : {2, 3}) {
    if (!HasInput(ctx, i) || !CheckRank(ctx, i, 2, i == 2 ? "scale" : "zero")) continue;
    UnifyDims(ctx, b[columns], ctx.in(i)[columns], "the columns of B and of its scales");
    if (b[rows].known())
      UnifyDims(ctx, CeilDiv(b[rows], p.block_size), ctx.in(i)[rows],
                "the blocks of B and of its scales");
  }
  if (!a.has_rank()) return Unknown(ctx, 0, "the rank of an operand is unknown");
  WEFT_CHECK(a.rank() > 0, kShapeMismatch, "{}: A is a scalar", ctx.node()->Describe());
  UnifyDims(ctx, a[a.rank() - 1], b[rows], "the inner dimensions");
  std::vector<SymInt> dims = a.dims();
  dims.back() = b[columns];
  ctx.set_out(0, Shape(std::move(dims)));
}

Exprs DequantizedMatMulCode(const NodePtr& n, const std::vector<TensorArg>& in,
                            const OutputAt& at) {
  const auto& p = ParamOf<DequantizedMatMulParam>(n);
  const bool turned = p.transB != 0;
  const DType t = AccumulatorOf(in[0].dtype);
  const Expr j = at(0).back();
  const Expr sum = SumOver({in[1].shape[turned ? 1 : 0]}, [&](const Indices& r) {
    const Expr& k = r[0];
    const Expr block = FloorDivExpr(k, Expr::Int(p.block_size));
    Indices row = at(0);
    row.back() = k;
    const Indices scale = turned ? Indices{j, block} : Indices{block, j};
    Expr w = Expr::Cast(t, in[1](turned ? Indices{j, k} : Indices{k, j}));
    if (HasInput(in, 3)) w = w - Expr::Cast(t, in[3](scale));
    return Expr::Cast(t, in[0](row)) * (w * Expr::Cast(t, in[2](scale)));
  });
  return {Expr::Cast(in[0].dtype, sum)};
}

SymInt DequantizedMatMulFlops(const NodePtr& n, const std::vector<Shape>& in,
                              const std::vector<Shape>& out) {
  if (!in.at(1).has_rank()) return SymInt();
  const bool turned = ParamOf<DequantizedMatMulParam>(n).transB != 0;
  return out.at(0).num_elements() * in[1][turned ? 1 : 0] * 2;
}

std::string DequantizedMatMulBody(const OnnxBodyRequest& r) {
  const auto& p = ParamOf<DequantizedMatMulParam>(r.node);
  const std::string zero = HasInput(r.node, 3) ? ", i3" : "";
  std::string text = fmt::format(
      "w = DequantizeLinear<axis = {}, block_size = {}>(i1, i2{})\nwide = CastLike(w, "
      "i0)\n",
      p.transB, p.block_size, zero);
  if (p.transB) text += TransposeLine("b", "wide", {1, 0});
  return text + fmt::format("o0 = MatMul(i0, {})\n", p.transB ? "b" : "wide");
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, DequantizedMatMul)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kAnchor)
    .describe(
        "y[.., j] = sum_k a[.., k] (b[k, j] - zero[h, j]) scale[h, j] with h = floor(k / "
        "block_size): rows by a matrix of few bits, for libraries that read it as it lies. f16 and "
        "bf16 accumulate in f32, and the matrix is not rounded to them.\n"
        "Gradient: none.\n"
        "Errors: a scalar A, other ranks, dimensions that differ (kShapeMismatch), dtypes "
        "(kTypeMismatch).\n"
        "Source: Weft; the pass FoldDequantize makes it.")
    .input("A", TypeDoc(kFloats), "[.., k]")
    .input("B", TypeDoc(kWeights, "T1"), "[k, n], or [n, k] with transB")
    .input("scale", TypeDoc(kWeightScales, "T2"),
           "[ceil(k / block_size), n], or [n, ceil(k / block_size)] with transB")
    .optional_input("zero", "T1", "as scale")
    .output("Y", "T", "[.., n]")
    .param<DequantizedMatMulParam>()
    .example({"f32[2, 6]", "i8[6, 3]", "f32[2, 3]"}, "block_size = 3")
    .example({"f32[2, n, 5]", "u4[4, 5]", "f32[4, 3]", "u4[4, 3]"}, "block_size = 2, transB = 1")
    .example({"f32[7]", "f8e4m3fn[7, 2]", "f32[1, 2]"}, "block_size = 32")
    .set_attr<FInferType>("FInferType", DequantizedMatMulType)
    .set_attr<FInferShape>("FInferShape", DequantizedMatMulShape)
    .set_attr<FCodeGen>("FCodeGen", DequantizedMatMulCode)
    .set_attr<TTakesLowBit>("TTakesLowBit", true)
    .set_attr<FFlops>("FFlops", DequantizedMatMulFlops)
    .set_attr<FOnnxBody>("FOnnxBody", DequantizedMatMulBody);

}  // namespace weft::ops
