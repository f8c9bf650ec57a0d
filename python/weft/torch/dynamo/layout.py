"""How tensors lie in memory, as tracing has seen it: dense in some order of their dims, or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from weft.torch.capture import private

Order = tuple[int, ...]


def dense_order(sizes: Sequence[int], strides: Sequence[int]) -> Order | None:
    """Dims from the slowest to the fastest; () for row-major, None where there are gaps or
    elements that several indices share."""
    rank = len(sizes)
    if 0 in sizes:
        return ()
    order = sorted(range(rank), key=lambda d: (-strides[d], d))
    # A dim of extent 1 says nothing: it stays where a row-major tensor has it.
    wide = [d for d in order if sizes[d] != 1]
    if wide == sorted(wide):
        order = list(range(rank))
    stride = 1
    for d in reversed(order):
        if sizes[d] != 1 and strides[d] != stride:
            return None
        stride *= sizes[d]
    return () if order == list(range(rank)) else tuple(order)


def order_of(tensor: torch.Tensor) -> Order | None:
    """Of a traced tensor; symbolic sizes and strides by the sizes of the example."""
    sizes = [private.hint(s) for s in tensor.shape]
    strides = [private.hint(s) for s in tensor.stride()]
    if any(n is None for n in (*sizes, *strides)):
        return ()
    return dense_order(sizes, strides)  # type: ignore[arg-type]


def numbers(values: Sequence[Any]) -> tuple[int, ...] | None:
    """None where one of them is symbolic."""
    return tuple(values) if all(isinstance(v, int) for v in values) else None


def relaid(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """The same values with these strides, which are not dense."""
    shared = [d for d, s in enumerate(strides) if s == 0 and tensor.shape[d] > 1]
    sizes = tensor.shape
    for d in shared:
        tensor = tensor.narrow(d, 0, 1)
    out = torch.empty_strided(tensor.shape, tuple(strides), dtype=tensor.dtype)
    return out.copy_(tensor).expand(sizes)
