/// effects.cc: weft::Read, weft::Group: what orders effects
/// without computing anything (core/graph/effects.h).
#include "weft/core/graph/effects.h"

#include "ops/util/shape_util.h"
#include "weft/core/op/host_eval.h"

namespace weft::ops {
namespace {

void ReadType(InferTypeContext& ctx) {
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}
void GroupType(InferTypeContext& ctx) { ctx.set_out(0, Type(DType::kBool)); }

}  // namespace

WEFT_REGISTER_OP_IN(weft, Read)
    .describe(
        "The content of a variable at the time when the node runs: later writes do not change the "
        "result. Put before the readers of a variable by OrderMutation; costs a copy only where "
        "the content is needed after it was overwritten.\n"
        "Gradient: that of the result. Errors: none. Source: Weft.")
    .input("variable", "any", "a variable")
    .output("content", "T")
    .set_num_inputs(1)
    .set_num_outputs(1)
    .param<NoParam>()
    .example({"f32[2, 3]"})
    .set_attr<FInferType>("FInferType", ReadType)
    .set_attr<FInferShape>("FInferShape", [](InferShapeContext& ctx) { ctx.set_out(0, ctx.in(0)); })
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kOpaque)
    .set_attr<FHostEval>("FHostEval",
                         [](const NodePtr&, const std::vector<TensorPtr>& in) { return in; })
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr&, const std::vector<NodeEntry>& dy)
                             -> std::vector<NodeEntry> { return {dy[0]}; });

WEFT_REGISTER_OP_IN(weft, Group)
    .describe(
        "An empty tensor that exists when all inputs have been computed: as an output of a graph "
        "it stands for updates whose values are not used. Takes no step and no memory. Gradient: "
        "none. Errors: none. Source: tf.group for the idea.")
    .variadic_input("inputs", "any")
    .output("done", "bool")
    .set_num_inputs(1, INT32_MAX)
    .set_num_outputs(1)
    .param<NoParam>()
    .example({"f32[2, 3]", "i64[2]"})
    .set_attr<FInferType>("FInferType", GroupType)
    .set_attr<FInferShape>("FInferShape",
                           [](InferShapeContext& ctx) { ctx.set_out(0, Shape::OfInts({0})); })
    .set_attr<FFuseKind>("FFuseKind", FuseKind::kOpaque)
    .set_attr<FHostEval>("FHostEval",
                         [](const NodePtr&,
                            const std::vector<TensorPtr>&) -> std::vector<TensorPtr> {
                           return {std::make_shared<Tensor>(DType::kBool, std::vector<int64_t>{0})};
                         })
    .set_attr<FGradient>("FGradient", [](const NodePtr& n, const std::vector<NodeEntry>&) {
      return std::vector<NodeEntry>(n->num_inputs());
    });

}  // namespace weft::ops
