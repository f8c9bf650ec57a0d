/// prefix.cc: weft::Prefix, the first rows of an axis. The pass CacheInPlace makes it where a model
/// reads what a cache holds; behind that the cache has room.
#include "ops/util/axis_order.h"
#include "ops/util/demand.h"
#include "ops/util/onnx_body_util.h"
#include "ops/util/shape_util.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct PrefixParam : OpParam<PrefixParam> {
  int64_t axis;
  WEFT_OP_PARAM(PrefixParam) { WEFT_FIELD(axis).describe("the axis that is cut"); }
};
WEFT_REGISTER_OP_PARAM(PrefixParam);

void PrefixType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kAllTypes);
  CheckInputType(ctx, 1, kI64Only);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}

void PrefixShape(InferShapeContext& ctx) {
  const Shape& x = ctx.in(0);
  CheckRank(ctx, 1, 0, "rows");
  if (!x.has_rank()) return Unknown(ctx, 0, "the rank of x is unknown");
  const int axis = AxisOf(ParamOf<PrefixParam>(ctx.node()).axis, x.rank(), ctx.node());
  const SymTensorPtr rows = InputValue(ctx, 1);
  Shape y = x;
  const SymInt n = rows ? rows->elements.at(0) : SymInt();
  DemandAtLeast(ctx, n, 0, "the rows of a prefix");
  DemandAtMost(ctx, n, x[axis], "the rows of a prefix");
  y.set(axis, n.known() ? n : ctx.unbacked(0));
  ctx.set_out(0, y);
}

Exprs PrefixCode(const NodePtr&, const std::vector<TensorArg>& in, const OutputAt& at) {
  return {in[0](at(0))};
}

std::string PrefixBody(const OnnxBodyRequest& r) {
  return fmt::format(
      "first = Constant<value_ints = [0]>()\none = Constant<value_ints = [1]>()\n"
      "axis = Constant<value_ints = [{}]>()\ncount = Reshape(i1, one)\n"
      "o0 = Slice(i0, first, count, axis)\n",
      ParamOf<PrefixParam>(r.node).axis);
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, Prefix)
    .describe(
        "The first `rows` rows of x along an axis, which has at least as many: who feeds the "
        "program sees to that. Unlike those of a Slice they are as many as asked for. No gradient: "
        "it is made of caches.\n"
        "Errors: an axis outside the rank (kBadAttribute), rows below 0 (kShapeMismatch).")
    .input("x", TypeDoc(kAllTypes))
    .input("rows", "i64", "scalar")
    .output("y", "T", "x with `rows` in the place of the size of the axis")
    .param<PrefixParam>()
    .example({"f32[2, 5, 3]", "i64[] = [2]"}, "axis = 1")
    .example({"i64[n, 4]", "i64[] = [4]"}, "axis = -1")
    .set_attr<FInferType>("FInferType", PrefixType)
    .set_attr<FInferShape>("FInferShape", PrefixShape)
    .set_attr<TSizeOperands>("TSizeOperands", {1})
    .set_attr<FCodeGen>("FCodeGen", PrefixCode)
    .set_attr<TMovesElements>("TMovesElements", true)
    .set_attr<FInputDomains>("FInputDomains", Domains({Any(), {InputDomain::kShapeValue}}))
    .set_attr<FOnnxBody>("FOnnxBody", PrefixBody);

}  // namespace weft::ops
