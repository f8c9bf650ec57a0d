"""Views and reshapes: what changes no element, only where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.torch.record import Dim
from weft.torch.translate import sizes
from weft.torch.translate.core import Translation, Untranslatable, Val, rule


@rule(
    "aten.view.default",
    "aten._unsafe_view.default",
    "aten.reshape.default",
    "aten._reshape_copy.default",
    "aten.view_copy.default",
    "aten._reshape_alias.default",
)
def view(t: Translation, self: Val, size: Sequence[Dim], *_: Any) -> Val:
    return t.reshape(self, t.result.dims)


@rule("aten.flatten.using_ints", "aten.unflatten.int")
def flatten(t: Translation, self: Val, *_: Any, **__: Any) -> Val:
    return t.reshape(self, t.result.dims)


@rule(
    "aten.alias.default",
    "aten.alias_copy.default",
    "aten.clone.default",
    "aten.contiguous.default",
    "aten.lift_fresh.default",
    "aten.lift_fresh_copy.default",
    "aten.lift.default",
    "aten.positive.default",
    "aten._conj.default",
    "aten.resolve_conj.default",
)
def alias(t: Translation, self: Val, *_: Any, **__: Any) -> Val:
    return self


@rule("aten.detach.default", "aten.detach_copy.default")
def detach(t: Translation, self: Val) -> Val:
    """The same value, through which no gradient goes (`Translation.border`)."""
    return t.border(self)


@rule("aten.permute.default", "aten.permute_copy.default")
def permute(t: Translation, self: Val, dims: Sequence[int]) -> Val:
    return t.transpose(self, dims)


@rule("aten.transpose.int", "aten.transpose_copy.int", "aten.swapaxes.default")
def transpose(t: Translation, self: Val, dim0: int, dim1: int) -> Val:
    if self.rank == 0:
        return self
    perm = list(range(self.rank))
    a, b = dim0 % self.rank, dim1 % self.rank
    perm[a], perm[b] = b, a
    return t.transpose(self, perm)


@rule("aten.t.default", "aten.t_copy.default", "aten.numpy_T.default")
def matrix_transpose(t: Translation, self: Val) -> Val:
    return t.transpose(self, list(reversed(range(self.rank))))


@rule("aten.mT.default")
def last_transpose(t: Translation, self: Val) -> Val:
    return transpose(t, self, -2, -1)


@rule("aten.movedim.int", "aten.movedim.intlist")
def movedim(
    t: Translation, self: Val, source: int | list[int], destination: int | list[int]
) -> Val:
    sources = [source] if isinstance(source, int) else source
    targets = [destination] if isinstance(destination, int) else destination
    at = {d % self.rank: s % self.rank for s, d in zip(sources, targets)}
    rest = iter(i for i in range(self.rank) if i not in at.values())
    return t.transpose(self, [at[i] if i in at else next(rest) for i in range(self.rank)])


@rule("aten.unsqueeze.default", "aten.unsqueeze_copy.default")
def unsqueeze(t: Translation, self: Val, dim: int) -> Val:
    return t.unsqueeze(self, [dim])


@rule("aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze_copy.dim")
def squeeze(t: Translation, self: Val, dim: int | list[int] | None = None) -> Val:
    if self.rank == 0:
        return self
    asked = range(self.rank) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = [d % self.rank for d in asked if self.dims[d % self.rank] == 1]
    return t.squeeze(self, axes)


@rule("aten.expand.default", "aten.expand_copy.default", "aten.broadcast_to.default")
def expand(t: Translation, self: Val, size: Sequence[Dim], implicit: bool = False) -> Val:
    return t.expand(self, t.result.dims)


@rule("aten.expand_as.default", "aten.view_as.default")
def expand_as(t: Translation, self: Val, other: Val) -> Val:
    return t.expand(self, t.result.dims)


@rule("aten.as_strided.default", "aten.as_strided_copy.default")
def as_strided(
    t: Translation,
    self: Val,
    size: Sequence[Dim],
    stride: Sequence[Dim],
    storage_offset: Dim | None = None,
) -> Val:
    """Of a dense tensor: a reshape, or a gather of its elements."""
    index = strided_index(self, size, stride, storage_offset)
    count = sizes.count(self.dims)
    if index.size == count and np.array_equal(index.ravel(), np.arange(count)):
        return t.reshape(self, size)
    flat = t.reshape(self, [sizes.product(self.dims)])
    return t.op("Gather", flat, t.tensor(index), dims=size, axis=0)


def strided_index(
    x: Val, size: Sequence[Dim], stride: Sequence[Dim], storage_offset: Dim | None
) -> npt.NDArray[np.int64]:
    """Which elements of a dense tensor such a view shows."""
    lengths = [d for d in size if isinstance(d, int)]
    steps = [d for d in stride if isinstance(d, int)]
    if len(lengths) != len(size) or len(steps) != len(stride) or sizes.count(x.dims) is None:
        raise Untranslatable("as_strided of symbolic sizes")
    index = np.full(lengths, storage_offset if isinstance(storage_offset, int) else 0, np.int64)
    for axis, (n, step) in enumerate(zip(lengths, steps)):
        index += (np.arange(n, dtype=np.int64) * step).reshape(
            [-1 if i == axis else 1 for i in range(len(lengths))]
        )
    return index


@rule("aten.view.dtype")
def view_dtype(t: Translation, self: Val, dtype: Any) -> Val:
    if self.dtype == dtype.name:
        return self
    return t.op("BitCast", self, dtype=dtype.name, dims=t.result.dims, to=dtype)
