"""Tensors from nothing: arange, full, zeros, *_like, scalar_tensor ..."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.torch.record import Dim, Size
from weft.torch.translate.builder import DTYPES
from weft.torch.translate.core import Number, Translation, Untranslatable, Val, category, rule


def _arange(t: Translation, start: Number, end: Number, step: Number) -> Val:
    dtype = t.result.dtype
    count = t.result.dims[0]
    if not any(isinstance(x, Size) for x in (start, end, step)) and isinstance(count, int):
        numbers = start + np.arange(count) * step  # type: ignore[operator]
        return t.tensor(np.asarray(numbers).astype(DTYPES[dtype]))
    if dtype in ("float16", "bfloat16", "int8", "uint8", "bool"):
        raise Untranslatable(f"arange of {dtype} with symbolic bounds")
    if category(dtype) == 2 and any(isinstance(x, float) for x in (start, end, step)):
        bounds = [t.scalar(x, dtype) for x in (start, end, step)]
        return t.op("Range", *bounds, dims=t.result.dims)
    # Integers stay integers, so that sizes can be followed.
    bounds = [t.scalar(x, "int64") for x in (start, end, step)]
    return t.cast(t.op("Range", *bounds, dims=t.result.dims), dtype)


@rule("aten.arange.default")
def arange(t: Translation, end: Number, **_: Any) -> Val:
    return _arange(t, 0, end, 1)


@rule("aten.arange.start")
def arange_start(t: Translation, start: Number, end: Number, **_: Any) -> Val:
    return _arange(t, start, end, 1)


@rule("aten.arange.start_step")
def arange_step(t: Translation, start: Number, end: Number, step: Number = 1, **_: Any) -> Val:
    return _arange(t, start, end, step)


@rule("prims.iota.default")
def iota(t: Translation, length: Dim, *, start: Number, step: Number, **_: Any) -> Val:
    if start == 0 and step == 1:
        return _arange(t, 0, length, 1)
    raise Untranslatable("iota with a start or a step")


@rule("aten.linspace.default")
def linspace(t: Translation, start: Number, end: Number, steps: Dim, **_: Any) -> Val:
    if any(isinstance(x, Size) for x in (start, end, steps)):
        raise Untranslatable("linspace with symbolic bounds")
    n = int(steps)  # type: ignore[arg-type]
    dtype = DTYPES[t.result.dtype]
    # As torch: from both ends towards the middle.
    low, high = np.array(start, dtype), np.array(end, dtype)
    step = (high - low) / np.array(max(n - 1, 1), dtype)
    k = np.arange(n)
    values = np.where(
        k < n // 2, low + step * k.astype(dtype), high - step * (n - 1 - k).astype(dtype)
    )
    return t.tensor(values.astype(dtype))


@rule("aten.full.default", "aten.new_full.default", "aten.full_like.default")
def full(t: Translation, *args: Any, **named: Any) -> Val:
    value = args[-1] if "fill_value" not in named else named["fill_value"]
    if isinstance(value, Val):
        return t.expand(t.cast(value, t.result.dtype), t.result.dims)
    return t.full(value, t.result.dims, t.result.dtype)


@rule(
    "aten.zero.default",
    "aten.zeros.default",
    "aten.zeros_like.default",
    "aten.new_zeros.default",
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.new_empty.default",
    "aten.empty_strided.default",
    "aten.new_empty_strided.default",
    "aten.empty_permuted.default",
)
def zeros(t: Translation, *_: Any, **__: Any) -> Val:
    return t.full(0, t.result.dims, t.result.dtype)


@rule("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(t: Translation, *_: Any, **__: Any) -> Val:
    return t.full(1, t.result.dims, t.result.dtype)


@rule("aten.scalar_tensor.default")
def scalar_tensor(t: Translation, s: Number, **_: Any) -> Val:
    return t.scalar(s, t.result.dtype)


@rule("aten.fill.Scalar", "aten.fill.Tensor")
def fill(t: Translation, self: Val, value: Number | Val) -> Val:
    if isinstance(value, Val):
        return t.expand(t.cast(value, self.dtype), self.dims)
    return t.full(value, self.dims, self.dtype)


@rule("aten.copy.default")
def copy(t: Translation, self: Val, src: Val, non_blocking: bool = False) -> Val:
    """Functional copy_: the content of src in the shape and dtype of self."""
    return t.expand(t.cast(src, self.dtype), self.dims)


@rule("aten.eye.default", "aten.eye.m")
def eye(t: Translation, n: Dim, m: Dim | None = None, **_: Any) -> Val:
    dims = t.result.dims
    if not all(isinstance(d, int) for d in dims):
        raise Untranslatable("eye of symbolic sizes")
    return t.tensor(np.eye(*[int(d) for d in dims], dtype=DTYPES[t.result.dtype]))  # type: ignore[arg-type]


@rule("aten.tril_indices.default", "aten.triu_indices.default")
def triangle_indices(t: Translation, row: int, col: int, offset: int = 0, **_: Any) -> Val:
    assert t._node is not None
    find = np.tril_indices if "tril" in t._node.op else np.triu_indices
    return t.tensor(np.stack(find(row, offset, col)).astype(np.int64))


def _no_result(t: Translation, *_: Any, **__: Any) -> list[Val | None]:
    return []


rule(
    "aten._assert_async.msg",
    "aten._assert_async.default",
    "aten._assert_scalar.default",
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
)(_no_result)
