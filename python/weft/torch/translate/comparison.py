"""Comparisons and tests: eq, lt, isnan, any, all ..."""

from __future__ import annotations

from weft.torch.translate.core import Operand, Translation, Val, category, rule
from weft.torch.translate.pointwise import compute_dtype


def comparison(op: str, name: str, negate: bool = False) -> None:
    def function(t: Translation, self: Val, other: Operand) -> Val:
        dtype = compute_dtype(self, other)
        if dtype == "bool" and name != "Equal":
            dtype = "int32"
        result = t.binary(name, self, other, dtype, "bool")
        return t.op("Not", result) if negate else result

    rule(f"aten.{op}.Tensor", f"aten.{op}.Scalar")(function)


comparison("eq", "Equal")
comparison("ne", "Equal", negate=True)
comparison("lt", "Less")
comparison("le", "LessOrEqual")
comparison("gt", "Greater")
comparison("ge", "GreaterOrEqual")


@rule("aten.isnan.default")
def isnan(t: Translation, self: Val) -> Val:
    if category(self.dtype) != 2:
        return t.full(False, self.dims, "bool")
    return t.op("IsNaN", self, dtype="bool")


@rule("aten.isinf.default")
def isinf(t: Translation, self: Val) -> Val:
    if category(self.dtype) != 2:
        return t.full(False, self.dims, "bool")
    return t.op("IsInf", self, dtype="bool")


@rule("aten.any.default", "aten.any.dim", "aten.any.dims")
def any_(
    t: Translation, self: Val, dim: int | list[int] | None = None, keepdim: bool = False
) -> Val:
    x = t.cast(t.cast(self, "bool"), "int32")
    axes = [dim] if isinstance(dim, int) else dim
    return t.cast(t.reduce("ReduceMax", x, axes, keepdim), t.result.dtype)


@rule("aten.all.default", "aten.all.dim", "aten.all.dims")
def all_(
    t: Translation, self: Val, dim: int | list[int] | None = None, keepdim: bool = False
) -> Val:
    x = t.cast(t.cast(self, "bool"), "int32")
    axes = [dim] if isinstance(dim, int) else dim
    return t.cast(t.reduce("ReduceMin", x, axes, keepdim), t.result.dtype)
