/// transcendental.cc: Sqrt, Reciprocal, Exp, Log, Erf, the trigonometric and hyperbolic functions
/// and their inverses.
///
/// f16 and bf16 are computed in f32 and rounded once. Gradients use y where that spares keeping x;
/// at the edge of a domain they are infinite, as PyTorch's.
/// Outside its domain a function gives NaN; Log(0) = -inf. In gradients 1 - x^2 is
/// (1 - x) * (1 + x), which keeps its digits near 1.
#include "ops/util/op_util.h"

namespace weft::ops {
namespace {

using Entry = const NodeEntry&;

/// 1 - x^2.
NodeEntry OneMinusSquare(Entry x) {
  const NodeEntry one = ScalarOf(x, 1);
  return (one - x) * (one + x);
}
NodeEntry SqrtOf(Entry x) { return ApplyOp("Sqrt", {x}); }

}  // namespace

#define WEFT_REGISTER_MATH_OP(Name, Version, Formula, GradDoc, Code, Grad)                  \
  WEFT_REGISTER_UNARY_OP(Name, kFloats,                                                     \
                         "y = " Formula ". Gradient: dx = " GradDoc ". Source: ONNX " #Name \
                         "-" #Version ".")                                                  \
      .set_attr<FCodeGen>("FCodeGen", UnaryCodeGen(Code))                                   \
      .set_attr<FGradient>("FGradient",                                                     \
                           UnaryGradient([](Entry x, Entry y, Entry dy) -> NodeEntry {      \
                             (void)x, (void)y;                                              \
                             return Grad;                                                   \
                           }))                                                              \
      .example({"f32[2, n, 3]"})                                                            \
      .example({"f64[]"})                                                                   \
      .example({"f16[4]"})

WEFT_REGISTER_MATH_OP(Sqrt, 13, "the square root of x", "dy / (2 * y), infinite at 0", UnOp::kSqrt,
                      dy / (y + y))
    .set_attr<FInputDomains>("FInputDomains", Domains({Positive()}));
WEFT_REGISTER_MATH_OP(
    Reciprocal, 13, "1 / x", "-dy * y^2", [](const Expr& x) { return ConstOf(x, 1) / x; },
    -(dy*(y* y)))
    .set_attr<FInputDomains>("FInputDomains", Domains({NonZero()}));
WEFT_REGISTER_MATH_OP(Exp, 13, "e^x", "dy * y", CallOp::kExp, dy* y);
WEFT_REGISTER_MATH_OP(Log, 13, "the natural logarithm of x", "dy / x, infinite at 0", CallOp::kLog,
                      dy / x)
    .set_attr<FInputDomains>("FInputDomains", Domains({Positive()}));
WEFT_REGISTER_MATH_OP(Erf, 13, "2/sqrt(pi) * integral of e^(-t^2) over [0, x]",
                      "dy * 2/sqrt(pi) * e^(-x^2)", CallOp::kErf,
                      dy*(ScalarOf(x, 1.1283791670955126) * ApplyOp("Exp", {-(x * x)})));

WEFT_REGISTER_MATH_OP(Sin, 22, "sin x", "dy * cos x", CallOp::kSin, dy* ApplyOp("Cos", {x}));
WEFT_REGISTER_MATH_OP(Cos, 22, "cos x", "-dy * sin x", CallOp::kCos, -(dy* ApplyOp("Sin", {x})));
WEFT_REGISTER_MATH_OP(Tan, 22, "tan x", "dy * (1 + y^2)", CallOp::kTan,
                      dy*(ScalarOf(y, 1) + y * y));
WEFT_REGISTER_MATH_OP(Asin, 22, "arcsin x, for x in [-1, 1]",
                      "dy / sqrt(1 - x^2), infinite at -1 and 1", CallOp::kAsin,
                      dy / SqrtOf(OneMinusSquare(x)))
    .set_attr<FInputDomains>("FInputDomains", Domains({Unit()}));
WEFT_REGISTER_MATH_OP(Acos, 22, "arccos x, for x in [-1, 1]",
                      "-dy / sqrt(1 - x^2), infinite at -1 and 1", CallOp::kAcos,
                      -(dy / SqrtOf(OneMinusSquare(x))))
    .set_attr<FInputDomains>("FInputDomains", Domains({Unit()}));
WEFT_REGISTER_MATH_OP(Atan, 22, "arctan x", "dy / (1 + x^2)", CallOp::kAtan,
                      dy / (ScalarOf(x, 1) + x * x));

WEFT_REGISTER_MATH_OP(Sinh, 22, "sinh x", "dy * cosh x", CallOp::kSinh, dy* ApplyOp("Cosh", {x}));
WEFT_REGISTER_MATH_OP(Cosh, 22, "cosh x", "dy * sinh x", CallOp::kCosh, dy* ApplyOp("Sinh", {x}));
WEFT_REGISTER_MATH_OP(Tanh, 13, "tanh x", "dy * (1 - y^2)", CallOp::kTanh, dy* OneMinusSquare(y));
WEFT_REGISTER_MATH_OP(Asinh, 22, "arsinh x", "dy / sqrt(x^2 + 1)", CallOp::kAsinh,
                      dy / SqrtOf(x * x + ScalarOf(x, 1)));
WEFT_REGISTER_MATH_OP(Acosh, 22, "arcosh x, for x >= 1", "dy / sqrt((x - 1) * (x + 1))",
                      CallOp::kAcosh, dy / SqrtOf((x - ScalarOf(x, 1)) * (x + ScalarOf(x, 1))))
    .set_attr<FInputDomains>("FInputDomains", Domains({Positive()}));
WEFT_REGISTER_MATH_OP(Atanh, 22, "artanh x, for x in (-1, 1)", "dy / (1 - x^2)", CallOp::kAtanh,
                      dy / OneMinusSquare(x))
    .set_attr<FInputDomains>("FInputDomains", Domains({Unit()}));

}  // namespace weft::ops
