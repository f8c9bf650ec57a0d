"""torch.compile(backend="weft") at the edges: arguments, operators and layouts that the models of
`compiled.py` do not lead to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from compiled import tensors
from common import distance

from weft.torch.dynamo import backend


def _error(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> tuple[float, Any]:
    """The worst of several calls of one compiled function, and what was lowered. Strides count."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="weft")
    worst = 0.0
    with backend.observed() as found:
        for args in calls:
            got, want = tensors(compiled(*args)), tensors(function(*args))
            assert len(got) == len(want)
            for x, y in zip(got, want):
                assert x.dtype == y.dtype and x.stride() == y.stride(), (x.stride(), y.stride())
                a, b = (v.detach().double().numpy() for v in (x, y))
                worst = max(worst, distance(a, b))
    return worst, found


def signed_numbers() -> float:
    """Whole numbers that become negative, as factors and in a quotient, which rounds down."""
    x = torch.randn(6, 4)
    worst = 0.0
    for function in (
        lambda x, k: x * k, lambda x, k: x.sin() * (k // 2) + (-k) // 3 + k % 3,
        lambda x, k: x[k].sin() + k,
    ):  # fmt: skip
        error, found = _error(function, [(x, k) for k in (2, 3, 5, -4, -5, 0)])
        assert not any(g.left for g in found)
        worst = max(worst, error)
    # A size that follows from one is torch's: x[:-2] has four rows.
    error, _ = _error(lambda x, k: x[:k] * 2 + k, [(x, k) for k in (2, 3, 5, -2, -4)])
    return max(worst, error)


BEHAVIOURS = (
    signed_numbers,
)  # fmt: skip
