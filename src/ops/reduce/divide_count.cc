/// divide_count.cc: weft::DivideCount: x / n for an integer n.
///
/// What means and their gradients divide by: a number of elements. As an operand it stays an
/// integer that shape inference follows, so it is part of the kernel that divides; as a float
/// computed from it, a symbolic count would be a kernel of its own.
#include "ops/util/shape_util.h"
#include "weft/core/op/onnx_body.h"

namespace weft::ops {
namespace {

void CountType(InferTypeContext& ctx) {
  CheckInputType(ctx, 0, kFloats);
  CheckInputType(ctx, 1, kI64Only);
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}
Exprs CountCode(const NodePtr&, const Exprs& in) {
  return {WithCompute(in[0], [&](const Expr& x) { return x / Expr::Cast(x->dtype(), in[1]); })};
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, DivideCount)
    .describe(
        "y = x / count for integers: by 0 as floats divide. Computed in f32 for f16 and bf16. "
        "Gradient: dx = dy / count. Source: Weft.")
    .input("x", TypeDoc(kFloats))
    .input("count", "i64", "numpy broadcasting against x")
    .output("y", "T", "the broadcast shape")
    .param<NoParam>()
    .include("ElementwiseBinary")
    .example({"f32[2, n, 3]", "i64[] = [12]"})
    .example({"f16[4]", "i64[4]"})
    .set_attr<FInferType>("FInferType", CountType)
    .set_attr<FCodeGen>("FCodeGen", CountCode)
    .set_attr<FInplace>("FInplace", InplaceOf({0}))
    .set_attr<FOnnxBody>("FOnnxBody",
                         [](const OnnxBodyRequest&) -> std::string {
                           return "c = Cast<to = 11>(i1)\n"
                                  "x = Cast<to = 11>(i0)\ny = Div(x, c)\no0 = CastLike(y, i0)";
                         })
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& n,
                            const std::vector<NodeEntry>& dy) -> std::vector<NodeEntry> {
                           if (!dy[0]) return NoGradient(n, dy);
                           return {ReduceLike(ApplyOp("weft::DivideCount", {dy[0], n->inputs[1]}),
                                              n->inputs[0]),
                                   NodeEntry()};
                         })
    .set_attr<FInputDomains>("FInputDomains", Domains({Any(), Positive()}));

}  // namespace weft::ops
