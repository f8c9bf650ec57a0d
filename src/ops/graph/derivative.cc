/// derivative.cc: weft::Derivative, the gradient of an element-wise operator by differentiating its
/// expression (codegen/expr/differentiate.h).
///
/// Its own expression is element-wise and it has no FGradient, so it is differentiated in the same
/// way: the body of a second derivative holds a first one.
#include "fixed_body.h"
#include "ops/util/op_util.h"
#include "weft/codegen/expr/differentiate.h"
#include "weft/core/graph/graph_attr_types.h"
#include "weft/support/check.h"

namespace weft::ops {
namespace {

struct DerivativeParam : OpParam<DerivativeParam> {
  GraphAttr body;
  int64_t wrt;
  Ints ys;
  WEFT_OP_PARAM(DerivativeParam) {
    WEFT_FIELD(body).describe("one element-wise node over the inputs of the body");
    WEFT_FIELD(wrt).set_range(0, INT32_MAX).describe("the input that the gradient is of");
    WEFT_FIELD(ys).set_default(Ints{0}).describe("outputs of the node that have a gradient");
  }
};
WEFT_REGISTER_OP_PARAM(DerivativeParam);

struct Derived {
  NodePtr node;
  std::vector<int> operands;  ///< input of the body by operand; -1: absent
  int wrt = 0;                ///< operand
};

Derived DerivedOf(const NodePtr& n) {
  static const OpMap<FCodeGen>& codes = Op::GetAttr<FCodeGen>("FCodeGen");
  const DerivativeParam& p = ParamOf<DerivativeParam>(n);
  const Graph& body = FixedBody(n->attrs);
  const std::vector<NodePtr> inputs = body.inputs();
  Derived d;
  WEFT_CHECK(!body.outputs.empty(), kBadAttribute, "{}: the body has no output", n->Describe());
  d.node = body.outputs[0].node;
  const FCodeGen* code = d.node->is_variable() ? nullptr : codes.find(d.node->op());
  WEFT_CHECK(code && code->elementwise, kBadAttribute,
             "{}: {} is not an element-wise operator with an FCodeGen", n->Describe(),
             d.node->Describe());
  WEFT_CHECK(n->inputs.size() == inputs.size() + p.ys.size(), kArity,
             "{}: {} inputs, expected {} of the body and {} gradients", n->Describe(),
             n->inputs.size(), inputs.size(), p.ys.size());
  WEFT_CHECK(size_t(p.wrt) < inputs.size(), kBadAttribute, "{}: wrt is {}, the body has {} inputs",
             n->Describe(), p.wrt, inputs.size());
  for (int64_t y : p.ys)
    WEFT_CHECK(y >= 0 && y < int64_t(d.node->num_outputs()), kBadAttribute,
               "{}: output {} of {} in ys", n->Describe(), y, d.node->num_outputs());
  bool found = false;
  for (size_t i = 0; i < d.node->inputs.size(); ++i) {
    const NodeEntry& e = d.node->inputs[i];
    int at = -1;
    for (size_t k = 0; e.node && k < inputs.size(); ++k)
      if (inputs[k] == e.node) at = int(k);
    WEFT_CHECK(!e.node || at >= 0, kBadAttribute, "{}: the body has more than one node",
               n->Describe());
    d.operands.push_back(at);
    if (at != int(p.wrt)) continue;
    WEFT_CHECK(!found, kBadAttribute, "{}: an input of the body is read twice", n->Describe());
    found = true;
    d.wrt = int(i);
  }
  WEFT_CHECK(found, kBadAttribute, "{}: input {} of the body is not read", n->Describe(), p.wrt);
  return d;
}

void DerivativeType(InferTypeContext& ctx) {
  DerivedOf(ctx.node());
  const auto wrt = int(ParamOf<DerivativeParam>(ctx.node()).wrt);
  CheckInputType(ctx, wrt, kFloats);
  if (ctx.in(wrt).known()) ctx.set_out(0, ctx.in(wrt));
}

Exprs DerivativeCode(const NodePtr& n, const Exprs& in) {
  const DerivativeParam& p = ParamOf<DerivativeParam>(n);
  const Derived d = DerivedOf(n);
  Exprs x, dy(d.node->num_outputs());
  for (int at : d.operands) x.push_back(at < 0 ? Expr() : in[size_t(at)]);
  const size_t before = in.size() - p.ys.size();
  for (size_t k = 0; k < p.ys.size(); ++k) dy[size_t(p.ys[k])] = in[before + k];
  const Expr e = DifferentiateNode(d.node, x, dy, d.wrt);
  return {e ? e : ConstOf(x[size_t(d.wrt)], 0)};
}

/// Operands of the node keep its domains, as far as those are about single numbers.
std::vector<InputDomain> DerivativeDomains(const NodePtr& n) {
  const Derived d = DerivedOf(n);
  std::vector<InputDomain> out(n->inputs.size());
  static const OpMap<FInputDomains>& domains = Op::GetAttr<FInputDomains>("FInputDomains");
  const FInputDomains* rule = domains.find(d.node->op());
  if (!rule) return out;
  const std::vector<InputDomain> inner = (*rule)(d.node);
  for (size_t i = 0; i < inner.size() && i < d.operands.size(); ++i)
    if (d.operands[i] >= 0 && inner[i].kind <= InputDomain::kUnit)
      out[size_t(d.operands[i])] = inner[i];
  return out;
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, Derivative)
    .describe(
        "The gradient of input `wrt` of the body's node, before it is summed to the shape of that "
        "input: the sum over the gradients dy_k of outputs ys[k] of dy_k * d y / d input, by "
        "differentiating the node's expression. Made by the pass Gradient for element-wise "
        "operators without FGradient. Errors: a body that is not one element-wise node over its "
        "inputs (kBadAttribute). Gradient: by itself. Source: Weft.")
    .variadic_input("inputs", "any", "those of the body, then the gradients of outputs ys")
    .output("dx", "T", "dtype of input wrt, the broadcast shape of all inputs")
    .set_num_inputs(1, INT32_MAX)
    .param<DerivativeParam>()
    .include("ElementwiseVariadic")
    .set_attr<FInferType>("FInferType", DerivativeType)
    .set_attr<FCodeGen>("FCodeGen", DerivativeCode)
    .set_attr<FInputDomains>("FInputDomains", DerivativeDomains);

}  // namespace weft::ops
