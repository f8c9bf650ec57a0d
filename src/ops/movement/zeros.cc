/// zeros.cc: weft::Zeros, what a gradient is where nothing flows.
///
/// The zeros are structural: they say that there is no term, not that a term has come out as zero.
/// So a rewrite may drop them from a sum (x + 0 = x for -0 too) and let them decide a product
/// (0 x = 0 for an infinite x too), which it may not do with a number 0 in a model.
#include "ops/util/shape_util.h"
#include "weft/core/op/onnx_body.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct ZerosParam : OpParam<ZerosParam> {
  DTypeField dtype;
  WEFT_OP_PARAM(ZerosParam) { WEFT_FIELD(dtype).describe("dtype of the result, a float"); }
};
WEFT_REGISTER_OP_PARAM(ZerosParam);

void ZerosType(InferTypeContext& ctx) {
  const DType t = ParamOf<ZerosParam>(ctx.node()).dtype.dtype;
  WEFT_CHECK(kFloats.has(t), kBadAttribute, "{}: dtype is {}, expected one of {}",
             ctx.node()->Describe(), DTypeName(t), kFloats.ToString());
  CheckInputType(ctx, 0, kI64Only);
  if (!ctx.in(0).known()) ctx.set_in(0, DType::kI64);
  ctx.set_out(0, t);
}
void ZerosShape(InferShapeContext& ctx) {
  const Shape s = ShapeFromInput(ctx, 0);
  if (!s.has_rank()) return;
  for (int k = 0; k < s.rank(); ++k)
    WEFT_CHECK(!s[k].known() || !s[k].is_const() || s[k].value() >= 0, kShapeMismatch,
               "{}: dimension {} is {}", ctx.node()->Describe(), k, s[k].ToString());
  ctx.set_out(0, s);
}
std::string ZerosBody(const OnnxBodyRequest& r) {
  return fmt::format("zeros = ConstantOfShape(i0)\no0 = Cast<to = {}>(zeros)",
                     TraitsOf(ParamOf<ZerosParam>(r.node).dtype.dtype).onnx);
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, Zeros)
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kElementwise)
    .describe(
        "Zeros of shape `shape` that stand for an absent term: Simplify drops them from sums and "
        "lets them decide products. Gradient: none. Errors: a negative dimension (kShapeMismatch), "
        "a dtype that is not a float (kBadAttribute). Source: Weft.")
    .input("shape", "i64", "1-D")
    .output("y", "dtype")
    .param<ZerosParam>()
    .example({"i64[2] = [2, 3]"}, "dtype = f32")
    .example({"i64[0] = []"}, "dtype = f64")
    .set_attr<FInferType>("FInferType", ZerosType)
    .set_attr<FInferShape>("FInferShape", ZerosShape)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr& n, const std::vector<TensorArg>&,
                           const OutputAt&) -> Exprs {
                          return {Expr::Const(ParamOf<ZerosParam>(n).dtype.dtype, 0)};
                        })
    .set_attr<FGradient>("FGradient", NoGradient)
    .set_attr<FInputDomains>("FInputDomains", Domains({{InputDomain::kShapeValue}}))
    .set_attr<FOnnxBody>("FOnnxBody", ZerosBody);

}  // namespace weft::ops
