/// snake.cc: demo::Snake, an activation for periodic signals.
///
///   in      x : T[...]
///   out     y : T[...] = x + sin(alpha x)^2 / alpha
///   T       f32, f64
///   attr    alpha : float = 1, in [0.001, 1000]
///   grad    dx = dy * (1 + sin(2 alpha x)); retains x
///   throws  kTypeMismatch for other dtypes
///   source  Ziyin, Hartwig, Ueda: Neural Networks Fail to Learn Periodic Functions, 2020
#include "weft/codegen/expr/op_codegen.h"
#include "weft/core/graph/builtin_ops.h"
#include "weft/core/op/op.h"
#include "weft/core/op/op_attr_types.h"
#include "weft/core/op/op_param.h"
#include "weft/support/check.h"

namespace demo {

using namespace weft;

struct SnakeParam : OpParam<SnakeParam> {
  double alpha;
  WEFT_OP_PARAM(SnakeParam) {
    WEFT_FIELD(alpha).set_default(1).set_range(1e-3, 1e3).describe("frequency");
  }
};
WEFT_REGISTER_OP_PARAM(SnakeParam);

namespace {

void InferType(InferTypeContext& ctx) {
  const Type t = ctx.in(0);
  if (!t.known()) return;
  WEFT_CHECK(t == Type(DType::kF32) || t == Type(DType::kF64), kTypeMismatch,
             "{}: expected f32 or f64, got {}", ctx.node()->Describe(), t.ToString());
  ctx.set_out(0, t);
}

void InferShape(InferShapeContext& ctx) { ctx.set_out(0, ctx.in(0)); }

Exprs Code(const NodePtr& n, const Exprs& inputs) {
  const double alpha = ParamOf<SnakeParam>(n).alpha;
  const Expr s = Expr::Call(CallOp::kSin, {inputs[0] * alpha});
  return {inputs[0] + s * s / alpha};
}

std::vector<NodeEntry> Gradient(const NodePtr& n, const std::vector<NodeEntry>& ograds) {
  const NodeEntry x = n->inputs[0], dy = ograds[0];
  if (!dy) return {NodeEntry()};
  const double alpha = ParamOf<SnakeParam>(n).alpha;
  return {dy * (ScalarOf(x, 1) + ApplyOp("Sin", {x * ScalarOf(x, 2 * alpha)}))};
}

}  // namespace

WEFT_REGISTER_OP_IN(demo, Snake)
    .describe("y = x + sin(alpha x)^2 / alpha, an activation for periodic signals.")
    .input("x", "T in {f32, f64}")
    .output("y", "T", "the shape of x")
    .param<SnakeParam>()
    .set_attr<FInferType>("FInferType", InferType)
    .set_attr<FInferShape>("FInferShape", InferShape)
    .set_attr<FCodeGen>("FCodeGen", Code)
    .set_attr<FGradient>("FGradient", Gradient)
    .example({"f32[2, n, 3]"})
    .example({"f64[]"}, "alpha = 3.0");

}  // namespace demo
