"""Random programs: views, writes through them, arithmetic, reductions, over a dynamic batch."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch

Step = Callable[[list[torch.Tensor], random.Random], None]


def _pick(values: list[torch.Tensor], r: random.Random, rank: int = 0) -> torch.Tensor:
    fit = [v for v in values if v.dim() >= rank]
    return fit[r.randrange(len(fit))]


def _static_axis(x: torch.Tensor, r: random.Random) -> int:
    """Any axis but the first, whose size is the batch."""
    return r.randrange(1, x.dim())


def _unary(values: list[torch.Tensor], r: random.Random) -> None:
    x = _pick(values, r)
    values.append(getattr(torch, r.choice(["tanh", "sigmoid", "relu", "neg", "sin", "abs"]))(x))


def _binary(values: list[torch.Tensor], r: random.Random) -> None:
    x = _pick(values, r)
    same = [v for v in values if v.shape == x.shape]
    y = same[r.randrange(len(same))]
    values.append({"+": x + y, "-": x - y, "*": x * y, "max": torch.maximum(x, y)}[
        r.choice(["+", "-", "*", "max"])
    ])  # fmt: skip


def _scalar(values: list[torch.Tensor], r: random.Random) -> None:
    x, k = _pick(values, r), r.choice([2, 0.5, -1])
    values.append(r.choice([x + k, x * k, x - k, k - x]))


def _slice(values: list[torch.Tensor], r: random.Random) -> None:
    x = _pick(values, r, 2)
    axis = _static_axis(x, r)
    n = int(x.shape[axis])
    if n < 2:
        return
    start = r.randrange(n - 1)
    stop, step = r.randrange(start + 1, n + 1), r.choice([1, 1, 2])
    index: list[Any] = [slice(None)] * x.dim()
    index[axis] = slice(start, stop, step)
    values.append(x[tuple(index)])


def _select(values: list[torch.Tensor], r: random.Random) -> None:
    x = _pick(values, r, 2)
    axis = _static_axis(x, r)
    if x.dim() > 2:
        values.append(x.select(axis, r.randrange(-int(x.shape[axis]), int(x.shape[axis]))))


def _turn(values: list[torch.Tensor], r: random.Random) -> None:
    x = _pick(values, r, 2)
    if x.dim() > 2:
        axes = list(range(1, x.dim()))
        r.shuffle(axes)
        values.append(x.permute(0, *axes))


def _reshape(values: list[torch.Tensor], r: random.Random) -> None:
    x = _pick(values, r, 2)
    shape = r.choice([(x.shape[0], -1), (x.shape[0], 1, *x.shape[1:]), tuple(x.shape)])
    values.append(x.reshape(shape))


def _write(values: list[torch.Tensor], r: random.Random) -> None:
    x = _pick(values, r)
    kind = r.choice(["add", "mul", "fill", "copy", "relu", "clamp", "masked"])
    if kind == "add":
        x.add_(0.5)
    elif kind == "mul":
        x.mul_(-1.5)
    elif kind == "fill":
        x.fill_(0.25)
    elif kind == "copy":
        same = [v for v in values if v.shape == x.shape]
        x.copy_(same[r.randrange(len(same))].clone())
    elif kind == "relu":
        x.relu_()
    elif kind == "clamp":
        x.clamp_(-0.7, 0.7)
    else:
        x.masked_fill_(x > 0.5, 0.1)


def _reduce(values: list[torch.Tensor], r: random.Random) -> None:
    x = _pick(values, r, 2)
    axis = _static_axis(x, r)
    if x.dim() > 2:
        values.append(r.choice([x.sum(axis), x.mean(axis), x.amax(axis)]))
    else:
        values.append(x - x.mean(axis, keepdim=True))


def _join(values: list[torch.Tensor], r: random.Random) -> None:
    x = _pick(values, r, 2)
    axis = _static_axis(x, r)
    if int(x.shape[axis]) < 12:
        values.append(torch.cat([x, x * 2], axis))


def _clone(values: list[torch.Tensor], r: random.Random) -> None:
    values.append(_pick(values, r).clone())


STEPS: tuple[Step, ...] = (
    _unary, _binary, _scalar, _slice, _slice, _select, _turn, _reshape, _write, _write, _write,
    _reduce, _join, _clone,
)  # fmt: skip


def program(seed: int, length: int = 14) -> Callable[[torch.Tensor], tuple[torch.Tensor, ...]]:
    """A program of its own for each seed; it writes to a copy of its input."""

    def run(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        r = random.Random(seed)
        values = [x.clone()]
        for _ in range(length):
            r.choice(STEPS)(values, r)
        return tuple(v.clone() for v in values[-6:])

    return run
