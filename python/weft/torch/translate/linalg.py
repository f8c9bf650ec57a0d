"""Products of matrices: mm, addmm, bmm, linear, einsum, norms of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.torch.record import Dim, DType
from weft.torch.translate.core import Number, Translation, Untranslatable, Val, category, rule


def matmul(t: Translation, a: Val, b: Val, dims: Sequence[Dim]) -> Val:
    if category(a.dtype) == 1 and a.dtype not in ("int32", "int64"):
        raise Untranslatable(f"product of matrices of {a.dtype}")
    return t.op("MatMul", a, b, dims=dims)


@rule("aten.mm.default", "aten.bmm.default", "aten.matmul.default", "aten.mv.default")
def mm(t: Translation, self: Val, mat2: Val, **_: Any) -> Val:
    return matmul(t, self, mat2, t.result.dims)


@rule("aten.dot.default", "aten.vdot.default")
def dot(t: Translation, self: Val, tensor: Val) -> Val:
    return matmul(t, self, tensor, [])


@rule("aten.linear.default", "weft.linear.default")
def linear(t: Translation, input: Val, weight: Val, bias: Val | None = None) -> Val:
    y = matmul(t, input, t.transpose(weight, [1, 0]), t.result.dims)
    return y if bias is None else t.add(y, bias)


def _scaled(t: Translation, x: Val, factor: Number) -> Val:
    return x if factor == 1 else t.mul(x, factor)


def _mixed(t: Translation, product: Val, alpha: Number, x: Val, beta: Number) -> Val:
    """alpha product + beta x, which is not read where beta is 0."""
    y = _scaled(t, product, alpha)
    return y if beta == 0 else t.add(y, _scaled(t, x, beta))


@rule("aten.addmm.default")
def addmm(
    t: Translation, self: Val, mat1: Val, mat2: Val, *, beta: Number = 1, alpha: Number = 1
) -> Val:
    if isinstance(alpha, (int, float)) and isinstance(beta, (int, float)):
        return t.op(
            "Gemm", mat1, mat2, self, dims=t.result.dims, alpha=float(alpha), beta=float(beta)
        )
    return _mixed(t, matmul(t, mat1, mat2, t.result.dims), alpha, self, beta)


@rule("aten.baddbmm.default")
def baddbmm(
    t: Translation, self: Val, batch1: Val, batch2: Val, *, beta: Number = 1, alpha: Number = 1
) -> Val:
    return _mixed(t, matmul(t, batch1, batch2, t.result.dims), alpha, self, beta)


@rule("aten.addbmm.default")
def addbmm(
    t: Translation, self: Val, batch1: Val, batch2: Val, *, beta: Number = 1, alpha: Number = 1
) -> Val:
    y = matmul(t, batch1, batch2, (batch1.dims[0], *t.result.dims))
    return _mixed(t, t.reduce("ReduceSum", y, [0], False), alpha, self, beta)


@rule("aten.addmv.default")
def addmv(
    t: Translation, self: Val, mat: Val, vec: Val, *, beta: Number = 1, alpha: Number = 1
) -> Val:
    return _mixed(t, matmul(t, mat, vec, t.result.dims), alpha, self, beta)


@rule("aten.einsum.default")
def einsum(t: Translation, equation: str, tensors: Sequence[Val], **_: Any) -> Val:
    return t.op("Einsum", *tensors, dims=t.result.dims, equation=equation.replace(" ", ""))


@rule("aten.linalg_vector_norm.default")
def vector_norm(
    t: Translation,
    self: Val,
    ord: Number = 2,
    dim: list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Val:
    x = t.cast(self, t.result.dtype)
    if ord == 2:
        return t.reduce("ReduceL2", x, dim, keepdim)
    if ord == 1:
        return t.reduce("ReduceL1", x, dim, keepdim)
    if ord == float("inf"):
        return t.reduce("ReduceMax", t.op("Abs", x), dim, keepdim)
    if ord == float("-inf"):
        return t.reduce("ReduceMin", t.op("Abs", x), dim, keepdim)
    if ord == 0:
        nonzero = t.op("Not", t.binary("Equal", x, 0, x.dtype, "bool"))
        return t.reduce("ReduceSum", t.cast(nonzero, x.dtype), dim, keepdim)
    powers = t.binary("Pow", t.op("Abs", x), ord, x.dtype)
    return t.binary("Pow", t.reduce("ReduceSum", powers, dim, keepdim), 1 / ord, x.dtype)  # type: ignore[operator]


@rule("aten._cdist_forward.default", "aten.cdist.default")
def cdist(t: Translation, x1: Val, x2: Val, p: float = 2.0, compute_mode: Any = None) -> Val:
    a, b = t.unsqueeze(x1, [x1.rank - 1]), t.unsqueeze(x2, [x2.rank - 2])
    difference = t.binary("Sub", a, b, x1.dtype)
    if p == 2:
        return t.reduce("ReduceL2", difference, [-1], False)
    if p == 1:
        return t.reduce("ReduceL1", difference, [-1], False)
    raise Untranslatable(f"cdist with p = {p}")


@rule("transformers.grouped_mm_fallback.default", "aten._grouped_mm.default")
def grouped_mm(t: Translation, input: Val, weight: Val, offs: Val, *_: Any, **__: Any) -> Val:
    """Rows of the input in groups that end at `offs`, each times the matrix of its group."""
    if input.rank != 2 or weight.rank != 3:
        raise Untranslatable("grouped product of these ranks")
    rows = input.dims[0]
    index = t.op(
        "Range", t.scalar(0, "int64"), t.scalar(rows, "int64"), t.scalar(1, "int64"), dims=[rows]
    )
    ends = t.cast(offs, "int64")
    passed = t.binary(
        "GreaterOrEqual", t.unsqueeze(index, [1]), t.unsqueeze(ends, [0]), "int64", "bool"
    )
    group = t.reduce("ReduceSum", t.cast(passed, "int64"), [1], False)
    # One product per group over all rows, of which the group's own are kept: as many as the
    # experts, and no copy of a matrix per row.
    result: Val | None = None
    for k in range(int(weight.dims[0]) if isinstance(weight.dims[0], int) else -1):
        matrix = t.op("Gather", weight, t.scalar(k, "int64"), dims=weight.dims[1:], axis=0)
        y = matmul(t, input, matrix, t.result.dims)
        mine = t.unsqueeze(t.binary("Equal", group, k, "int64", "bool"), [1])
        result = t.where(mine, y, 0 if result is None else result, y.dtype)
    if result is None:
        raise Untranslatable("grouped product of a symbolic number of groups")
    return result
