"""torch.compile(backend="weft") at the edges: arguments, operators and layouts that the models of
`compiled.py` do not lead to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from compiled import tensors
from common import distance

import weft
from weft.torch.dynamo import backend


def _error(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> tuple[float, Any]:
    """The worst of several calls of one compiled function, and what was lowered. Strides count."""
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="weft")
    worst = 0.0
    with backend.observed.inside() as found:
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


def checkpoint() -> float:
    """A region that is computed again, with the state of torch's generator: it takes an operator
    as an argument, and gradients are those of the mask that was drawn."""
    from torch.utils.checkpoint import checkpoint

    def region(z: torch.Tensor) -> torch.Tensor:
        return F.dropout(z, 0.5).sin() * 3

    torch._dynamo.reset()
    a = (torch.rand(40, 50) + 0.1).requires_grad_()
    compiled = torch.compile(lambda x: checkpoint(region, x, use_reentrant=False), backend="weft")
    y = compiled(a)
    y.sum().backward()
    kept = y.detach() != 0
    assert a.grad is not None and 0.4 < float(kept.double().mean()) < 0.6
    want = torch.where(kept, 6 * (2 * a.detach()).cos(), 0.0)
    return max(
        distance(a.grad.numpy(), want.numpy()),
        distance(y.detach().numpy(), torch.where(kept, 3 * (2 * a.detach()).sin(), 0.0).numpy()),
    )


def another_dtype() -> float:
    """A rule that is wrong about its dtype: the operator is left to torch."""
    from weft.torch.translate import core, families  # noqa: F401 (registers the rules)

    rule = core.RULES["aten.sin.default"]
    core.RULES["aten.sin.default"] = lambda t, self: t.cast(self, "float64")
    try:
        error, found = _error(lambda x: (x.exp().sin() + 1).cos(), [(torch.randn(3, 4),)])
    finally:
        core.RULES["aten.sin.default"] = rule
    assert [row[0] for g in found for row in g.left] == ["aten.sin.default"]
    return error


def results_for_torch() -> float:
    """A result that only an operator without a rule reads, beside one of the same node that others
    read; in inference and in training."""

    def f(a: torch.Tensor) -> Any:
        values, places = a.max(1)
        return values + a.median(1)[0] + torch.special.bessel_j0(places.to(a.dtype))

    x = torch.randn(4, 5)
    error, found = _error(f, [(x,)])
    assert all(g.programs for g in found)
    y = x.clone().requires_grad_()
    z = x.clone().requires_grad_()

    def g(a: torch.Tensor) -> Any:
        return a.max(1)[0] + a.median(1)[0]

    torch._dynamo.reset()
    with backend.observed.inside() as found:
        torch.compile(g, backend="weft")(y).sum().backward()
    g(z).sum().backward()
    assert all(h.programs for h in found), [(h.kind, h.left) for h in found]
    assert y.grad is not None and z.grad is not None
    return max(error, distance(y.grad.numpy(), z.grad.numpy()))


def literals() -> float:
    """Tensors that a graph holds, of every dtype, in ranks 0 to 2."""
    worst = 0.0
    x = torch.randn(2, 3)
    for dtype in (torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.bool):

        def f(x: torch.Tensor, dtype: torch.dtype = dtype) -> Any:
            y = x.to(torch.bfloat16) if dtype == torch.bfloat16 else x
            row = torch.tensor([1.5, 0, 3]).to(dtype)
            held = torch.tensor([[1, 0, 1], [0, 1, 1]], dtype=dtype)
            return y * row + torch.tensor(1, dtype=dtype), y + held

        error, found = _error(f, [(x,)])
        assert all(g.programs for g in found), [g.left for g in found]
        worst = max(worst, error)
    return worst


def autocast() -> float:
    """Batch normalization of float32 behind a convolution that autocast has made bfloat16."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
    ).eval()  # fmt: skip
    norm: Any = model[1]
    with torch.no_grad():
        for p in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
            p.add_(torch.rand(8))
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        error, found = _error(model, [(x,)])
    assert [(g.programs, g.left) for g in found] == [(1, [])], found[0].left
    return error * 2**8 * 1e-5  # one unit in bfloat16's last place is equal


def nothing_ahead() -> float:
    """Where what is computed of weights ahead makes no program, weights are as other arguments."""
    from unittest import mock

    from weft.torch.dynamo import programs

    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8)).eval()
    refusal = weft.UnsupportedError("no derived graph")
    with torch.no_grad(), mock.patch.object(programs.steady, "split", side_effect=refusal) as split:
        error, found = _error(model, [(torch.randn(5, 3),)])
    assert split.called and [(g.programs, g.left) for g in found] == [(1, [])]
    return error


def strides() -> float:
    """Results that are not dense, of a part between others: their strides follow from sizes of
    arguments, which the part itself takes or not."""

    def taken(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = torch.special.bessel_j0(x).sin()
        return z, (z + 1)[:, ::2], (x + 1).sum(0).expand_as(x), (z.sum() + y)[1:, :3]

    def given(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = torch.special.bessel_j0(x)
        return (z.cos() + 1)[:, ::2], torch.special.bessel_j0(y.cos())

    calls = [(torch.randn(n, m), torch.randn(m, n)) for n, m in ((4, 6), (5, 8), (6, 10))]
    worst = 0.0
    for function in (taken, given):
        error, found = _error(function, calls)
        assert all(g.programs for g in found), [g.left for g in found]
        worst = max(worst, error)
    return worst


BEHAVIOURS = (
    signed_numbers, checkpoint, another_dtype, results_for_torch, literals, autocast, nothing_ahead, strides,
)  # fmt: skip
