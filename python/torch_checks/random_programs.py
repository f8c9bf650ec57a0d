"""Random programs: views, writes through them, arithmetic, reductions, over a dynamic batch.

Each also as AOTAutograd's joint graph, forward and backward, with symbols for all sizes that the
program does not ask for: `joint_error`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from common import distance
from functorch.compile import aot_function, default_partition, make_boxed_func

import weft
import weft.torch
from weft.torch.capture import fx

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


def _activation(values: list[torch.Tensor], r: random.Random) -> None:
    x = _pick(values, r)
    names = ["gelu", "silu", "softplus", "elu", "leaky_relu", "hardtanh", "logsigmoid", "relu6"]
    values.append(getattr(F, r.choice(names))(x))


def _normal(values: list[torch.Tensor], r: random.Random) -> None:
    x = _pick(values, r, 2)
    n = int(x.shape[-1])
    if n > 1:
        values.append(r.choice([F.softmax(x, -1), F.log_softmax(x, -1), F.layer_norm(x, (n,))]))


def _gather(values: list[torch.Tensor], r: random.Random) -> None:
    x = _pick(values, r, 2)
    axis = _static_axis(x, r)
    n = int(x.shape[axis])
    index = torch.arange(n - 1, -1, -1)
    values.append(r.choice([x.index_select(axis, index), x.flip(axis), x.roll(1, axis)]))


def _product(values: list[torch.Tensor], r: random.Random) -> None:
    x = _pick(values, r, 3)
    values.append(r.choice([x @ x.transpose(-1, -2), torch.tril(x), x.cumsum(-1)]))


def _window(values: list[torch.Tensor], r: random.Random) -> None:
    x = _pick(values, r, 3)
    if x.dim() == 3 and int(x.shape[2]) > 2:
        padded = F.pad(x, (1, 0))
        values.append(r.choice([F.max_pool1d(x, 2, 1), F.avg_pool1d(x, 3, 1, 1), padded]))


def _extremum(values: list[torch.Tensor], r: random.Random) -> None:
    x = _pick(values, r, 2)
    axis = _static_axis(x, r)
    if x.dim() > 2:
        values.append(r.choice([x.max(axis).values, x.sort(axis).values.select(axis, 0),
                                x.logsumexp(axis), x.var(axis, correction=0)]))  # fmt: skip


# Steps of which the backward part has operators of its own.
DIFFERENTIABLE: tuple[Step, ...] = (
    *STEPS, _activation, _activation, _normal, _normal, _gather, _product, _window, _extremum,
)  # fmt: skip


def program(
    seed: int, length: int = 14, steps: tuple[Step, ...] = STEPS
) -> Callable[[torch.Tensor], tuple[torch.Tensor, ...]]:
    """A program of its own for each seed; it writes to a copy of its input."""

    def run(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        r = random.Random(seed)
        values = [x.clone()]
        for _ in range(length):
            r.choice(steps)(values, r)
        return tuple(v.clone() for v in values[-6:])

    return run


def _joint_graph(function: Callable[..., Any], x: torch.Tensor) -> torch.fx.GraphModule:
    found: list[torch.fx.GraphModule] = []

    def partition(joint: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
        found.append(joint)
        return default_partition(joint, inputs, **options)

    def compiler(module: torch.fx.GraphModule, _: Any) -> Any:
        return make_boxed_func(module.forward)

    aot_function(function, compiler, compiler, partition, dynamic=True)(x)
    return found[0]


Program = Callable[[torch.Tensor], tuple[torch.Tensor, ...]]


def _gradients(function: Program, x: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What the joint graph is fed with, and what it gives, by autograd."""
    operand = x.clone().requires_grad_()
    results = function(operand)
    wanted = [r for r in results if r.requires_grad]
    generator = torch.Generator().manual_seed(1)
    seeds = [torch.randn(r.shape, generator=generator, dtype=r.dtype) for r in wanted]
    (gradient,) = torch.autograd.grad(wanted, [operand], seeds)
    return [x, *seeds], [*results, gradient]


def _differentiable(seed: int, x: torch.Tensor) -> Program:
    """The first of the programs of this seed whose writes spare what autograd has saved."""
    for attempt in range(100):
        function = program(1000 * attempt + seed, steps=DIFFERENTIABLE)
        try:
            _gradients(function, x)
            return function
        except RuntimeError:
            continue
    raise AssertionError("no program that autograd takes")


def joint_error(seed: int) -> float:
    """The largest difference of results and gradient from autograd's, at two sizes of the batch."""
    torch.manual_seed(seed)
    operands = [torch.randn(n, 3, 4, dtype=torch.float64) for n in (2, 5)]
    function = _differentiable(seed, operands[0])
    joint = _joint_graph(function, operands[0].clone().requires_grad_())
    captured = fx.capture_graph(joint)
    record = captured.record
    exported = weft.torch.build(record, captured.tensors)
    session = weft.Session(exported.compile())
    names = exported.graph.output_names
    worst = 0.0
    for x in operands:
        feeds, want = _gradients(function, x)
        got = dict(zip(names, session.run(*[f.numpy() for f in feeds])))
        kept = [o.name for o in record.outputs if o.value is not None]
        if len(kept) != len(want):
            raise AssertionError(f"{len(kept)} results, {len(want)} wanted")
        for name, w in zip(kept, want):
            worst = max(worst, distance(np.asarray(got[name]), w.detach().numpy()))
    return worst
