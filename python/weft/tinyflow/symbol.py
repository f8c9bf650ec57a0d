"""Symbols: what a program builds, as trees that a session lowers to graphs of Weft when it runs them."""

from __future__ import annotations

import itertools
import operator
from typing import Any, Callable, Iterator, Sequence

import numpy as np

import weft
from weft import Entry, ops

float32 = np.float32
Shape = tuple[int, ...]
_count = itertools.count()
_names: set[str] = set()
_generator = [np.random.default_rng(0)]
variables: list[Variable] = []


def unique(name: str) -> str:
    """The name itself, or with a number where it is taken."""
    found = next(n for n in itertools.chain([name], (f"{name}_{i}" for i in itertools.count(1))) if n not in _names)
    _names.add(found)
    return found


def apply(function: Callable[..., Any], *inputs: Any) -> Symbol:
    """A function of entries, and perhaps numbers, as one of symbols."""
    return Symbol(lambda _, *operands: function(*operands), inputs)


def _binary(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Symbol]:
    return lambda a, b: apply(function, a, b)


def _right(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Symbol]:
    return lambda a, b: apply(function, b, a)


def _unary(function: Callable[..., Entry]) -> Callable[[Symbol], Symbol]:
    return lambda x: apply(function, x)


def _reduction(function: Callable[..., Entry]) -> Callable[..., Symbol]:
    def reduce(x: Symbol, reduction_indices: int | Sequence[int] | None = None) -> Symbol:
        axes = None if reduction_indices is None else np.atleast_1d(np.asarray(reduction_indices, np.int64))
        return apply(lambda e: function(e, axes, keepdims=0), x)

    return reduce


class Symbol:
    """A value to be computed: `build(lowering, *operands)` adds it to a graph. Operands are symbols and numbers."""

    __array_ufunc__ = None
    __add__, __radd__ = _binary(operator.add), _right(operator.add)
    __sub__, __rsub__ = _binary(operator.sub), _right(operator.sub)
    __mul__, __rmul__ = _binary(operator.mul), _right(operator.mul)
    __truediv__, __rtruediv__ = _binary(operator.truediv), _right(operator.truediv)
    __pow__, __rpow__ = _binary(operator.pow), _right(operator.pow)
    __neg__ = _unary(operator.neg)

    def __init__(self, build: Callable[..., Any] | None, inputs: Sequence[Any] = (), name: str = "") -> None:
        self.build, self.inputs, self.name, self.order = build, tuple(inputs), name, next(_count)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name or self.order}>"

    def operands(self) -> list[Symbol]:
        return [s for s in self.inputs if isinstance(s, Symbol)]

    def list_input_variables(self) -> list[Variable]:
        """Variables that it is computed from, in order of first use."""
        return [s for s in walk([self]) if isinstance(s, Variable)]


def walk(heads: Sequence[Symbol], operands: Callable[[Symbol], list[Symbol]] = Symbol.operands) -> Iterator[Symbol]:
    """All that the heads are computed from, operands first."""
    seen: set[Symbol] = set()
    stack = [(h, iter(operands(h))) for h in reversed(heads)]
    while stack:
        following = next((s for s in stack[-1][1] if s not in seen), None)
        if following is not None:
            stack.append((following, iter(operands(following))))
        elif (top := stack.pop()[0]) not in seen:
            seen.add(top)
            yield top


class Placeholder(Symbol):
    def __init__(self, shape: Sequence[int | None] | None, name: str) -> None:
        super().__init__(None, (), unique(name))
        self.shape = None if shape is None else tuple(shape)


class Source(Symbol):
    """An array of a known shape, or that of another symbol: filled anew by every run."""

    def __init__(self, fill: Callable[[Shape], Any], shape: Sequence[int] | None, like: Symbol | None = None) -> None:
        super().__init__(None, () if like is None else (like,))
        self.fill, self.like, self.shape = fill, like, None if shape is None else tuple(int(n) for n in shape)


class Variable(Symbol):
    """State of a session. Without a first value its shape is `rule` of the shape of `data`, or that of what is assigned."""

    def __init__(self, init: Any = None, name: str = "variable", *, data: Symbol | None = None,
                 rule: Callable[[Any], Shape] | None = None) -> None:
        super().__init__(None, (), unique(name))
        self.init, self.data, self.rule = None if init is None else constant(init), data, rule
        self.shape: Shape | None = self.init.shape if isinstance(self.init, Source) else None
        variables.append(self)


class Assign(Symbol):
    """Writes a variable; its value is the new content."""

    def __init__(self, target: Variable, value: Symbol) -> None:
        super().__init__(None, (value,))
        self.target = target


class Many(Symbol):
    """All of its operands; its value is None."""


def constant(value: Any) -> Symbol:
    array = value if isinstance(value, Symbol) else np.asarray(value, np.float32)
    return array if isinstance(array, Symbol) else Source(lambda _: array, array.shape)


def placeholder(dtype: Any = float32, shape: Sequence[int | None] | None = None, name: str = "placeholder") -> Placeholder:
    """An operand that is fed: `placeholder(tf.float32)`, `placeholder(tf.float32, [None, 784])`, `placeholder('x')`."""
    return Placeholder(shape, dtype if isinstance(dtype, str) and dtype != "float32" else name)


def zeros(shape: Sequence[int], dtype: Any = float32) -> Symbol:
    return Source(lambda s: np.zeros(s, np.float32), shape)


def ones(shape: Sequence[int], dtype: Any = float32) -> Symbol:
    return Source(lambda s: np.ones(s, np.float32), shape)


def zeros_like(x: Symbol) -> Symbol:
    return Source(lambda s: np.zeros(s, np.float32), None, x)


def set_seed(seed: int) -> None:
    """Begins the sequence of what `normal` draws."""
    _generator[0] = np.random.default_rng(seed)


def normal(shape: Sequence[int], stdev: float = 1.0) -> Symbol:
    return Source(lambda s: np.float32(stdev) * _generator[0].standard_normal(s, np.float32), shape)


def assign(variable: Symbol, value: Any) -> Symbol:
    if not isinstance(variable, Variable):
        raise weft.UsageError(f"assign: {variable!r} is no variable")
    return Assign(variable, constant(value))


def group(*symbols: Symbol) -> Symbol:
    return Many(None, symbols)


def initialize_all_variables() -> Symbol:
    """Assigns their first values to all variables that have one so far."""
    return group(*(assign(v, v.init) for v in variables if v.init is not None))


def gradients(ys: Symbol | Sequence[Symbol], xs: Symbol | Sequence[Symbol], grad_ys: Any = None) -> list[Symbol]:
    """d(sum of grad_ys[i] * ys[i]) / dx of each x."""
    y, x, g = ([s] if isinstance(s, Symbol) else list(s or ()) for s in (ys, xs, grad_ys))
    first, end = len(y), len(y) + len(x)
    every = Symbol(lambda _, *e: weft.gradients(e[:first], e[first:end], e[end:] or None), [*y, *x, *g])
    return [apply(lambda found, i=i: found[i], every) for i in range(len(x))]


exp, log, sqrt, tanh = _unary(ops.Exp), _unary(ops.Log), _unary(ops.Sqrt), _unary(ops.Tanh)
matmul, pow = _binary(ops.MatMul), _binary(operator.pow)  # noqa: A001: TinyFlow's word
equal = _binary(lambda a, b: ops.Cast(ops.Equal(a, b), to="f32"))
reduce_sum, reduce_mean = _reduction(ops.ReduceSum), _reduction(ops.ReduceMean)
Group = group


def argmax(x: Symbol, axis: int = 0) -> Symbol:
    return apply(lambda e: ops.Cast(ops.ArgMax(e, axis=axis, keepdims=0), to="f32"), x)
