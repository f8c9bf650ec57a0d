/// effects.cc: weft::Assign, which writes a variable, and what orders effects without computing
/// anything: weft::Read, weft::Group (core/graph/effects.h).
#include "weft/core/graph/effects.h"

#include "ops/util/shape_util.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

void ReadType(InferTypeContext& ctx) {
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}
void GroupType(InferTypeContext& ctx) { ctx.set_out(0, Type(DType::kBool)); }

void AssignShape(InferShapeContext& ctx) {
  const Shape &variable = ctx.in(0), &value = ctx.in(1);
  if (!variable.has_rank()) return ctx.set_out(0, value);
  if (!value.has_rank()) return ctx.set_out(0, variable);
  WEFT_CHECK(variable.rank() == value.rank(), kShapeMismatch, "{}: a value {} for a variable {}",
             ctx.node()->Describe(), value.ToString(), variable.ToString());
  Shape out = variable;
  for (int k = 0; k < out.rank(); ++k)
    out.set(k, UnifyDims(ctx, variable[k], value[k], "dimensions of variable and value"));
  ctx.set_out(0, out);
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, Assign)
    .describe(
        "Writes `value` into the variable and gives it back. Ordered against the variable's "
        "readers by OrderMutation.\n"
        "Gradient: none. Errors: dtypes or shapes differ (kTypeMismatch, kShapeMismatch). Source: "
        "Weft.")
    .input("variable", TypeDoc(kComputable), "a variable")
    .input("value", "T")
    .output("new_value", "T")
    .param<NoParam>()
    .set_attr<FInferType>("FInferType", SameType(kComputable))
    .set_attr<FInferShape>("FInferShape", AssignShape)
    .set_attr<FCodeGen>("FCodeGen",
                        [](const NodePtr&, const std::vector<TensorArg>& in,
                           const OutputAt& at) -> Exprs { return {in[1](at(0))}; })
    .set_attr<FMutateInputs>("FMutateInputs", [](const NodePtr&) { return std::vector<int>{0}; })
    .set_attr<TIsStateful>("TIsStateful", true);

WEFT_REGISTER_OP_IN(weft, Read)
    .describe(
        "The content of a variable at the time when the node runs: later writes do not change the "
        "result. Put before the readers of a variable by OrderMutation; costs a copy only where "
        "the content is needed after it was overwritten.\n"
        "Gradient: that of the result. Errors: none. Source: Weft.")
    .input("variable", "any", "a variable")
    .output("content", "T")
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
