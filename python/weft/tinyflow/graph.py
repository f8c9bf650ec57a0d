"""From symbols to a graph of Weft."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np

import weft
from weft import Entry, ops
from weft.tinyflow.symbol import Assign, Many, Placeholder, Shape, Source, Symbol, Variable, walk


class Lowering:
    """Adds what `fetches` are computed from to `graph`, in the order in which the program has made it: the order of reads and
    writes of variables."""

    def __init__(self, fetches: Sequence[Symbol], feeds: Mapping[Any, Sequence[Any]], known: Callable[[Variable], Shape | None]) -> None:
        self.graph, self.feeds, self.known = weft.Graph("tinyflow"), feeds, known
        self.inputs: list[Placeholder | Source] = []
        self.states: dict[Variable, Entry] = {}
        self.shapes: dict[Variable, Shape] = {}
        self.values: dict[Symbol, Any] = {}
        for s in sorted(walk(fetches, self._operands), key=lambda s: s.order):
            self.values[s] = self._lower(s)
        self.graph.outputs = [self.values[f] for f in fetches if not isinstance(f, Many)]

    def _operands(self, s: Symbol) -> list[Symbol]:
        return [s.data] if isinstance(s, Variable) and s.data and self.known(s) is None else s.operands()

    def _lower(self, s: Symbol) -> Any:
        operands = [self.values[i] if isinstance(i, Symbol) else i for i in s.inputs]
        if isinstance(s, Placeholder) and s not in self.feeds:
            raise weft.BindingError(f"what is fetched depends on {s.name!r}, which is not fed")
        if isinstance(s, Placeholder) or isinstance(s, Source) and s.shape is not None:
            self.inputs.append(s)
            return self.graph.input(s.name or f"source{s.order}", "f32", self.feeds.get(s, s.shape))
        if isinstance(s, Source):
            return ops.ConstantOfShape(ops.Shape(operands[0]), value=np.array([s.fill(())], np.float32))
        if isinstance(s, Variable):
            return self._state(s)
        if isinstance(s, Assign):
            return ops.weft.Assign(self._state(s.target, operands[0]), operands[0])
        return s.build(self, *operands) if s.build else None

    def _state(self, v: Variable, value: Entry | None = None) -> Entry:
        if v not in self.states:
            shape: Any = self.known(v)
            if shape is None and v.rule is not None and v.data in self.values:
                shape = v.rule(self.shape_of(self.values[v.data]))
            elif shape is None and value is not None:
                shape = self.shape_of(value)
            if shape is None or not all(isinstance(n, int) for n in shape):
                raise weft.ShapeError(f"the shape of variable {v.name!r} is not known: run what assigns it a first value")
            self.shapes[v], self.states[v] = tuple(shape), self.graph.state(v.name, None, "f32", shape)
        return self.states[v]

    def shape_of(self, entry: Entry) -> tuple[int | str | None, ...]:
        if entry.shape is None or None in entry.shape:
            self.graph.outputs = [entry]
            self.graph.infer()
        if entry.shape is None:
            raise weft.ShapeError(f"the rank of {entry!r} is not known")
        return entry.shape


def infer_variable_shapes(net: Any, feed_dict: Mapping[Any, Sequence[int]]) -> Iterator[tuple[Variable, str, list[int]]]:
    """(variable, name, shape) of every variable of a symbol, or of several, by the shapes of what will be fed."""
    heads = [net] if isinstance(net, Symbol) else list(net)
    found = Lowering(heads, feed_dict, lambda v: None if v.rule else v.shape).shapes
    for v in [s for s in walk(heads) if isinstance(s, Variable)]:
        v.shape = found[v]
        yield v, v.name, list(found[v])


class Graph:
    """Of a symbol; `lower` makes Weft's graph at the shapes of what is fed, for its passes."""

    def __init__(self, symbol: Symbol) -> None:
        self.symbol = symbol

    def lower(self, feed_dict: Mapping[Any, Sequence[int]]) -> weft.Graph:
        return Lowering([self.symbol], feed_dict, lambda v: v.shape).graph


create = Graph
