"""What is taken out of the graph of all symbols, with the shapes of what will be fed."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

import weft
from weft.tinyflow.symbol import Extents, Symbol, draws, written


def _fixed(shape: Extents | None) -> tuple[int, ...] | None:
    """The shape, where it is known as numbers."""
    numbers = [n for n in shape or () if isinstance(n, int)]
    return None if shape is None or len(numbers) != len(shape) else tuple(numbers)


def lower(fetches: Sequence[Symbol], feeds: Mapping[Symbol, Extents], known: Callable[[str], Extents | None] = lambda _: None) -> weft.Graph:
    """The graph of `fetches`, inferred at the shapes of what is fed and of the variables that are `known` by name. Of the others it
    is what inference finds, or that of what is assigned."""
    graph = written.extract(fetches)
    for e in graph.inputs:
        if written.at(e) in feeds:
            graph.declare(e, feeds[written.at(e)])
        elif written.at(e) not in draws:
            raise weft.BindingError(f"what is fetched depends on {e.name!r}, which is not fed")
    found = {v: shape for v in graph.states if (shape := known(v.name)) is not None}
    while True:
        for v, shape in found.items():
            graph.declare(v, shape)
        graph.infer()
        assigned = [(v, u.outputs[0]) for v in graph.states if _fixed(v.shape) is None for u in v.node.users if u.op == "weft::Assign"]
        found = {v: shape for v, value in assigned if (shape := _fixed(value.shape)) is not None}
        if not found:
            return graph


def shape_of(variable: Symbol) -> tuple[int, ...]:
    if (shape := _fixed(variable.shape)) is None:
        raise weft.ShapeError(f"the shape of variable {variable.name!r} is not known: run what assigns it a first value",
                              hint="infer_variable_shapes, or a first value, makes a shape known")
    return shape


def infer_variable_shapes(net: Any, feed_dict: Mapping[Any, Sequence[int]]) -> Iterator[tuple[Symbol, str, list[int]]]:
    """(variable, name, shape) of every variable of a symbol, or of several, by the shapes of what will be fed."""
    for v in lower([net] if isinstance(net, Symbol) else list(net), feed_dict).states:
        written.declare(written.at(v), shape_of(v))
        yield written.at(v), v.name, list(shape_of(v))


class Graph(NamedTuple):
    """Of a symbol; `lower` makes Weft's graph at the shapes of what is fed, for its passes."""

    symbol: Symbol

    def lower(self, feed_dict: Mapping[Any, Sequence[int]]) -> weft.Graph:
        return lower([self.symbol], feed_dict)


create = Graph
