"""Records of parts of an fx graph that AOTAutograd has traced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch

from weft.torch.capture import private
from weft.torch.capture.fx import FxReader
from weft.torch.record import Argument, Node, Output, Record, Size, Source, TensorType
from weft.torch.translate import sizes

FxNode: TypeAlias = torch.fx.Node


class PartReader(FxReader):
    """Some nodes of a graph, of what others give (`inputs`, by their names)."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module, {})
        self._texts: dict[Any, int | Size] = {}

    def _size(self, value: Any) -> int | Size:
        if isinstance(value, int):
            return value
        key = value.node.expr
        known = self._texts.get(key)
        if known is None:
            known = self._texts[key] = super()._size(value)
        return known

    def part(
        self, inputs: Sequence[FxNode], nodes: Sequence[FxNode], outputs: Sequence[FxNode]
    ) -> Record:
        for node in inputs:
            number = self.define(node.meta["val"])
            self.bind(node, number)
            self.record.sources.append(Source(node.name, "input", number))
        for node in nodes:
            if node.op == "call_function":
                self._call(node)
        for i, node in enumerate(outputs):
            self.record.outputs.append(Output(f"output_{i}", self.argument(node)))
        return self.record

    def numbers(self) -> Mapping[FxNode, int]:
        """Values of the record by the nodes that give them."""
        return self._numbers

    def stand_in(self, node: FxNode, values: Sequence[Any]) -> None:
        """Results of a node that is none of the record: inputs of it."""
        numbers: list[int | None] = []
        for i, value in enumerate(values):
            if not isinstance(value, torch.Tensor):
                numbers.append(None)
                continue
            number = self.define(value)
            numbers.append(number)
            self.record.sources.append(Source(f"{node.name}_{i}", "input", number))
        self._parts[node] = numbers


def value_of(node: FxNode) -> Any:
    return node.meta.get("val")


def is_size(node: FxNode) -> bool:
    """A number that tracing knows as an expression over the symbols."""
    return isinstance(
        value_of(node), (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)
    )


def view_of(node: FxNode) -> FxNode | None:
    """The operand that this node gives a view of; None where it makes values."""
    if node.op != "call_function" or not private.is_view(node.target):
        return None
    first = node.args[0] if node.args else None
    return first if isinstance(first, torch.fx.Node) else None


def symbols_of(record: Record) -> list[str]:
    """Of all sizes, in order of their first appearance."""
    found: dict[str, None] = {}

    def visit(a: Argument) -> None:
        if isinstance(a, Size):
            found.update(dict.fromkeys(sorted(sizes.symbols_in(a))))
        elif isinstance(a, tuple):
            for part in a:
                visit(part)

    for kind in record.values:
        if isinstance(kind, TensorType):
            visit(kind.dims)
    for node in record.nodes:
        for a in (*node.args, *node.kwargs.values()):
            visit(a)
    return list(found)


def plain_symbols(record: Record) -> set[str]:
    """Symbols that are a dim of an input as they are."""
    found = set()
    for source in record.sources:
        for dim in record.tensor(source.value).dims:
            if isinstance(dim, Size) and dim.text.isidentifier():
                found.add(dim.text)
    return found


def canonical(record: Record) -> str:
    """Equal for records that make the same program: without places, names and torch's symbols."""
    plain = Record(
        values=record.values,
        sources=[
            Source(f"#{i}", s.kind, s.value) if s.kind == "input" else s
            for i, s in enumerate(record.sources)
        ],
        nodes=[Node(n.op, n.args, n.kwargs, n.results) for n in record.nodes],
        outputs=[Output(f"#{i}", o.value) for i, o in enumerate(record.outputs)],
    )
    text = plain.to_json()
    names = {s: f"d{i}" for i, s in enumerate(symbols_of(record))}
    if names:
        from weft.torch.capture.recorder import rename

        text = rename(text, names)
    return text
