/// reorder.cc: weft::Reorder, y = x in another order in memory (core/plan/layout.h). The pass
/// Layout puts it between operators that want their tensors in different layouts; the meaning of
/// the graph does not change.
///   x   any dtype, any shape
///   y   the same
///   dx = dy; retains nothing
/// No FInplace: it would overwrite what it has yet to read.
#include "ops/util/shape_util.h"
#include "weft/core/op/onnx_body.h"
#include "weft/core/plan/layout.h"

namespace weft::ops {
namespace {

void ReorderType(InferTypeContext& ctx) {
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}
using Entry = const NodeEntry&;
Exprs ReorderCode(const NodePtr&, const Exprs& x) { return {x[0]}; }

}  // namespace

WEFT_REGISTER_OP_IN(weft, Reorder)
    .describe(
        "y = x, which may have another order in memory. Gradient: dx = dy; retains nothing. "
        "Source: this project, pass Layout.")
    .input("x", "any type that kernels compute with")
    .output("y", "the dtype of x", "the shape of x")
    .param<NoParam>()
    .set_attr<FInferType>("FInferType", ReorderType)
    .set_attr<FInferShape>("FInferShape", UnaryShape)
    .set_attr<FCodeGen>("FCodeGen", ReorderCode)
    .set_attr<FGradient>("FGradient", UnaryGradient([](Entry, Entry, Entry dy) { return dy; }))
    .set_attr<FOnnxBody>("FOnnxBody",
                         [](const OnnxBodyRequest&) {  // ONNX has no layouts
                           return std::string("o0 = Identity(i0)");
                         })
    .example({"f32[2, n, 3]"})
    .example({"f32[2, 3, 4, 5]"});

}  // namespace weft::ops
