/// isru.cc: weft::Isru, the inverse square root unit.
///
///   in      x : T[...]
///   out     y : T[...] = x / sqrt(1 + x^2)
///   T       f16, bf16, f32, f64
///   grad    dx = dy (1 + x^2)^(-3/2); retains x
///
/// Source: Carlile et al., 2017.
#include "ops/util/op_util.h"

namespace weft::ops {
namespace {

Expr IsruOf(const Expr& x) { return x * CallMath(CallOp::kRsqrt, x * x + 1.0); }

NodeEntry IsruGrad(const NodeEntry& x, const NodeEntry&, const NodeEntry& dy) {
  const NodeEntry r = ApplyOp("Reciprocal", {ApplyOp("Sqrt", {x * x + ScalarOf(x, 1)})});
  return dy * (r * r * r);
}

}  // namespace

WEFT_REGISTER_OP_IN(weft, Isru)
    .describe("y = x / sqrt(1 + x^2). Gradient: dx = dy (1 + x^2)^(-3/2); retains x.")
    .input("x", TypeDoc(kFloats))
    .output("y", "T", "the shape of x")
    .param<NoParam>()
    .include("ElementwiseUnary")
    .set_attr<FInferType>("FInferType", SameType(kFloats))
    .set_attr<FCodeGen>("FCodeGen", UnaryCodeGen(IsruOf))
    .set_attr<FGradient>("FGradient", UnaryGradient(IsruGrad))
    .example({"f32[2, n, 3]"})
    .example({"f64[4]"});

}  // namespace weft::ops
