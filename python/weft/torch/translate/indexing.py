"""Reading and writing at indices: embedding, gather, index, index_put, scatter ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.torch.record import Dim, Size
from weft.torch.translate import sizes
from weft.torch.translate.core import Number, Operand, Translation, Untranslatable, Val, rule
from weft.torch.translate.views import strided_index


@rule("aten.embedding.default")
def embedding(
    t: Translation, weight: Val, indices: Val, padding_idx: int = -1,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Val:  # fmt: skip
    """`padding_idx` acts in the gradient alone: its row is cut off from the gradient."""
    if padding_idx >= 0 and t.with_gradients:
        frozen = t.border(weight)
        rows = weight.dims[0]
        row = t.op(
            "Range",
            t.scalar(0, "int64"),
            t.scalar(rows, "int64"),
            t.scalar(1, "int64"),
            dims=[rows],
        )
        here = t.unsqueeze(t.binary("Equal", row, padding_idx, "int64", "bool"), [1])
        weight = t.where(here, frozen, weight, weight.dtype)
    return t.op("Gather", weight, indices, dims=t.result.dims, axis=0)


@rule("aten.gather.default")
def gather(t: Translation, self: Val, dim: int, index: Val, *, sparse_grad: bool = False) -> Val:
    if self.rank == 0:
        return t.expand(self, t.result.dims)
    return t.op("GatherElements", self, index, dims=t.result.dims, axis=dim % self.rank)


@rule("aten.index_select.default")
def index_select(t: Translation, self: Val, dim: int, index: Val) -> Val:
    if self.rank == 0:
        return self
    return t.op("Gather", self, index, dims=t.result.dims, axis=dim % self.rank)


@rule("aten.take_along_dim.default")
def take_along_dim(t: Translation, self: Val, indices: Val, dim: int) -> Val:
    return gather(t, self, dim, indices)


@rule("aten.take.default")
def take(t: Translation, self: Val, index: Val) -> Val:
    flat = t.reshape(self, [sizes.product(self.dims)])
    return t.op("Gather", flat, index, dims=t.result.dims, axis=0)


def _as_integers(t: Translation, indices: Sequence[Val | None]) -> list[tuple[int, Val]]:
    """Axis and int64 indices of each; masks take several axes and sizes that come from data."""
    out: list[tuple[int, Val]] = []
    axis = 0
    for index in indices:
        if index is not None and index.dtype in ("bool", "uint8"):
            count = _mask_count(t, index)
            places = t.op("NonZero", t.cast(index, "bool"), dtype="int64", dims=[index.rank, count])
            for k in range(index.rank):
                row = t.op("Gather", places, t.scalar(k, "int64"), dims=[count], axis=0)
                out.append((axis + k, row))
            axis += index.rank
            continue
        if index is not None:
            out.append((axis, t.cast(index, "int64")))
        axis += 1
    return out


def _mask_count(t: Translation, mask: Val) -> Dim:
    """How many are set: a size of the result that no operand has, or told by none."""
    result = t.results[0]
    for d in result.dims if result is not None else ():
        if isinstance(d, Size) and d.text.startswith("u"):
            return d
    return Size("u_mask")


@rule("aten.index.Tensor", "aten._unsafe_index.Tensor", "aten._unsafe_masked_index.default")
def index(t: Translation, self: Val, indices: Sequence[Val | None]) -> Val:
    picked = _as_integers(t, indices)
    if not picked:
        return self
    if len(picked) == 1:
        axis, only = picked[0]
        return t.op("Gather", self, only, dims=t.result.dims, axis=axis)
    axes = [axis for axis, _ in picked]
    joined, shape = _joined(t, [value for _, value in picked])
    rest = [i for i in range(self.rank) if i not in axes]
    moved = t.transpose(self, [*axes, *rest])
    tail = [self.dims[i] for i in rest]
    y = t.op("GatherND", moved, joined, dims=[*shape, *tail])
    # Indices that stand side by side keep their place; with gaps they go to the front.
    if axes == list(range(axes[0], axes[0] + len(axes))) and axes[0] > 0:
        n, lead = len(shape), axes[0]
        perm = [*range(n, n + lead), *range(n), *range(n + lead, y.rank)]
        y = t.transpose(y, perm)
    return y


def _joined(t: Translation, indices: Sequence[Val]) -> tuple[Val, tuple[Dim, ...]]:
    """Indices broadcast against each other, as a last axis."""
    shape: tuple[Dim, ...] = ()
    for value in indices:
        shape = sizes.broadcast(shape, value.dims)
    columns = [t.unsqueeze(t.expand(v, shape), [len(shape)]) for v in indices]
    return t.concat(columns, len(shape), [*shape, len(indices)]), shape


@rule("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(
    t: Translation, self: Val, indices: Sequence[Val | None], values: Val,
    accumulate: bool = False,
) -> Val:  # fmt: skip
    only = indices[0] if len(indices) == 1 else None
    values = t.cast(values, self.dtype)
    if (
        only is not None
        and only.dtype == "bool"
        and not accumulate
        and all(d == 1 for d in values.dims)
    ):
        # One value at all places of a mask: no index is needed.
        mask = t.unsqueeze(only, list(range(only.rank, self.rank)))
        return t.where(mask, t.reshape(values, []), self, self.dtype)
    picked = _as_integers(t, indices)
    axes = [axis for axis, _ in picked]
    joined, shape = _joined(t, [value for _, value in picked])
    rest = [i for i in range(self.rank) if i not in axes]
    perm = [*axes, *rest]
    moved = t.transpose(self, perm)
    tail = [self.dims[i] for i in rest]
    full = [*shape, *tail]
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    if adjacent and axes[0] > 0:
        n, lead = len(shape), axes[0]
        target = [*full[n : n + lead], *shape, *full[n + lead :]]
        values = t.transpose(
            t.expand(values, target),
            [*range(lead, lead + n), *range(lead), *range(lead + n, len(full))],
        )
    else:
        values = t.expand(values, full)
    extra: dict[str, Any] = {"reduction": "add"} if accumulate else {}
    y = t.op("ScatterND", moved, joined, values, **extra)
    back = [perm.index(i) for i in range(self.rank)]
    return t.transpose(y, back)


def _scatter(
    t: Translation, x: Val, dim: int, index: Val, source: Operand, reduction: str = "none"
) -> Val:
    if not isinstance(source, Val):
        updates = t.full(source, index.dims, x.dtype)
    else:
        updates = t.cast(source, x.dtype)
        # torch reads the leading part of a source that is larger than the index.
        for axis, (have, want) in enumerate(zip(updates.dims, index.dims)):
            if have != want:
                updates = t.slice(updates, axis, 0, want, want)
    if x.rank == 0:
        x, index, updates = (t.reshape(v, [1]) for v in (x, index, updates))
    y = t.op("ScatterElements", x, index, updates, axis=dim % x.rank, reduction=reduction)
    return t.reshape(y, t.result.dims)


@rule("aten.scatter.src", "aten.scatter.value")
def scatter(t: Translation, self: Val, dim: int, index: Val, src: Operand = 0,
            value: Number | None = None) -> Val:  # fmt: skip
    return _scatter(t, self, dim, index, src if value is None else value)


@rule("aten.scatter_add.default")
def scatter_add(t: Translation, self: Val, dim: int, index: Val, src: Val) -> Val:
    return _scatter(t, self, dim, index, src, "add")


_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "add": "add",
               "multiply": "mul"}  # fmt: skip


@rule("aten.scatter_reduce.two", "aten.scatter.reduce", "aten.scatter.value_reduce")
def scatter_reduce(
    t: Translation, self: Val, dim: int, index: Val, src: Operand, reduce: str,
    include_self: bool = True, **_: Any,
) -> Val:  # fmt: skip
    if reduce not in _REDUCTIONS or not include_self:
        raise Untranslatable(f"scatter_reduce '{reduce}', include_self={include_self}")
    return _scatter(t, self, dim, index, src, _REDUCTIONS[reduce])


@rule("aten.index_add.default")
def index_add(
    t: Translation, self: Val, dim: int, index: Val, source: Val, *, alpha: Number = 1
) -> Val:
    updates = source if alpha == 1 else t.mul(source, alpha)
    return _along(t, self, dim, index, updates, "add")


@rule("aten.index_copy.default")
def index_copy(t: Translation, self: Val, dim: int, index: Val, source: Val) -> Val:
    return _along(t, self, dim, index, source, "none")


@rule("aten.index_fill.int_Scalar")
def index_fill(t: Translation, self: Val, dim: int, index: Val, value: Number) -> Val:
    axis = dim % self.rank
    dims = (*self.dims[:axis], index.dims[0], *self.dims[axis + 1 :])
    return _along(t, self, dim, index, t.full(value, dims, self.dtype), "none")


def _along(t: Translation, x: Val, dim: int, index: Val, updates: Val, reduction: str) -> Val:
    axis = dim % x.rank
    perm = [axis, *(i for i in range(x.rank) if i != axis)]
    places = t.unsqueeze(t.cast(index, "int64"), [1])
    y = t.op(
        "ScatterND", t.transpose(x, perm), places, t.transpose(updates, perm), reduction=reduction
    )
    return t.transpose(y, [perm.index(i) for i in range(x.rank)])


def _span(t: Translation, start: Dim, length: Dim, step: int) -> Val:
    """start, start + step, ..., `length` of them."""
    zero, one = t.scalar(0, "int64"), t.scalar(1, "int64")
    places = t.op("Range", zero, t.scalar(length, "int64"), one, dims=[length])
    if step != 1:
        places = t.mul(places, step)
    return places if start == 0 else t.add(places, start if isinstance(start, int) else
                                           t.scalar(start, "int64"))  # fmt: skip


@rule("aten.slice_scatter.default")
def slice_scatter(
    t: Translation, self: Val, src: Val, dim: int = 0, start: Dim | None = None,
    end: Dim | None = None, step: int = 1,
) -> Val:  # fmt: skip
    axis = dim % self.rank
    length, size = src.dims[axis], self.dims[axis]
    src = t.cast(src, self.dtype)
    if length == size and step == 1:
        return t.expand(src, self.dims)
    first: Dim = 0 if start is None else start
    if isinstance(first, int) and first < 0:
        first = sizes.combine("+", size, first)
    if step != 1:
        return _along(t, self, axis, _span(t, first, length, step), src, "none")
    # What is before, the new part, what is behind.
    last = sizes.combine("+", first, length)
    parts = [src]
    if first != 0:
        parts.insert(0, t.slice(self, axis, 0, first, first))
    if last != size:
        parts.append(t.slice(self, axis, last, 2**63 - 1, sizes.combine("-", size, last)))
    return t.concat(parts, axis, self.dims)


@rule("aten.select_scatter.default")
def select_scatter(t: Translation, self: Val, src: Val, dim: int, index: Dim) -> Val:
    axis = dim % self.rank
    size = self.dims[axis]
    first = index
    if isinstance(index, int) and index < 0:
        first = sizes.combine("+", size, index)
    return slice_scatter(t, self, t.unsqueeze(src, [axis]), axis, first)


@rule("aten.as_strided_scatter.default")
def as_strided_scatter(
    t: Translation, self: Val, src: Val, size: Sequence[Dim], stride: Sequence[Dim],
    storage_offset: Dim | None = None,
) -> Val:  # fmt: skip
    index = strided_index(self, size, stride, storage_offset).ravel()
    if index.size == sizes.count(self.dims) and np.array_equal(index, np.arange(index.size)):
        return t.reshape(src, self.dims)
    flat = t.reshape(self, [sizes.product(self.dims)])
    values = t.reshape(t.cast(src, self.dtype), [index.size])
    return t.reshape(t.op("ScatterElements", flat, t.tensor(index), values, axis=0), self.dims)


@rule("aten.masked_scatter.default")
def masked_scatter(t: Translation, self: Val, mask: Val, source: Val) -> Val:
    """The set places of the mask, in order, take the elements of the source, in order."""
    mask = t.expand(mask, self.dims)
    flat = t.reshape(t.cast(mask, "int64"), [sizes.product(self.dims)])
    rank = t.sub(t.op("CumSum", flat, t.scalar(0, "int64")), 1)
    rank = t.op("Max", rank, t.scalar(0, "int64"))
    values = t.reshape(source, [sizes.product(source.dims)])
    taken = t.op("Gather", values, rank, dims=rank.dims, axis=0)
    return t.where(mask, t.reshape(taken, self.dims), self, self.dtype)


@rule("aten.nonzero.default")
def nonzero(t: Translation, self: Val) -> Val:
    count = t.result.dims[0]
    places = t.op("NonZero", self, dtype="int64", dims=[self.rank, count])
    return t.transpose(places, [1, 0])


@rule("aten.masked_select.default")
def masked_select(t: Translation, self: Val, mask: Val) -> Val:
    dims = sizes.broadcast(self.dims, mask.dims)
    flat = t.reshape(t.expand(self, dims), [sizes.product(dims)])
    chosen = t.reshape(t.expand(mask, dims), [sizes.product(dims)])
    return t.op("Compress", flat, chosen, dims=t.result.dims, axis=0)


@rule("aten._local_scalar_dense.default", "aten.item.default")
def local_scalar(t: Translation, self: Val) -> Val:
    return t.reshape(self, [1])


@rule("aten.one_hot.default")
def one_hot(t: Translation, self: Val, num_classes: int = -1) -> Val:
    depth = t.result.dims[-1]
    values = t.tensor(np.array([0, 1], np.int64))
    return t.op("OneHot", self, t.size(depth), values, dtype="int64", dims=t.result.dims, axis=-1)


@rule("aten.bucketize.Tensor", "aten.searchsorted.Tensor")
def bucketize(
    t: Translation, self: Val, boundaries: Val, *, out_int32: bool = False, right: bool = False,
    **_: Any,
) -> Val:  # fmt: skip
    assert t._node is not None
    x, edges = (boundaries, self) if "searchsorted" in t._node.op else (self, boundaries)
    if edges.rank != 1:
        raise Untranslatable("searchsorted in several rows")
    name = "LessOrEqual" if right else "Less"
    below = t.binary(name, edges, t.unsqueeze(x, [x.rank]), x.dtype, "bool")
    return t.reduce("ReduceSum", t.cast(below, t.result.dtype), [-1], False)
