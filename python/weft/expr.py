"""What the functions of operators (`weft.op`) compute with: functions of expressions, beside the arithmetic and the comparisons
that an `Expr` has itself.

    @weft.op("demo::Softsign")
    def softsign(x):
        return x / (1 + abs(x))

Operands have one dtype, and numbers take it; `cast` makes another. There is no `if` on a value that only a kernel knows:
`where(condition, a, b)` chooses, and a NaN in the branch that is not chosen does not show.
"""

from __future__ import annotations

from weft import _weft
from weft._types import DTypeLike, ExprLike
from weft._weft import Expr

__all__ = [
    "Expr", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cast", "ceil", "constant", "cos", "cosh", "equal", "erf", "exp",
    "expm1", "floor", "fmod", "isinf", "isnan", "log", "log1p", "logical_and", "logical_not", "logical_or", "logical_xor",
    "maximum", "minimum", "not_equal", "pow", "round", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "where",
]


def where(condition: ExprLike, a: ExprLike, b: ExprLike) -> Expr:
    """`a` where the condition holds, else `b`."""
    return _weft._expr_where(condition, a, b)


def cast(x: ExprLike, dtype: DTypeLike) -> Expr:
    """`x` as another dtype. Floats become whole numbers towards 0, saturated; NaN becomes 0."""
    return _weft._expr_cast(x, dtype)


def constant(value: int | float, dtype: DTypeLike) -> Expr:
    """A number of a dtype of its own; plain numbers take that of what stands beside them."""
    return _weft._expr_constant(value, dtype)


def sqrt(x: Expr) -> Expr:
    """Square root, correctly rounded."""
    return _weft._expr_call("sqrt", x)


def rsqrt(x: Expr) -> Expr:
    """1 / sqrt(x)."""
    return _weft._expr_call("rsqrt", x)


def exp(x: Expr) -> Expr:
    """e to the power of x."""
    return _weft._expr_call("exp", x)


def expm1(x: Expr) -> Expr:
    """exp(x) - 1, exact near 0."""
    return _weft._expr_call("expm1", x)


def log(x: Expr) -> Expr:
    """Natural logarithm."""
    return _weft._expr_call("log", x)


def log1p(x: Expr) -> Expr:
    """log(1 + x), exact near 0."""
    return _weft._expr_call("log1p", x)


def pow(x: ExprLike, y: ExprLike) -> Expr:  # noqa: A001
    """x to the power of y, as `x ** y`."""
    return _weft._expr_call("pow", x, y)


def sin(x: Expr) -> Expr:
    """Sine."""
    return _weft._expr_call("sin", x)


def cos(x: Expr) -> Expr:
    """Cosine."""
    return _weft._expr_call("cos", x)


def tan(x: Expr) -> Expr:
    """Tangent."""
    return _weft._expr_call("tan", x)


def asin(x: Expr) -> Expr:
    """Inverse sine."""
    return _weft._expr_call("asin", x)


def acos(x: Expr) -> Expr:
    """Inverse cosine."""
    return _weft._expr_call("acos", x)


def atan(x: Expr) -> Expr:
    """Inverse tangent."""
    return _weft._expr_call("atan", x)


def sinh(x: Expr) -> Expr:
    """Hyperbolic sine."""
    return _weft._expr_call("sinh", x)


def cosh(x: Expr) -> Expr:
    """Hyperbolic cosine."""
    return _weft._expr_call("cosh", x)


def tanh(x: Expr) -> Expr:
    """Hyperbolic tangent."""
    return _weft._expr_call("tanh", x)


def asinh(x: Expr) -> Expr:
    """Inverse hyperbolic sine."""
    return _weft._expr_call("asinh", x)


def acosh(x: Expr) -> Expr:
    """Inverse hyperbolic cosine."""
    return _weft._expr_call("acosh", x)


def atanh(x: Expr) -> Expr:
    """Inverse hyperbolic tangent."""
    return _weft._expr_call("atanh", x)


def erf(x: Expr) -> Expr:
    """Error function."""
    return _weft._expr_call("erf", x)


def sigmoid(x: Expr) -> Expr:
    """1 / (1 + exp(-x))."""
    return _weft._expr_call("sigmoid", x)


def floor(x: Expr) -> Expr:
    """The largest whole number that is not above x."""
    return _weft._expr_call("floor", x)


def ceil(x: Expr) -> Expr:
    """The smallest whole number that is not below x."""
    return _weft._expr_call("ceil", x)


def round(x: Expr) -> Expr:  # noqa: A001
    """The nearest whole number, half to even."""
    return _weft._expr_call("round", x)


def trunc(x: Expr) -> Expr:
    """x without its fraction."""
    return _weft._expr_call("trunc", x)


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    """The smaller one; NaN where one is NaN."""
    return _weft._expr_call("minimum", a, b)


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    """The larger one; NaN where one is NaN."""
    return _weft._expr_call("maximum", a, b)


def fmod(a: ExprLike, b: ExprLike) -> Expr:
    """The remainder of a / b with the sign of a, as C has it; `a % b` has the sign of b."""
    return _weft._expr_call("fmod", a, b)


def isnan(x: Expr) -> Expr:
    """Is it NaN?"""
    return _weft._expr_call("isnan", x)


def isinf(x: Expr) -> Expr:
    """Is it infinite?"""
    return _weft._expr_call("isinf", x)


def equal(a: ExprLike, b: ExprLike) -> Expr:
    """a == b."""
    return _weft._expr_call("equal", a, b)


def not_equal(a: ExprLike, b: ExprLike) -> Expr:
    """a != b."""
    return _weft._expr_call("not_equal", a, b)


def logical_and(a: ExprLike, b: ExprLike) -> Expr:
    """Both, as `a & b`."""
    return _weft._expr_call("logical_and", a, b)


def logical_or(a: ExprLike, b: ExprLike) -> Expr:
    """One of them or both, as `a | b`."""
    return _weft._expr_call("logical_or", a, b)


def logical_xor(a: ExprLike, b: ExprLike) -> Expr:
    """One of them, as `a ^ b`."""
    return _weft._expr_call("logical_xor", a, b)


def logical_not(x: Expr) -> Expr:
    """Not x, as `~x`."""
    return _weft._expr_call("logical_not", x)
