"""Movement of elements: cat, slice, select, split, repeat, roll, pad ..."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.torch.record import Dim, Size
from weft.torch.translate import sizes
from weft.torch.translate.core import Number, Translation, Untranslatable, Val, rule


@rule("aten.cat.default", "aten.concat.default")
def cat(t: Translation, tensors: Sequence[Val], dim: int = 0) -> Val:
    # torch lets empty vectors pass among tensors of any rank.
    parts = [x for x in tensors if x.dims != (0,)] or list(tensors[:1])
    parts = [t.cast(x, t.result.dtype) for x in parts]
    return t.concat(parts, dim, t.result.dims)


@rule("aten.stack.default")
def stack(t: Translation, tensors: Sequence[Val], dim: int = 0) -> Val:
    axis = dim % t.result.rank
    parts = [t.unsqueeze(t.cast(x, t.result.dtype), [axis]) for x in tensors]
    return t.concat(parts, axis, t.result.dims)


def _bounds(
    start: Dim | None, end: Dim | None, dim: Dim, length: Dim, step: int
) -> tuple[Dim, Dim]:
    """[start, end) for ONNX, whose clamping is torch's."""
    first: Dim = 0 if start is None else start
    if end is None or (isinstance(end, int) and end >= 2**62) or end == dim:
        return first, 2**63 - 1
    return first, end


@rule("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_(
    t: Translation,
    self: Val,
    dim: int = 0,
    start: Dim | None = None,
    end: Dim | None = None,
    step: int = 1,
) -> Val:
    axis = dim % self.rank
    length = t.result.dims[axis]
    if length == self.dims[axis] and step == 1:
        return self
    first, last = _bounds(start, end, self.dims[axis], length, step)
    return t.slice(self, axis, first, last, length, step)


@rule("aten.narrow.default")
def narrow(t: Translation, self: Val, dim: int, start: Dim, length: Dim) -> Val:
    return t.slice(self, dim, start, sizes.combine("+", start, length), length)


@rule("aten.select.int", "aten.select_copy.int")
def select(t: Translation, self: Val, dim: int, index: Dim) -> Val:
    axis = dim % self.rank
    return t.op("Gather", self, t.scalar(index, "int64"), dims=t.result.dims, axis=axis)


def _split(t: Translation, x: Val, dim: int) -> list[Val]:
    axis = dim % x.rank
    results = [r for r in t.results if r is not None]
    if len(results) == 1:
        return [x]
    types = [(x.dtype, r.dims) for r in results]
    parts = [r.dims[axis] for r in results]
    return t.ops("Split", [x, t.shape(parts)], types, axis=axis)


@rule(
    "aten.split.Tensor",
    "aten.split_with_sizes.default",
    "aten.split_with_sizes_copy.default",
    "aten.split_copy.Tensor",
    "aten.chunk.default",
    "aten.tensor_split.sections",
    "aten.unsafe_split.Tensor",
    "aten.unsafe_chunk.default",
)
def split(t: Translation, self: Val, parts: Any = None, dim: int = 0, **named: Any) -> list[Val]:
    del parts, named
    return _split(t, self, dim)


@rule("aten.unbind.int", "aten.unbind_copy.int")
def unbind(t: Translation, self: Val, dim: int = 0) -> list[Val]:
    axis = dim % self.rank
    return [
        t.op("Gather", self, t.scalar(i, "int64"), dims=r.dims, axis=axis)
        for i, r in enumerate(t.results)
        if r is not None
    ]


@rule("aten.repeat.default", "aten.tile.default")
def repeat(t: Translation, self: Val, repeats: Sequence[Dim]) -> Val:
    x = t.unsqueeze(self, list(range(len(repeats) - self.rank)))
    if all(r == 1 for r in repeats):
        return x
    lead = x.rank - len(repeats)
    return t.op("Tile", x, t.shape([1] * lead + list(repeats)), dims=t.result.dims)


@rule("aten.repeat_interleave.self_int")
def repeat_interleave(
    t: Translation, self: Val, repeats: int, dim: int | None = None, **_: Any
) -> Val:
    x = self
    if dim is None:
        x, dim = t.reshape(x, [sizes.product(x.dims)]), 0
    axis = dim % x.rank
    wide = t.unsqueeze(x, [axis + 1])
    dims = (*wide.dims[: axis + 1], repeats, *wide.dims[axis + 2 :])
    return t.reshape(t.expand(wide, dims), t.result.dims)


@rule("aten.roll.default")
def roll(t: Translation, self: Val, shifts: Sequence[Dim], dims: Sequence[int] = ()) -> Val:
    x = self
    if not dims:
        x, dims = t.reshape(x, [sizes.product(x.dims)]), [0]
    for shift, dim in zip(shifts, dims):
        axis = dim % x.rank
        n = x.dims[axis]
        if not isinstance(shift, int):
            raise Untranslatable("roll by a symbolic distance")
        if isinstance(n, int):
            shift %= max(n, 1)
        if shift == 0:
            continue
        tail = t.slice(x, axis, -shift, 2**63 - 1, shift if shift > 0 else Size(f"{n}+{shift}"))
        head = t.slice(x, axis, 0, -shift, sizes.combine("-", n, shift) if shift > 0 else -shift)
        x = t.concat([tail, head], axis, x.dims)
    return t.reshape(x, self.dims)


@rule("aten.flip.default")
def flip(t: Translation, self: Val, dims: Sequence[int]) -> Val:
    x = self
    for dim in dims:
        axis = dim % x.rank
        x = t.slice(x, axis, -1, -(2**63) + 1, x.dims[axis], -1)
    return x


def pad_constant(t: Translation, x: Val, pad: Sequence[Dim], value: Number) -> Val:
    """`pad` as torch writes it: (before, after) of the last axis first."""
    if all(p == 0 for p in pad):
        return x
    befores: list[Dim] = [0] * x.rank
    afters: list[Dim] = [0] * x.rank
    for k in range(len(pad) // 2):
        befores[x.rank - 1 - k], afters[x.rank - 1 - k] = pad[2 * k], pad[2 * k + 1]
    fill = t.scalar(value, x.dtype)
    return t.op("Pad", x, t.shape([*befores, *afters]), fill, dims=t.result.dims)


@rule("aten.constant_pad_nd.default")
def constant_pad_nd(t: Translation, self: Val, pad: Sequence[Dim], value: Number = 0) -> Val:
    return pad_constant(t, self, pad, value)


def _pad_mode(t: Translation, x: Val, pad: Sequence[Dim], mode: str) -> Val:
    befores: list[Dim] = [0] * x.rank
    afters: list[Dim] = [0] * x.rank
    for k in range(len(pad) // 2):
        befores[x.rank - 1 - k], afters[x.rank - 1 - k] = pad[2 * k], pad[2 * k + 1]
    return t.op("Pad", x, t.shape([*befores, *afters]), dims=t.result.dims, mode=mode)


@rule("aten.reflection_pad1d.default", "aten.reflection_pad2d.default")
def reflection_pad(t: Translation, self: Val, padding: Sequence[Dim]) -> Val:
    return _pad_mode(t, self, padding, "reflect")


@rule("aten.replication_pad1d.default", "aten.replication_pad2d.default")
def replication_pad(t: Translation, self: Val, padding: Sequence[Dim]) -> Val:
    return _pad_mode(t, self, padding, "edge")


@rule("aten.pad.default")
def pad(
    t: Translation, self: Val, pad: Sequence[Dim], mode: str = "constant",
    value: Number | None = None,
) -> Val:  # fmt: skip
    if mode == "constant":
        return pad_constant(t, self, pad, 0 if value is None else value)
    names = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    return _pad_mode(t, self, pad, names[mode])


@rule("aten.diagonal.default", "aten.diagonal_copy.default")
def diagonal(t: Translation, self: Val, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Val:
    import numpy as np

    a, b = dim1 % self.rank, dim2 % self.rank
    rest = [i for i in range(self.rank) if i not in (a, b)]
    x = t.transpose(self, [a, b, *rest])
    count = t.result.dims[-1]
    if not isinstance(count, int):
        raise Untranslatable("diagonal of symbolic sizes")
    steps = np.arange(count)
    pairs = np.stack([steps + max(-offset, 0), steps + max(offset, 0)], 1)
    picked = t.op("GatherND", x, t.tensor(pairs), dims=[count, *(self.dims[i] for i in rest)])
    return t.transpose(picked, [*range(1, picked.rank), 0])


@rule("aten.tril.default", "aten.triu.default")
def triangle(t: Translation, self: Val, diagonal: Dim = 0) -> Val:
    assert t._node is not None
    upper = int("triu" in t._node.op)
    x = t.cast(self, "int32") if self.dtype == "bool" else self
    inputs = [x] if diagonal == 0 else [x, t.scalar(diagonal, "int64")]
    return t.cast(t.op("Trilu", *inputs, upper=upper), self.dtype)


@rule("aten.unfold.default")
def unfold(t: Translation, self: Val, dimension: int, size: int, step: int) -> Val:
    """Windows of one axis, as a new last axis."""
    import numpy as np

    axis = dimension % self.rank
    count = t.result.dims[axis]
    if not isinstance(count, int):
        raise Untranslatable("unfold along a symbolic axis")
    index = np.arange(count)[:, None] * step + np.arange(size)[None, :]
    dims = [*self.dims[:axis], count, size, *self.dims[axis + 1 :]]
    x = t.op("Gather", self, t.tensor(index), dims=dims, axis=axis)
    perm = [i for i in range(x.rank) if i != axis + 1] + [axis + 1]
    return t.transpose(x, perm)


@rule("aten.pixel_shuffle.default")
def pixel_shuffle(t: Translation, self: Val, upscale_factor: int) -> Val:
    return t.op("DepthToSpace", self, dims=t.result.dims, blocksize=upscale_factor, mode="CRD")


@rule("aten.channel_shuffle.default", "aten.native_channel_shuffle.default")
def channel_shuffle(t: Translation, self: Val, groups: int) -> Val:
    n, c, *rest = self.dims
    assert isinstance(c, int)
    x = t.reshape(self, [n, groups, c // groups, *rest])
    return t.reshape(t.transpose(x, [0, 2, 1, *range(3, x.rank)]), self.dims)
