"""Symbols: entries of one graph of Weft, in which a process writes down all its programs. A session takes out of it what it runs."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Sequence

import numpy as np

import weft
from weft import Entry, ops

Symbol = Entry
float32 = np.float32
Extents = Sequence[int | str | None]
written = weft.Graph("tinyflow")
first_values: dict[Symbol, Symbol] = {}
draws: dict[Symbol, Callable[[], Any]] = {}  # inputs that no one feeds: every run draws them anew
_names: set[str] = set()
_generator = [np.random.default_rng(0)]


def unique(name: str) -> str:
    """The name itself, or with a number where it is taken."""
    found = next(n for n in itertools.chain([name], (f"{name}_{i}" for i in itertools.count(1))) if n not in _names)
    _names.add(found)
    return found


def constant(value: Any) -> Symbol:
    return value if isinstance(value, Symbol) else written.constant(np.asarray(value, np.float32))


def placeholder(dtype: Any = float32, shape: Sequence[int | None] | None = None, name: str = "placeholder") -> Symbol:
    """An operand that is fed: `placeholder(tf.float32)`, `placeholder(tf.float32, [None, 784])`, `placeholder('x')`."""
    return written.input(unique(dtype if isinstance(dtype, str) and dtype != "float32" else name), "f32", shape)


def Variable(init: Any = None, name: str = "variable", *, shape: Extents | None = None) -> Symbol:  # noqa: N802
    """State of a session. What is not known of its shape follows from what it is used with, or is assigned."""
    first = None if init is None else constant(init)
    variable = written.state(unique(name), None, "f32", shape if first is None else first.shape)
    if first is not None:
        first_values[variable] = first
    return variable


def zeros(shape: Sequence[int], dtype: Any = float32) -> Symbol:
    return constant(np.zeros(shape))


def ones(shape: Sequence[int], dtype: Any = float32) -> Symbol:
    return constant(np.ones(shape))


def zeros_like(x: Symbol) -> Symbol:
    return ops.ConstantOfShape(ops.Shape(x))


def set_seed(seed: int) -> None:
    """Begins the sequence of what `normal` draws."""
    _generator[0] = np.random.default_rng(seed)


def normal(shape: Sequence[int], stdev: float = 1.0) -> Symbol:
    drawn = written.input(unique("normal"), "f32", shape)
    draws[drawn] = lambda: np.float32(stdev) * _generator[0].standard_normal(shape, np.float32)
    return drawn


def assign(variable: Symbol, value: Any) -> Symbol:
    """Writes a variable; its value is the new content."""
    if not variable.node.attrs.get("state"):
        raise weft.UsageError(f"assign: {variable!r} is not a variable")
    return ops.weft.Assign(variable, constant(value))


def group(*symbols: Symbol) -> Symbol:
    """All of them; its value is None."""
    return ops.weft.Group(*(symbols or [constant(0)]))


def initialize_all_variables() -> Symbol:
    """Assigns their first values to all variables that have one so far."""
    return group(*(assign(v, first) for v, first in first_values.items()))


def gradients(ys: Symbol | Sequence[Symbol], xs: Symbol | Sequence[Symbol], grad_ys: Any = None) -> list[Symbol]:
    """d(sum of grad_ys[i] * ys[i]) / dx of each x."""
    return weft.gradients(*([one] if isinstance(one, Symbol) else one for one in (ys, xs, grad_ys)))


def equal(a: Any, b: Any) -> Symbol:
    return ops.Cast(ops.Equal(a, b), to="f32")


def argmax(x: Symbol, axis: int = 0) -> Symbol:
    return ops.Cast(ops.ArgMax(x, axis=axis, keepdims=0), to="f32")


def _reduction(function: Callable[..., Symbol]) -> Callable[..., Symbol]:
    def reduce(x: Symbol, reduction_indices: int | Sequence[int] | None = None) -> Symbol:
        return function(x, None if reduction_indices is None else np.ravel(reduction_indices), keepdims=0)

    return reduce


exp, log, sqrt, tanh, matmul, pow = ops.Exp, ops.Log, ops.Sqrt, ops.Tanh, ops.MatMul, ops.Pow  # noqa: A001: TinyFlow's word
reduce_sum, reduce_mean = _reduction(ops.ReduceSum), _reduction(ops.ReduceMean)
Group = group
