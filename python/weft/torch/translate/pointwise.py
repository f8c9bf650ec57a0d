"""Element-wise arithmetic and functions: add, div with its roundings, pow, exp, clamp ..."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.torch.record import DType, Size
from weft.torch.translate.core import (
    Number,
    Operand,
    Translation,
    Untranslatable,
    Val,
    category,
    promote,
    rule,
)


def scaled(t: Translation, x: Operand, alpha: Number, dtype: str) -> Operand:
    """alpha * x."""
    return x if alpha == 1 else t.binary("Mul", x, alpha, dtype)


def arithmetic(t: Translation, name: str, a: Operand, b: Operand) -> Val:
    """In the recorded dtype of the result, which is what torch computes in."""
    return t.binary(name, a, b, t.result.dtype)


@rule("aten.add.Tensor", "aten.add.Scalar")
def add(t: Translation, self: Val, other: Operand, alpha: Number = 1) -> Val:
    if t.result.dtype == "bool":
        return t.op("Or", *(t.operand(x, "bool") for x in (self, other)), dims=t.result.dims)
    return arithmetic(t, "Add", self, scaled(t, other, alpha, t.result.dtype))


@rule("aten.sub.Tensor", "aten.sub.Scalar")
def sub(t: Translation, self: Val, other: Operand, alpha: Number = 1) -> Val:
    return arithmetic(t, "Sub", self, scaled(t, other, alpha, t.result.dtype))


@rule("aten.rsub.Scalar", "aten.rsub.Tensor")
def rsub(t: Translation, self: Val, other: Operand, alpha: Number = 1) -> Val:
    return arithmetic(t, "Sub", other, scaled(t, self, alpha, t.result.dtype))


@rule("aten.mul.Tensor", "aten.mul.Scalar")
def mul(t: Translation, self: Val, other: Operand) -> Val:
    if t.result.dtype == "bool":
        return t.op("And", *(t.operand(x, "bool") for x in (self, other)), dims=t.result.dims)
    return arithmetic(t, "Mul", self, other)


@rule("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def div(t: Translation, self: Val, other: Operand) -> Val:
    return arithmetic(t, "Div", self, other)


def floor_quotient(t: Translation, a: Operand, b: Operand, dtype: str) -> Val:
    if category(dtype) == 2:
        return t.op("Floor", t.binary("Div", a, b, dtype))
    quotient = t.binary("Div", a, b, dtype)
    if dtype == "uint8":
        return quotient
    # Integers are divided towards zero; one less where a remainder has the other sign.
    rest = t.sub(t.operand(a, dtype), t.mul(quotient, b))
    inexact = t.op("Not", t.binary("Equal", rest, 0, dtype, "bool"))
    signs = t.binary(
        "Xor",
        t.binary("Less", rest, 0, dtype, "bool"),
        t.binary("Less", b, 0, dtype, "bool"),
        "bool",
    )
    return t.sub(quotient, t.cast(t.binary("And", inexact, signs, "bool"), dtype))


@rule("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(t: Translation, self: Val, other: Operand, rounding_mode: str | None = None) -> Val:
    dtype = t.result.dtype
    if rounding_mode == "floor":
        return floor_quotient(t, self, other, dtype)
    quotient = t.binary("Div", self, other, dtype)
    if rounding_mode == "trunc" and category(dtype) == 2:
        return truncate(t, quotient)
    return quotient


def truncate(t: Translation, x: Val) -> Val:
    return t.mul(t.op("Sign", x), t.op("Floor", t.op("Abs", x)))


@rule("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(t: Translation, self: Val, other: Operand) -> Val:
    return floor_quotient(t, self, other, t.result.dtype)


@rule("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(t: Translation, self: Operand, other: Operand) -> Val:
    """With the divisor's sign, as ONNX's Mod of integers."""
    dtype = t.result.dtype
    if category(dtype) == 1:
        return t.binary("Mod", self, other, dtype)
    a, b = t.operand(self, dtype), t.operand(other, dtype)
    return t.sub(a, t.mul(floor_quotient(t, a, b, dtype), b))


@rule("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(t: Translation, self: Val, other: Operand) -> Val:
    dtype = t.result.dtype
    return t.op("Mod", t.cast(self, dtype), t.operand(other, dtype), dims=t.result.dims, fmod=1)


@rule("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def pow(t: Translation, self: Operand, exponent: Operand) -> Val:
    dtype = t.result.dtype
    base = t.operand(self, dtype)
    if isinstance(exponent, (int, float)):
        if exponent == 2:
            return t.mul(base, base)
        if exponent == 3:
            return t.mul(t.mul(base, base), base)
        if exponent == 1:
            return base
        if exponent == 0.5:
            return t.op("Sqrt", base)
        if exponent == -0.5:
            return t.op("Reciprocal", t.op("Sqrt", base))
        if exponent == -1:
            return t.op("Reciprocal", base)
    return t.binary("Pow", base, exponent, dtype)


def unary(name: str, *ops: str) -> None:
    """Functions of floats; integers are cast first, as torch does."""

    def function(t: Translation, self: Val) -> Val:
        return t.op(name, t.cast(self, t.result.dtype))

    rule(*ops)(function)


for _name, _op in (
    ("Exp", "exp"), ("Log", "log"), ("Sqrt", "sqrt"), ("Sin", "sin"), ("Cos", "cos"),
    ("Tan", "tan"), ("Sinh", "sinh"), ("Cosh", "cosh"), ("Asin", "asin"), ("Acos", "acos"),
    ("Atan", "atan"), ("Asinh", "asinh"), ("Acosh", "acosh"), ("Atanh", "atanh"),
    ("Tanh", "tanh"), ("Sigmoid", "sigmoid"), ("Erf", "erf"), ("Reciprocal", "reciprocal"),
    ("Neg", "neg"), ("Abs", "abs"), ("Sign", "sign"), ("Sign", "sgn"),
):  # fmt: skip
    unary(_name, f"aten.{_op}.default")


def rounding(name: str, op: str) -> None:
    def function(t: Translation, self: Val) -> Val:
        return self if category(self.dtype) != 2 else t.op(name, self)

    rule(op)(function)


for _name, _op in (("Floor", "floor"), ("Ceil", "ceil"), ("Round", "round")):
    rounding(_name, f"aten.{_op}.default")


@rule("aten.trunc.default")
def trunc(t: Translation, self: Val) -> Val:
    return self if category(self.dtype) != 2 else truncate(t, self)


@rule("aten.rsqrt.default")
def rsqrt(t: Translation, self: Val) -> Val:
    return t.op("Reciprocal", t.op("Sqrt", t.cast(self, t.result.dtype)))


@rule("aten.log1p.default")
def log1p(t: Translation, self: Val) -> Val:
    """Exact for small x as well: log(u) * x / (u - 1) with u = 1 + x (Kahan)."""
    x = t.cast(self, t.result.dtype)
    u = t.add(x, 1)
    exact = t.binary("Equal", u, 1, u.dtype, "bool")
    safe = t.where(exact, 2, u, x.dtype)
    quotient = t.div(t.mul(t.op("Log", safe), x), t.sub(safe, 1))
    infinite = t.op("IsInf", x, dtype="bool", detect_negative=0)
    return t.where(exact, x, t.where(infinite, x, quotient, x.dtype), x.dtype)


@rule("aten.expm1.default")
def expm1(t: Translation, self: Val) -> Val:
    """2 tanh(x / 2) / (1 - tanh(x / 2)), exact for small x; exp(x) - 1 elsewhere."""
    x = t.cast(self, t.result.dtype)
    half = t.op("Tanh", t.mul(x, 0.5))
    small = t.div(t.mul(half, 2), t.binary("Sub", 1, half, x.dtype))
    near = t.binary("Less", t.op("Abs", x), 1, x.dtype, "bool")
    return t.where(near, small, t.sub(t.op("Exp", x), 1), x.dtype)


@rule("aten.xlogy.Tensor", "aten.xlogy.Scalar_Self", "aten.xlogy.Scalar_Other")
def xlogy(t: Translation, self: Operand, other: Operand) -> Val:
    """x log(y), 0 where x is 0, and NaN where y is."""
    dtype = t.result.dtype
    x, y = t.operand(self, dtype), t.operand(other, dtype)
    zero = t.binary("And", t.binary("Equal", x, 0, dtype, "bool"),
                    t.op("Not", t.op("IsNaN", y, dtype="bool")), "bool")  # fmt: skip
    log = t.op("Log", t.where(zero, 1, y, dtype))
    return t.where(zero, 0.0, t.mul(x, log), dtype)


@rule("aten.exp2.default")
def exp2(t: Translation, self: Val) -> Val:
    return t.binary("Pow", 2, self, t.result.dtype)


@rule("aten.log2.default", "aten.log10.default")
def log_base(t: Translation, self: Val) -> Val:
    assert t._node is not None
    base = 2.0 if "log2" in t._node.op else 10.0
    x = t.op("Log", t.cast(self, t.result.dtype))
    return t.mul(x, 1 / float(np.log(base)))


@rule("aten.square.default")
def square(t: Translation, self: Val) -> Val:
    return t.mul(self, self)


@rule("aten.erfc.default")
def erfc(t: Translation, self: Val) -> Val:
    x = t.cast(self, t.result.dtype)
    return t.binary("Sub", 1, t.op("Erf", x), x.dtype)


@rule("aten.atan2.default")
def atan2(t: Translation, self: Val, other: Val) -> Val:
    dtype = t.result.dtype
    y, x = t.cast(self, dtype), t.cast(other, dtype)
    zero = t.binary("Equal", x, 0, dtype, "bool")
    base = t.op("Atan", t.div(y, t.where(zero, 1, x, dtype)))
    sign = t.where(t.binary("Less", y, 0, dtype, "bool"), -1, 1, dtype)
    behind = t.binary("Less", x, 0, dtype, "bool")
    shifted = t.where(behind, t.add(base, t.mul(sign, float(np.pi))), base, dtype)
    at_zero = t.where(
        t.binary("Equal", y, 0, dtype, "bool"), 0, t.mul(sign, float(np.pi / 2)), dtype
    )
    return t.where(zero, at_zero, shifted, dtype)


@rule("aten.maximum.default", "aten.max.other")
def maximum(t: Translation, self: Val, other: Operand) -> Val:
    return arithmetic(t, "Max", self, other)


@rule("aten.minimum.default", "aten.min.other")
def minimum(t: Translation, self: Val, other: Operand) -> Val:
    return arithmetic(t, "Min", self, other)


@rule("aten.clamp.default", "aten.clamp.Tensor")
def clamp(t: Translation, self: Val, min: Operand | None = None, max: Operand | None = None) -> Val:
    dtype = t.result.dtype
    x = t.cast(self, dtype)
    if all(b is None or isinstance(b, (int, float)) for b in (min, max)):
        return t.op(
            "Clip",
            x,
            None if min is None else t.operand(min, dtype),
            None if max is None else t.operand(max, dtype),
        )
    if min is not None:
        x = t.binary("Max", x, min, dtype)
    if max is not None:
        x = t.binary("Min", x, max, dtype)
    return x


@rule("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(t: Translation, self: Val, min: Operand) -> Val:
    return clamp(t, self, min, None)


@rule("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(t: Translation, self: Val, max: Operand) -> Val:
    return clamp(t, self, None, max)


@rule("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def where(t: Translation, condition: Val, self: Operand, other: Operand) -> Val:
    return t.where(t.cast(condition, "bool"), self, other, t.result.dtype)


@rule("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(t: Translation, self: Val, mask: Val, value: Operand) -> Val:
    return t.where(mask, value, self, t.result.dtype)


@rule("aten.addcmul.default")
def addcmul(t: Translation, self: Val, tensor1: Val, tensor2: Val, value: Number = 1) -> Val:
    dtype = t.result.dtype
    product = t.binary("Mul", tensor1, tensor2, dtype)
    return t.binary("Add", self, scaled(t, product, value, dtype), dtype)


@rule("aten.addcdiv.default")
def addcdiv(t: Translation, self: Val, tensor1: Val, tensor2: Val, value: Number = 1) -> Val:
    dtype = t.result.dtype
    quotient = t.binary("Div", tensor1, tensor2, dtype)
    return t.binary("Add", self, scaled(t, quotient, value, dtype), dtype)


@rule("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(t: Translation, self: Val, end: Val, weight: Operand) -> Val:
    dtype = t.result.dtype
    return t.binary("Add", self, t.binary("Mul", t.sub(end, self), weight, dtype), dtype)


@rule(
    "aten._to_copy.default",
    "aten.to.dtype",
    "aten.to.dtype_layout",
    "aten.to.device",
    "aten.to.other",
    "aten.to.prim_Device",
    "aten.type_as.default",
)
def to_copy(t: Translation, self: Val, *_: Any, **__: Any) -> Val:
    return t.cast(self, t.result.dtype)


@rule("prims.convert_element_type.default")
def convert_element_type(t: Translation, a: Val, dtype: DType) -> Val:
    return t.cast(a, dtype.name)


_BITWISE = {"and": ("And", "BitwiseAnd"), "or": ("Or", "BitwiseOr"), "xor": ("Xor", "BitwiseXor")}


def bitwise(word: str) -> None:
    logical, bits = _BITWISE[word]

    def function(t: Translation, self: Val, other: Operand) -> Val:
        dtype = t.result.dtype
        return t.binary(logical if dtype == "bool" else bits, self, other, dtype)

    for form in ("Tensor", "Scalar"):
        rule(f"aten.bitwise_{word}.{form}", f"aten.__{word}__.{form}")(function)

    def truth(t: Translation, self: Val, other: Val) -> Val:
        return t.binary(logical, self, other, "bool")

    rule(f"aten.logical_{word}.default")(truth)


for _word in _BITWISE:
    bitwise(_word)


@rule("aten.bitwise_not.default")
def bitwise_not(t: Translation, self: Val) -> Val:
    return t.op("Not" if self.dtype == "bool" else "BitwiseNot", self)


@rule("aten.logical_not.default")
def logical_not(t: Translation, self: Val) -> Val:
    return t.op("Not", t.cast(self, "bool"))


@rule("aten.bitwise_left_shift.Tensor", "aten.__lshift__.Scalar", "aten.__lshift__.Tensor")
def shift_left(t: Translation, self: Val, other: Operand) -> Val:
    return _shift(t, self, other, "Mul")


@rule("aten.bitwise_right_shift.Tensor", "aten.__rshift__.Scalar", "aten.__rshift__.Tensor")
def shift_right(t: Translation, self: Val, other: Operand) -> Val:
    """Arithmetic: the floor of the quotient."""
    return _shift(t, self, other, "Div")


def _shift(t: Translation, x: Val, by: Operand, name: str) -> Val:
    if isinstance(by, (Val, Size)):
        raise Untranslatable("shift by a tensor")
    factor = 2 ** int(by)
    dtype = t.result.dtype
    if name == "Mul":
        return t.binary("Mul", x, factor, dtype)
    return floor_quotient(t, x, factor, dtype)


def compute_dtype(a: Val, b: Operand) -> str:
    """Where operands of a comparison meet: a number only counts where its kind is higher."""
    if isinstance(b, Val):
        if category(a.dtype) == category(b.dtype) and (a.rank == 0) != (b.rank == 0):
            return b.dtype if a.rank == 0 else a.dtype
        return promote(a.dtype, b.dtype)
    kind = 0 if isinstance(b, bool) else 2 if isinstance(b, float) else 1
    if kind <= category(a.dtype):
        return a.dtype
    return "int64" if kind == 1 else "float32"
