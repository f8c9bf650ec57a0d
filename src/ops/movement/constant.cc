/// constant.cc: Constant and Identity.
///
///   Constant   out y : the tensor of attribute `value`. Import turns value_int, value_floats ...
///              into `value`. Needs no code: Graph::ConstantOf gives the tensor, kernels take
///              scalars as literals and others as inputs.
///   Identity   y = x, any type, sequences and optionals included; grad dx = dy
#include "ops/util/host_util.h"
#include "weft/support/check.h"

namespace weft::ops {

struct ConstantParam : OpParam<ConstantParam> {
  TensorAttr value;
  WEFT_OP_PARAM(ConstantParam) { WEFT_FIELD(value).describe("the tensor"); }
};
WEFT_REGISTER_OP_PARAM(ConstantParam);

namespace {

using Entry = const NodeEntry&;

const Tensor& ValueOf(const NodePtr& n) {
  const TensorPtr& t = ParamOf<ConstantParam>(n).value.tensor;
  WEFT_CHECK(t != nullptr, kBadAttribute, "{}: attribute 'value' holds no tensor", n->Describe());
  return *t;
}
void ConstantType(InferTypeContext& ctx) { ctx.set_out(0, ValueOf(ctx.node()).dtype()); }
void ConstantShape(InferShapeContext& ctx) {
  const Tensor& t = ValueOf(ctx.node());
  ctx.set_out(0, t.shape());
  if (IsFloat(t.dtype())) return;  // InputValue reads those where a rule asks
  if (const SymTensorPtr v = SymTensorOf(t)) ctx.set_out_value(0, *v);
}

void IdentityType(InferTypeContext& ctx) {
  if (ctx.in(0).known()) ctx.set_out(0, ctx.in(0));
}
SymInt IdentityValue(const std::vector<SymInt>& x, const ValueArgs&) { return x[0]; }
Exprs IdentityCode(const NodePtr&, const Exprs& x) { return {x[0]}; }
/// Identity(x) = x.
std::vector<NodeEntry> SimplifyIdentity(RewriteContext&, const NodePtr& n) {
  return {n->inputs[0]};
}

}  // namespace

WEFT_REGISTER_OP(Constant)
    .describe(
        "y = the tensor `value`. Errors: kBadAttribute without one. Source: ONNX Constant-24.")
    .set_num_inputs(0)
    .output("y", "any", "dtype and shape of the value")
    .param<ConstantParam>()
    .set_attr<FInferType>("FInferType", ConstantType)
    .set_attr<FInferShape>("FInferShape", ConstantShape)
    .set_attr<FGradient>("FGradient", NoGradient);

WEFT_REGISTER_OP(Identity)
    .set_attr<TIsView>("TIsView", true)
    .describe("y = x, of any type. Gradient: dx = dy; retains nothing. Source: ONNX Identity-24.")
    .input("x", "any type, sequences and optionals included")
    .output("y", "the type of x", "the shape of x")
    .param<NoParam>()
    .include("ElementwiseUnary")
    .set_attr<FInferType>("FInferType", IdentityType)
    .set_attr<FHostEval>("FHostEval",
                         [](const NodePtr&, const Tensors& in) { return Tensors{in.at(0)}; })
    .set_attr<FInferShape>("FInferShape", UnaryShapeAndValue(IdentityValue))
    .set_attr<FCodeGen>("FCodeGen", IdentityCode)
    .set_attr<FGradient>("FGradient", UnaryGradient([](Entry, Entry, Entry dy) { return dy; }))
    .set_attr<FSimplify>("FSimplify", SimplifyIdentity)
    .example({"f32[2, n, 3]"})
    .example({"i64[]"})
    .set_attr<TMovesElements>("TMovesElements", true);

}  // namespace weft::ops
