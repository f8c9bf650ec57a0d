"""A captured model as plain data: what the recorder, fx graphs and `.pt2` files all give.

A `Record` is a list of aten calls in single assignment: values have numbers, nodes read and define
them. It holds no object of torch and no weights, and turns into JSON and back. Sizes that are no
constants are `Size` expressions over the symbols of the record (`batch`, `2*n`, `n//4`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

VERSION = 1


@dataclass(frozen=True, slots=True)
class Size:
    """An integer over the record's symbols, in the syntax of Python: `+ - * // %`, `max`, `min`."""

    text: str

    def __str__(self) -> str:
        return self.text


Dim = Union[int, Size]


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of the record, by number."""

    index: int


@dataclass(frozen=True, slots=True)
class DType:
    """A dtype as an argument, by torch's name of it without the module: `float32`."""

    name: str


@dataclass(frozen=True, slots=True)
class Body:
    """A sub-graph as an argument of `cond`, `while_loop`, `scan`."""

    record: "Record"


Argument = Union[None, bool, int, float, str, Size, Ref, DType, Body, tuple["Argument", ...]]


@dataclass(frozen=True, slots=True)
class TensorType:
    dtype: str
    dims: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        return len(self.dims)


@dataclass(frozen=True, slots=True)
class SizeType:
    """A number that a node reads from data and that later sizes use: it defines `symbol`."""

    symbol: str


ValueType = Union[TensorType, SizeType]


@dataclass(frozen=True, slots=True)
class Frame:
    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})"


@dataclass(slots=True)
class Node:
    """One call. Results that nothing can read (absent ones) are None."""

    op: str
    args: tuple[Argument, ...]
    kwargs: Mapping[str, Argument]
    results: tuple[int | None, ...]
    # Number in Record.stacks, innermost frame first.
    stack: int = 0
    # False in no_grad regions: no gradient passes here.
    differentiable: bool = True


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value comes from that no node defines."""

    name: str
    kind: str  # "input", "parameter", "buffer", "constant"
    value: int
    trainable: bool = False
    # Other names of the same tensor.
    ties: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    name: str
    # A Ref, or a number, Size, None that the module returns as it is.
    value: Argument


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    min: int = 0
    max: int | None = None


@dataclass(frozen=True, slots=True)
class Specialization:
    """A fact about symbols that the model's code decided at capture and that must hold in runs."""

    fact: str
    symbol: str | None  # the symbol that became a number, if the fact is that
    place: Frame | None


@dataclass(slots=True)
class Record:
    values: list[ValueType] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)
    specializations: list[Specialization] = field(default_factory=list)
    # Source name -> its content after the run.
    updates: dict[str, int] = field(default_factory=dict)
    stacks: list[tuple[Frame, ...]] = field(default_factory=lambda: [()])

    def tensor(self, index: int) -> TensorType:
        kind = self.values[index]
        assert isinstance(kind, TensorType), f"value {index} is a number"
        return kind

    def place(self, node: Node) -> str:
        """The innermost place in the user's code, or the operator's name."""
        stack = self.stacks[node.stack]
        return f"{stack[0]}: {node.op}" if stack else node.op

    def to_json(self) -> str:
        return json.dumps(_to_plain(self), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> "Record":
        return _record_from_plain(json.loads(text))


def argument_refs(argument: Argument) -> Iterator[Ref]:
    """All values that an argument reads."""
    if isinstance(argument, Ref):
        yield argument
    elif isinstance(argument, tuple):
        for part in argument:
            yield from argument_refs(part)


# ---- JSON: a one-key object for what JSON has no word for ----


def _dims_to_plain(dims: tuple[Dim, ...]) -> list[int | str]:
    return [d if isinstance(d, int) else d.text for d in dims]


def _dims_from_plain(dims: list[int | str]) -> tuple[Dim, ...]:
    return tuple(d if isinstance(d, int) else Size(d) for d in dims)


def _argument_to_plain(a: Argument) -> Any:
    if isinstance(a, Size):
        return {"size": a.text}
    if isinstance(a, Ref):
        return {"value": a.index}
    if isinstance(a, DType):
        return {"dtype": a.name}
    if isinstance(a, Body):
        return {"body": _to_plain(a.record)}
    if isinstance(a, tuple):
        return [_argument_to_plain(part) for part in a]
    if isinstance(a, float) and (a != a or a in (float("inf"), float("-inf"))):
        return {"float": str(a)}
    return a


def _argument_from_plain(a: Any) -> Argument:
    if isinstance(a, list):
        return tuple(_argument_from_plain(part) for part in a)
    if isinstance(a, dict):
        ((key, content),) = a.items()
        if key == "size":
            return Size(content)
        if key == "value":
            return Ref(content)
        if key == "dtype":
            return DType(content)
        if key == "body":
            return Body(_record_from_plain(content))
        if key == "float":
            return float(content)
        raise ValueError(f"unknown kind of argument: {key}")
    assert a is None or isinstance(a, (bool, int, float, str))
    return a


def _to_plain(record: Record) -> dict[str, Any]:
    return {
        "version": VERSION,
        "symbols": [[s.name, s.min, s.max] for s in record.symbols],
        "values": [
            [v.dtype, _dims_to_plain(v.dims)] if isinstance(v, TensorType) else v.symbol
            for v in record.values
        ],
        "sources": [[s.name, s.kind, s.value, s.trainable, list(s.ties)] for s in record.sources],
        "nodes": [
            [
                n.op,
                _argument_to_plain(n.args),
                {k: _argument_to_plain(v) for k, v in n.kwargs.items()},
                list(n.results),
                n.stack,
                n.differentiable,
            ]
            for n in record.nodes
        ],
        "outputs": [[o.name, _argument_to_plain(o.value)] for o in record.outputs],
        "updates": record.updates,
        "specializations": [
            [s.fact, s.symbol, _frame_to_plain(s.place)] for s in record.specializations
        ],
        "stacks": [[_frame_to_plain(f) for f in stack] for stack in record.stacks],
    }


def _frame_to_plain(frame: Frame | None) -> Any:
    return None if frame is None else [frame.file, frame.line, frame.function]


def _record_from_plain(plain: Mapping[str, Any]) -> Record:
    if plain.get("version") != VERSION:
        raise ValueError(f"record of version {plain.get('version')}; version {VERSION} is read")
    return Record(
        values=[
            SizeType(v) if isinstance(v, str) else TensorType(v[0], _dims_from_plain(v[1]))
            for v in plain["values"]
        ],
        sources=[
            Source(name, kind, value, trainable, tuple(ties))
            for name, kind, value, trainable, ties in plain["sources"]
        ],
        nodes=[
            Node(
                op,
                tuple(_argument_from_plain(a) for a in args),
                {k: _argument_from_plain(v) for k, v in kwargs.items()},
                tuple(results),
                stack,
                differentiable,
            )
            for op, args, kwargs, results, stack, differentiable in plain["nodes"]
        ],
        outputs=[Output(name, _argument_from_plain(value)) for name, value in plain["outputs"]],
        symbols=[Symbol(*s) for s in plain["symbols"]],
        specializations=[
            Specialization(fact, symbol, Frame(*place) if place else None)
            for fact, symbol, place in plain["specializations"]
        ],
        updates=dict(plain["updates"]),
        stacks=[tuple(Frame(*f) for f in stack) for stack in plain["stacks"]],
    )
