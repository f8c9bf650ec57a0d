"""Sorting: sort, topk, argsort."""

from __future__ import annotations

from weft.torch.record import Dim
from weft.torch.translate.core import Translation, Val, rule


def _top(t: Translation, x: Val, k: Dim, dim: int, largest: bool) -> list[Val]:
    """Ties: the lower index first, in ONNX as in a stable sort of torch."""
    if x.rank == 0:
        return [x, t.full(0, [], "int64")]
    axis = dim % x.rank
    dims = (*x.dims[:axis], k, *x.dims[axis + 1 :])
    y = t.cast(x, "int32") if x.dtype in ("bool", "uint8", "int8", "int16") else x
    values, index = t.ops(
        "TopK", [y, t.size(k)], [(y.dtype, dims), ("int64", dims)], axis=axis,
        largest=int(largest), sorted=1,
    )  # fmt: skip
    return [t.cast(values, x.dtype), index]


@rule("aten.topk.default")
def topk(
    t: Translation, self: Val, k: Dim, dim: int = -1, largest: bool = True, sorted: bool = True
) -> list[Val]:
    return _top(t, self, k, dim, largest)


@rule("aten.sort.default")
def sort(t: Translation, self: Val, dim: int = -1, descending: bool = False) -> list[Val]:
    length = self.dims[dim % self.rank] if self.rank else 1
    return _top(t, self, length, dim, descending)


@rule("aten.sort.stable")
def sort_stable(
    t: Translation, self: Val, stable: bool | None = None, dim: int = -1,
    descending: bool = False,
) -> list[Val]:  # fmt: skip
    return sort(t, self, dim, descending)


@rule("aten.argsort.default", "aten.argsort.stable")
def argsort(
    t: Translation, self: Val, dim: int = -1, descending: bool = False,
    stable: bool | None = None,
) -> Val:  # fmt: skip
    return sort(t, self, dim, descending)[1]
