"""Gradients of aten's operators, by the rules of their forward forms.

`aten.silu_backward` is the gradient of `aten.silu`: the forward call is translated again, in a
graph of its own, of the operands that the backward call has kept; Weft's Gradient differentiates
it by the operators' own FGradient; and what comes of it, the dead parts gone, is copied to where
the backward call stands. Equal nodes of the forward part merge with it later, where both are in one
graph. So no formula stands here, and none can differ from that of `weft.torch.export`.

What the backward call has kept may be a result (`tanh`, `softmax`, statistics): that stands for
the result of the call made again. An operand may be missing then, and only its type be known. A
gradient that reads it all the same is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from weft.torch.record import Dim, Node, Record, TensorType
from weft.torch.translate.builder import Graph
from weft.torch.translate.core import Translation, Untranslatable, Val

# An aten operator by its full name, or what gives its results from the operands.
Forward = Union[str, Callable[..., Any]]


@dataclass(slots=True)
class _Made:
    """The gradient of one call as a graph; other calls on such operands take it as well."""

    graph: Graph
    reads_type: list[bool]  # of each missing operand: dtype and sizes
    symbols: list[str]  # sizes that are its last inputs


class _Forward(Translation):
    """The forward call in a graph of its own."""

    def __init__(self, outer: Translation) -> None:
        super().__init__(Record(), outer.builder.nested(), outer.rules, with_gradients=True)
        self.symbols: list[str] = []

    def input(self, kind: TensorType) -> Val:
        dims = [d if isinstance(d, int) else d.text for d in kind.dims]
        value = Val(
            self.builder.input(f"in_{len(self._values)}", kind.dtype, dims), kind.dtype, kind.dims
        )
        self.define(len(self._values), value)
        return value

    def _symbol(self, name: str) -> Val:
        if name not in self._symbols:  # no operand has it
            self.symbols.append(name)
            entry = self.builder.input(f"size_{name}", "int64", [1])
            self._symbols[name] = Val(entry, "int64", (1,))
        return super()._symbol(name)

    def call(
        self, forward: Forward, args: Sequence[Any], kwargs: Mapping[str, Any],
        results: Sequence[TensorType],
    ) -> list[Val | None]:  # fmt: skip
        """The results of the call, of these types."""
        self.record.values.extend(results)
        op = forward if isinstance(forward, str) else forward.__name__
        self._node = Node(op, (), {}, tuple(range(len(results))))
        self._needed.update(range(len(results)))
        rule = self.rules[forward] if isinstance(forward, str) else forward
        made = rule(self, *args, **kwargs)
        return [made] if isinstance(made, Val) else list(made)


def gradient(
    t: Translation,
    forward: Forward,
    args: Sequence[Any],
    wrt: Sequence[int],
    dy: Val,
    *,
    saved: Mapping[int, Val] | None = None,
    **kwargs: Any,
) -> list[Val]:
    """The gradients by arguments number `wrt` of a forward call whose first result has the
    gradient `dy`. An argument that is a TensorType is missing; `saved` has results of the call, by
    number, that stand for what the gradient reads of them."""
    saved = saved or {}
    everything = [*args, *kwargs.values()]
    results = [_type(dy)] + [
        _type(saved[i]) if i in saved else _type(dy) for i in range(1, max(saved, default=0) + 1)
    ]
    operands = [a for a in _tensors(everything) if isinstance(a, Val)] + [dy, *saved.values()]
    name = forward if isinstance(forward, str) else f"{forward.__module__}.{forward.__qualname__}"
    key = repr((name, _key(everything), list(kwargs), wrt, results, list(saved), _key(operands)))
    made = t.gradients.get(key)
    if made is None:
        made = t.gradients[key] = _build(t, forward, args, kwargs, wrt, dy, saved, results)
    absent = [a for a in _tensors(everything) if isinstance(a, TensorType)]
    entries = [v.entry for v in operands]
    # Only its type counts, but it has to be there.
    entries += [
        t.full(0, kind.dims, kind.dtype).entry if read else dy.entry
        for kind, read in zip(absent, made.reads_type)
    ]
    entries += [t.symbol(symbol).entry for symbol in made.symbols]
    found = t.builder.inline(made.graph, entries, t.origin)
    kinds = [args[i] for i in wrt]
    return [Val(entry, kind.dtype, tuple(kind.dims)) for entry, kind in zip(found, kinds)]


def _build(
    t: Translation,
    forward: Forward,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    wrt: Sequence[int],
    dy: Val,
    saved: Mapping[int, Val],
    results: Sequence[TensorType],
) -> _Made:
    inner = _Forward(t)
    everything = [*args, *kwargs.values()]
    present = [inner.input(_type(a)) for a in _tensors(everything) if isinstance(a, Val)]
    seed = inner.input(_type(dy))
    kept = {i: inner.input(_type(v)) for i, v in saved.items()}
    absent = [inner.input(a) for a in _tensors(everything) if isinstance(a, TensorType)]
    next_present, next_absent = iter(present), iter(absent)

    def replaced(a: Any) -> Any:
        if isinstance(a, Val):
            return next(next_present)
        if isinstance(a, TensorType):
            return next(next_absent)
        return [replaced(part) for part in a] if isinstance(a, (list, tuple)) else a

    call = [replaced(a) for a in everything]
    named = dict(zip(kwargs, call[len(args) :]))
    values = inner.call(forward, call[: len(args)], named, results)
    if values[0] is None:
        raise Untranslatable(f"gradient of {forward}, which has no result")
    builder = inner.builder
    made = builder.gradients([values[0].entry], [call[i].entry for i in wrt], [seed.entry])
    for i, entry in enumerate(made):
        builder.output(f"grad_{i}", entry)
    for i, value in kept.items():
        result = values[i]
        if result is not None:
            builder.replace(result.entry, inner.cast(value, result.dtype).entry)
    graph = builder.finish()
    if any(builder.reads(value.entry) for value in absent):
        raise Untranslatable("the gradient reads an operand that the call has not kept")
    return _Made(graph, [builder.is_used(value.entry) for value in absent], inner.symbols)


def masked(
    t: Translation, forward: Forward, args: Sequence[Any], mask: Sequence[bool], dy: Val,
    **options: Any,
) -> list[Val | None]:  # fmt: skip
    """Gradients by the first arguments as far as `mask` asks for them, which have to be there."""
    wrt = [i for i, wanted in enumerate(mask) if wanted and args[i] is not None]
    made = iter(gradient(t, forward, args, wrt, dy, **options))
    return [next(made) if i in wrt else None for i in range(len(mask))]


def _type(v: Val) -> TensorType:
    return TensorType(v.dtype, v.dims)


def _tensors(a: Any) -> Iterator[Val | TensorType]:
    if isinstance(a, (Val, TensorType)):
        yield a
    elif isinstance(a, (list, tuple)):
        for part in a:
            yield from _tensors(part)


def _key(a: Any) -> Any:
    if isinstance(a, Val):
        return a.dtype, a.dims
    return tuple(_key(part) for part in a) if isinstance(a, (list, tuple)) else a


def missing(dtype: str, dims: Sequence[Dim]) -> TensorType:
    """An operand that the backward call has not kept."""
    return TensorType(dtype, tuple(dims))
