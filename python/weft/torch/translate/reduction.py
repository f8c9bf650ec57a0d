"""Reductions: sum, mean, amax, var, argmax, cumsum ..."""

from __future__ import annotations

from typing import Any

from weft.torch.record import DType, Size
from weft.torch.translate import sizes
from weft.torch.translate.core import Number, Translation, Val, category, rule

Axes = int | list[int] | None


def _axes(dim: Axes) -> list[int] | None:
    return [dim] if isinstance(dim, int) else dim


@rule("aten.sum.default")
def sum_all(t: Translation, self: Val, *, dtype: DType | None = None) -> Val:
    """Bools and small integers are summed as int64: the recorded dtype says so."""
    return t.reduce("ReduceSum", t.cast(self, t.result.dtype), None, False)


@rule("aten.sum.dim_IntList")
def sum_(
    t: Translation, self: Val, dim: Axes, keepdim: bool = False, *, dtype: DType | None = None
) -> Val:
    return t.reduce("ReduceSum", t.cast(self, t.result.dtype), _axes(dim), keepdim)


@rule("aten.mean.default")
def mean_all(t: Translation, self: Val, *, dtype: DType | None = None) -> Val:
    return t.reduce("ReduceMean", t.cast(self, t.result.dtype), None, False)


@rule("aten.mean.dim")
def mean(
    t: Translation, self: Val, dim: Axes, keepdim: bool = False, *, dtype: DType | None = None
) -> Val:
    return t.reduce("ReduceMean", t.cast(self, t.result.dtype), _axes(dim), keepdim)


@rule("aten.prod.default", "aten.prod.dim_int")
def product(
    t: Translation, self: Val, dim: int | None = None, keepdim: bool = False, *,
    dtype: DType | None = None,
) -> Val:  # fmt: skip
    return t.reduce("ReduceProd", t.cast(self, t.result.dtype), _axes(dim), keepdim)


@rule("aten.logsumexp.default")
def logsumexp(t: Translation, self: Val, dim: Axes, keepdim: bool = False) -> Val:
    return t.reduce("ReduceLogSumExp", t.cast(self, t.result.dtype), _axes(dim), keepdim)


def _extreme(t: Translation, x: Val, dim: Axes, keepdim: bool, name: str) -> Val:
    if x.dtype == "bool":
        return t.cast(t.reduce(name, t.cast(x, "int32"), _axes(dim), keepdim), "bool")
    return t.reduce(name, x, _axes(dim), keepdim)


@rule("aten.amax.default")
def amax(t: Translation, self: Val, dim: Axes = None, keepdim: bool = False) -> Val:
    return _extreme(t, self, dim, keepdim, "ReduceMax")


@rule("aten.amin.default")
def amin(t: Translation, self: Val, dim: Axes = None, keepdim: bool = False) -> Val:
    return _extreme(t, self, dim, keepdim, "ReduceMin")


@rule("aten.max.default")
def max_all(t: Translation, self: Val) -> Val:
    return _extreme(t, self, None, False, "ReduceMax")


@rule("aten.min.default")
def min_all(t: Translation, self: Val) -> Val:
    return _extreme(t, self, None, False, "ReduceMin")


def _arg(t: Translation, x: Val, dim: int | None, keepdim: bool, name: str) -> Val:
    dims = t.result.dims if len(t.results) == 1 else None
    if dim is None:
        flat = t.reshape(x, [sizes.product(x.dims)])
        index = t.op(name, flat, dtype="int64", dims=[], axis=0, keepdims=0)
        return t.reshape(index, dims or [])
    if x.rank == 0:
        return t.full(0, [], "int64")
    axis = dim % x.rank
    rest = [1 if i == axis else d for i, d in enumerate(x.dims) if keepdim or i != axis]
    if x.dtype == "bool":
        x = t.cast(x, "int32")
    return t.op(name, x, dtype="int64", dims=rest, axis=axis, keepdims=int(keepdim))


@rule("aten.argmax.default")
def argmax(t: Translation, self: Val, dim: int | None = None, keepdim: bool = False) -> Val:
    return _arg(t, self, dim, keepdim, "ArgMax")


@rule("aten.argmin.default")
def argmin(t: Translation, self: Val, dim: int | None = None, keepdim: bool = False) -> Val:
    return _arg(t, self, dim, keepdim, "ArgMin")


@rule("aten.max.dim")
def max_dim(t: Translation, self: Val, dim: int, keepdim: bool = False) -> list[Val | None]:
    index = _arg(t, self, dim, keepdim, "ArgMax") if t.wants(1) else None
    return [_extreme(t, self, dim, keepdim, "ReduceMax"), index]


@rule("aten.min.dim")
def min_dim(t: Translation, self: Val, dim: int, keepdim: bool = False) -> list[Val | None]:
    index = _arg(t, self, dim, keepdim, "ArgMin") if t.wants(1) else None
    return [_extreme(t, self, dim, keepdim, "ReduceMin"), index]


def _variance(
    t: Translation, x: Val, dim: Axes, correction: Number | None, keepdim: bool
) -> tuple[Val, Val]:
    """Variance and mean over axes; the sum of squares is divided by n - correction."""
    axes = _axes(dim) or list(range(x.rank))
    mean = t.reduce("ReduceMean", x, axes, True)
    centred = t.sub(x, mean)
    total = t.reduce("ReduceSum", t.mul(centred, centred), axes, keepdim)
    less = 1 if correction is None else correction
    over = [x.dims[a % x.rank] for a in axes]
    n = sizes.count(over)
    if n is not None and not isinstance(less, Size):
        variance = t.div(total, max(n - less, 0))
    else:
        count = t.cast(t.reshape(t.size(sizes.product(over)), []), x.dtype)
        variance = t.div(total, t.sub(count, less))
    return variance, mean if keepdim else t.squeeze(mean, axes)


@rule("aten.var.correction", "aten.var.dim")
def var(
    t: Translation, self: Val, dim: Axes = None, *args: Any, correction: Number | None = 1,
    keepdim: bool = False,
) -> Val:  # fmt: skip
    return _variance(t, self, dim, correction, keepdim)[0]


@rule("aten.std.correction")
def std(
    t: Translation, self: Val, dim: Axes = None, *, correction: Number | None = 1,
    keepdim: bool = False,
) -> Val:  # fmt: skip
    return t.op("Sqrt", _variance(t, self, dim, correction, keepdim)[0])


@rule("aten.var_mean.correction")
def var_mean(
    t: Translation, self: Val, dim: Axes = None, *, correction: Number | None = 1,
    keepdim: bool = False,
) -> list[Val | None]:  # fmt: skip
    return list(_variance(t, self, dim, correction, keepdim))


@rule("aten.cumsum.default")
def cumsum(t: Translation, self: Val, dim: int, *, dtype: DType | None = None) -> Val:
    x = t.cast(self, t.result.dtype)
    if x.rank == 0:
        return x
    return t.op("CumSum", x, t.scalar(dim % x.rank, "int64"))


@rule("aten.cumprod.default")
def cumprod(t: Translation, self: Val, dim: int, *, dtype: DType | None = None) -> Val:
    x = t.cast(self, t.result.dtype)
    return t.op("CumProd", x, t.scalar(dim % x.rank, "int64"))


@rule("aten.diff.default")
def diff(
    t: Translation, self: Val, n: int = 1, dim: int = -1, prepend: Val | None = None,
    append: Val | None = None,
) -> Val:  # fmt: skip
    x = self
    axis = dim % x.rank
    parts = [p for p in (prepend, x, append) if p is not None]
    if len(parts) > 1:
        length = parts[0].dims[axis]
        for part in parts[1:]:
            length = sizes.combine("+", length, part.dims[axis])
        x = t.concat(parts, axis, (*x.dims[:axis], length, *x.dims[axis + 1 :]))
    for _step in range(n):
        length = sizes.combine("-", x.dims[axis], 1)
        later = t.slice(x, axis, 1, 2**63 - 1, length)
        earlier = t.slice(x, axis, 0, -1, length)
        x = t.binary("Xor" if x.dtype == "bool" else "Sub", later, earlier, x.dtype)
    return x


@rule("aten.count_nonzero.default", "aten.count_nonzero.dim_IntList")
def count_nonzero(t: Translation, self: Val, dim: Axes = None) -> Val:
    return t.reduce("ReduceSum", t.cast(t.cast(self, "bool"), "int64"), _axes(dim), False)


@rule("aten.histc.default")
def histc(t: Translation, self: Val, bins: int = 100, min: Number = 0, max: Number = 0) -> Val:
    """Counts in equal bins of [min, max], of which only the last takes its upper end."""
    import numpy as np

    x = t.cast(self, self.dtype if category(self.dtype) == 2 else "float32")
    x = t.reshape(x, [sizes.product(x.dims)])
    low, high = float(min), float(max)  # type: ignore[arg-type]
    position = t.op("Floor", t.mul(t.sub(x, low), bins / (high - low)))
    at_end = t.binary("Equal", x, high, x.dtype, "bool")
    position = t.where(at_end, float(bins - 1), position, x.dtype)
    numbers = t.tensor(np.arange(bins, dtype=np.float32))
    hit = t.binary("Equal", t.unsqueeze(position, [1]), t.unsqueeze(numbers, [0]), x.dtype, "bool")
    return t.reduce("ReduceSum", t.cast(hit, t.result.dtype), [0], False)
