/// small_matmul.cc: weft::SmallMatMul: columns of the product of rows by a matrix that stays in a
/// cache.
///
/// No library computes it: a generated kernel does, together with what is element-wise around it.
/// The gates of a recurrent cell are one each, over one matrix, and all of them one kernel.
///   inputs    A [.., k], B [k, n], numeric, of one dtype
///   output    Y [.., columns]: y[.., j] = sum_k a[.., k] b[k, begin + j]
///   errors    a scalar A, B of another rank, inner dimensions that differ (kShapeMismatch),
///             columns that B lacks (kBadAttribute)
///   gradient  none: Recur makes it, of what gradients were taken of before
///   source    Weft
#include "ops/util/onnx_body_util.h"
#include "ops/util/op_util.h"
#include "ops/util/shape_util.h"
#include "weft/core/tensor/demand.h"
#include "weft/support/check.h"
#include "weft/support/checked.h"

namespace weft::ops {
namespace {

struct SmallMatMulParam : OpParam<SmallMatMulParam> {
  int64_t begin, columns;
  WEFT_OP_PARAM(SmallMatMulParam) {
    WEFT_FIELD(begin).set_default(0).set_lower_bound(0).describe("first column of B that is read");
    WEFT_FIELD(columns).set_default(0).set_lower_bound(0).describe(
        "how many are read; 0: all behind it");
  }
};
WEFT_REGISTER_OP_PARAM(SmallMatMulParam);

constexpr DTypeSet kSmallMatMulTypes = kNumeric;

void SmallMatMulShape(InferShapeContext& ctx) {
  const auto& p = ParamOf<SmallMatMulParam>(ctx.node());
  const Shape& a = ctx.in(0);
  const Shape b = CheckRank(ctx, 1, 2, "B") ? ctx.in(1) : Shape::OfRank(2);
  if (!a.has_rank()) return Unknown(ctx, 0, "the rank of an operand is unknown");
  WEFT_CHECK(a.rank() > 0, kShapeMismatch, "{}: A is a scalar", ctx.node()->Describe());
  UnifyDims(ctx, a[a.rank() - 1], b[0], "the inner dimensions");
  const int64_t end = CheckedAdd(p.begin, p.columns);
  const bool all = p.begin == 0 && p.columns == 0;
  WEFT_CHECK(all || !b[1].known() || ctx.facts().LessEqual(end, b[1]) == Proof::kYes, kBadAttribute,
             "{}: columns [{}, {}) of {}", ctx.node()->Describe(), p.begin, end, b.ToString());
  if (!all && !b[1].known()) return Unknown(ctx, 0, "the columns of B are not known");
  std::vector<SymInt> dims = a.dims();
  if (p.columns > 0)
    dims.back() = SymInt(p.columns);
  else
    dims.back() = b[1].known() ? b[1] - SymInt(p.begin) : SymInt();
  ctx.set_out(0, Shape(std::move(dims)));
}

Exprs SmallMatMulCode(const NodePtr& n, const std::vector<TensorArg>& in, const OutputAt& at) {
  const auto& p = ParamOf<SmallMatMulParam>(n);
  const Expr j = at(0).back() + Expr::Int(p.begin);
  const Expr sum = SumOver({in[1].shape[0]}, [&](const Indices& k) {
    Indices row = at(0);
    row.back() = k[0];
    return WideProduct(in[0](row), in[1]({k[0], j}));
  });
  return {Expr::Cast(in[0].dtype, sum)};
}

SymInt SmallMatMulFlops(const NodePtr&, const std::vector<Shape>& in,
                        const std::vector<Shape>& out) {
  if (!in.at(1).has_rank()) return SymInt();
  return out.at(0).num_elements() * in[1][0] * 2;
}

std::string SmallMatMulBody(const OnnxBodyRequest& r) {
  const auto& p = ParamOf<SmallMatMulParam>(r.node);
  const int64_t end = p.columns > 0 ? p.begin + p.columns : INT64_MAX;
  return IntsConstant("begin", {p.begin}) + IntsConstant("end", {end}) + IntsConstant("axis", {1}) +
         "b = Slice(i1, begin, end, axis)\no0 = MatMul(i0, b)\n";
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, SmallMatMul)
    .describe(
        "Columns [begin, begin + columns) of the matmul of rows by a matrix that stays in a cache: "
        "y[.., j] = sum_k a[.., k] b[k, begin + j]. f16 and bf16 accumulate in f32. A "
        "generated kernel computes it, together with what is element-wise around it.\n"
        "Gradient: none.\n"
        "Errors: a scalar A, B of another rank, inner dimensions that differ (kShapeMismatch), "
        "columns that B lacks (kBadAttribute).\n"
        "Source: Weft; the pass Recur makes it.")
    .input("A", TypeDoc(kSmallMatMulTypes), "[.., k]")
    .input("B", "T", "[k, n]")
    .output("Y", "T", "[.., columns]")
    .param<SmallMatMulParam>()
    .example({"f32[2, 3]", "f32[3, 4]"})
    .example({"f32[n, 5]", "f32[5, 12]"}, "begin = 4, columns = 4")
    .example({"f32[3]", "f32[3, 2]"}, "begin = 1")
    .example({"f32[2, 3, 4]", "f32[4, 6]"}, "columns = 3")
    .set_attr<FInferType>("FInferType", SameType(kSmallMatMulTypes))
    .set_attr<FInferShape>("FInferShape", SmallMatMulShape)
    .set_attr<FCodeGen>("FCodeGen", SmallMatMulCode)
    .set_attr<FFlops>("FFlops", SmallMatMulFlops)
    .set_attr<FOnnxBody>("FOnnxBody", SmallMatMulBody);

}  // namespace weft::ops
