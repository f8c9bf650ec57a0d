"""Programs of records: the graph with inputs and outputs in the order in which torch keeps them,
what follows from steady inputs alone taken apart, and one program for all records alike."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import weft
from weft.torch.dynamo import reading, steady
from weft.torch.dynamo.layout import Order
from weft.torch.dynamo.seeded import STATE, Streams
from weft.torch.graph import GraphBuilder
from weft.torch.record import Record
from weft.torch.translate.core import Translation, Untranslatable, Val


@dataclass(slots=True)
class Made:
    """A program; `inputs` says of each of its inputs where it comes from: ("source", i),
    ("number", i) of the record's symbols, ("derived", i) or ("random", 0)."""

    program: weft.Program
    inputs: list[tuple[str, Any]]
    # Of sources `derived_from`, what is derived of them; None where nothing is.
    derive: weft.Program | None
    derived_from: list[int]


class OrderedBuilder(GraphBuilder):
    """Inputs and outputs whose dims lie in memory in another order."""

    def __init__(
        self,
        tensors: Mapping[str, Any],
        inputs: Mapping[str, Order],
        outputs: Mapping[str, Order],
    ) -> None:
        super().__init__(tensors)
        self._input_orders = inputs
        self._output_orders = outputs

    def input(self, name: str, dtype: str, dims: Sequence[int | str]) -> weft.Entry:
        order = self._input_orders.get(name, ())
        if not order:
            return super().input(name, dtype, dims)
        entry = super().input(name, dtype, [dims[d] for d in order])
        back = [order.index(d) for d in range(len(order))]
        return self.node("Transpose", [entry], {"perm": back}, 1, "")[0]

    def number(self, name: str, symbol: str, signed: bool = False) -> weft.Entry:
        """A number that an argument is; `signed`: it is no size, and may be negative."""
        if signed:
            return self.input(name, "int64", [])
        entry = self.graph.number(name, symbol)
        # The declared input, not the number made of it.
        self._inputs.append(next(e for e in self.graph.inputs if e.name == name))
        return entry

    def output(self, name: str, value: weft.Entry) -> None:
        order = self._output_orders.get(name, ())
        if order:
            value = self.node("Transpose", [value], {"perm": list(order)}, 1, "")[0]
        super().output(name, value)


def translate(
    record: Record,
    tensors: Mapping[str, Any],
    input_orders: Mapping[str, Order],
    output_orders: Mapping[str, Order],
    signed: Collection[str] = (),
) -> tuple[weft.Graph, list[str]]:
    """The graph, and the symbols that it takes as numbers, of which `signed` may be negative.
    Raises Untranslatable."""
    from weft.torch.translate import families  # noqa: F401 (registers the rules)

    builder = OrderedBuilder(tensors, input_orders, output_orders)
    streams = Streams()
    translation = Translation(record, builder, streams.rules(), signed=signed)
    given = reading.plain_symbols(record)
    fed = [s for s in reading.symbols_of(record) if s not in given]
    for symbol in fed:
        entry = builder.number(f"number_{symbol}", symbol, symbol in signed)
        translation.bind_symbol(symbol, Val(entry, "int64", ()))
    translation.sources()
    translation.run()
    translation.outputs()
    return builder.finish(), fed


_PROGRAMS: OrderedDict[str, Made] = OrderedDict()
_KEPT = 256


def make(
    record: Record,
    tensors: Mapping[str, Any],
    input_orders: Sequence[Order],
    output_orders: Sequence[Order],
    steady_sources: Sequence[int],
    options: Mapping[str, Any],
    signed: Collection[str] = (),
) -> Made:
    """Compiles a record, or finds what has been made of one like it."""
    negative = [s in signed for s in reading.symbols_of(record)]
    key = _key(record, tensors, input_orders, output_orders, steady_sources, options, negative)
    known = _PROGRAMS.get(key)
    if known is None:
        known = _PROGRAMS[key] = _make(
            record, tensors, input_orders, output_orders, steady_sources, options, signed
        )
        if len(_PROGRAMS) > _KEPT:
            _PROGRAMS.popitem(last=False)
    _PROGRAMS.move_to_end(key)
    return known


def _key(record: Record, tensors: Mapping[str, Any], *rest: Any) -> str:
    text = reading.canonical(record)
    digest = hashlib.sha256(text.encode())
    for name, tensor in tensors.items():
        digest.update(name.encode())
        # As bytes: numpy has no bfloat16.
        digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
    digest.update(repr(rest).encode())
    return digest.hexdigest()


def _make(
    record: Record,
    tensors: Mapping[str, Any],
    input_orders: Sequence[Order],
    output_orders: Sequence[Order],
    steady_sources: Sequence[int],
    options: Mapping[str, Any],
    signed: Collection[str] = (),
) -> Made:
    names = [s.name for s in record.sources if s.kind == "input"]
    outputs = [o.name for o in record.outputs]
    graph, fed = translate(
        record, tensors, dict(zip(names, input_orders)), dict(zip(outputs, output_orders)), signed
    )
    where: dict[str, tuple[str, Any]] = {n: ("source", i) for i, n in enumerate(names)}
    symbols = reading.symbols_of(record)
    where.update({f"number_{s}": ("number", symbols.index(s)) for s in fed})
    where[STATE] = ("random", 0)
    steady_names = [names[i] for i in steady_sources]
    derived: steady.Split | None = None
    if steady_names:
        derived = steady.split(graph, steady_names)
    derive = None
    if derived is not None:
        graph = derived.rest
        for i, name in enumerate(derived.names):
            where[name] = ("derived", i)
        derive = weft.compile(derived.first, **options)
    inputs = [e.name for e in graph.inputs]
    # What is packed once: what comes as it was given, and what is derived.
    kept = [n for n in inputs if n in steady_names or where[n][0] == "derived"]
    program = weft.compile(graph, steady=kept, **options)
    return Made(
        program,
        [where[spec.name] for spec in program.inputs],
        derive,
        [] if derived is None else [where[n][1] for n in derived.taken],
    )


__all__ = ["Made", "OrderedBuilder", "Untranslatable", "make", "translate"]
