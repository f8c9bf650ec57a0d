"""Weft's graphs as the target of the translator."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import weft
from weft._weft import _make_node
from weft.torch.record import DType, Size
from weft.torch.translate import sizes
from weft.torch.translate.builder import Array, Attribute


class GraphBuilder:
    """Builds one `weft.Graph`. Weights are views of `tensors`, unless the graph writes them."""

    def __init__(self, tensors: Mapping[str, Any], written: Sequence[str] = ()) -> None:
        self.graph = weft.Graph()
        self.tensors = tensors
        self.outputs: dict[str, weft.Entry] = {}
        # Parameters that gradients may be asked of.
        self.trainable: dict[str, weft.Entry] = {}
        self.sources: dict[str, weft.Entry] = {}
        self.updates: dict[str, weft.Entry] = {}
        self._inputs: list[weft.Entry] = []
        # Stand-ins for values that no gradient passes through, and those values.
        self._borders: list[tuple[weft.Entry, weft.Entry]] = []
        self._written = frozenset(written)
        self._names: dict[str, int] = {}

    # ---- Builder ----

    def input(self, name: str, dtype: str, dims: Sequence[int | str]) -> weft.Entry:
        entry = self.graph.input(name, dtype, tuple(_dim(d) for d in dims))
        self._inputs.append(entry)
        self.sources[name] = entry
        return entry

    def weight(self, name: str, dtype: str, dims: Sequence[int], trainable: bool) -> weft.Entry:
        if name in self._written:
            # What nobody gives here lies in the memory of others (VariableStore.adopt).
            if name in self.tensors:
                entry = self.graph.state(name, self.tensors[name])
            else:
                entry = self.graph.state(name, None, dtype, tuple(dims))
        else:
            entry = self.graph.param(name, self.tensors[name], copy=False)
        self.sources[name] = entry
        if trainable:
            self.trainable[name] = entry
        return entry

    def constant(self, array: Array) -> weft.Entry:
        return self.graph.constant(array)

    def node(
        self,
        op: str,
        inputs: Sequence[weft.Entry | None],
        attributes: Mapping[str, Attribute],
        outputs: int,
        origin: str,
    ) -> Sequence[weft.Entry]:
        given: dict[str, Any] = {
            key: value.name if isinstance(value, DType) else value
            for key, value in attributes.items()
        }
        if op == "Split":  # Weft counts by the attribute, also where the sizes are given
            given["num_outputs"] = outputs
        made = _make_node(op, *inputs, graph=self.graph, name=self._name(op, origin), **given)
        entries = made if isinstance(made, tuple) else (made,)
        if len(entries) < outputs:
            raise ValueError(f"{op} gives {len(entries)} results, {outputs} are wanted")
        return entries[:outputs]

    def nested(self) -> GraphBuilder:
        return GraphBuilder({})

    def border(self, value: weft.Entry, dtype: str, dims: Sequence[int | str]) -> weft.Entry:
        """The same value, through which no gradient goes: an input until `close_borders`."""
        stand_in = self.graph.input(
            f"border_{len(self._borders)}", dtype, tuple(_dim(d) for d in dims)
        )
        self._borders.append((stand_in, value))
        return stand_in

    def gradients(
        self, ys: Sequence[weft.Entry], xs: Sequence[weft.Entry], dys: Sequence[weft.Entry]
    ) -> Sequence[weft.Entry]:
        return weft.gradients(ys, xs, dys)

    def replace(self, old: weft.Entry, new: weft.Entry) -> None:
        self.graph.replace_uses(old, new)
        self._replace(old, new)

    def reads(self, source: weft.Entry) -> bool:
        results = self.graph.outputs
        waiting, seen = [source], {source}
        while waiting:
            entry = waiting.pop()
            if entry in results:
                return True
            for user in entry.node.users:
                for slot, read in enumerate(user.inputs):
                    if read != entry or (user.op, slot) in _TYPE_ALONE:
                        continue
                    waiting += [e for e in user.outputs if e not in seen]
                    seen.update(user.outputs)
        return False

    def is_used(self, source: weft.Entry) -> bool:
        return bool(source.node.users)

    def inline(
        self, graph: weft.Graph, operands: Sequence[weft.Entry], origin: str
    ) -> Sequence[weft.Entry]:
        place, _, call = origin.rpartition(": ")
        family = call.split(".")[1] if call.count(".") > 1 else call
        return self.graph.inline(graph, operands, origin=self._name(family, f"{place}: {call}"))

    def output(self, name: str, value: weft.Entry) -> None:
        self.outputs[name] = value

    def update(self, name: str, value: weft.Entry) -> None:
        self.updates[name] = value

    # ---- what is left to do when all nodes are there ----

    def close_borders(self) -> None:
        """Gradients are there: stand-ins become the values that they stand for."""
        # One border may lie behind another, so the last goes first.
        for stand_in, value in reversed(self._borders):
            self.graph.replace_uses(stand_in, value)
            self._replace(stand_in, value)
        self._borders.clear()

    def _replace(self, old: weft.Entry, new: weft.Entry) -> None:
        for table in (self.outputs, self.updates):
            for name, entry in table.items():
                if entry == old:
                    table[name] = new

    def finish(self) -> weft.Graph:
        """The graph, with outputs and effects."""
        self.close_borders()
        outputs: dict[str, weft.Entry] = {}
        taken: set[Any] = set(self._inputs)
        for name, entry in self.outputs.items():
            # Inputs and values that are results twice get a node of their own.
            if entry in taken:
                entry = _make_node("Identity", entry, graph=self.graph, name="")
            taken.add(entry)
            outputs[name] = entry
        for name, value in self.updates.items():
            target = self.sources.get(name)
            if target is None:
                continue
            if target in self._inputs:
                outputs[f"updated_{name}"] = value
            else:
                _make_node("weft::Assign", target, value, graph=self.graph, name=f"update_{name}")
        self.graph.inputs = self._inputs
        self.graph.outputs = outputs
        self.graph.erase_dead()
        return self.graph

    def _name(self, op: str, origin: str) -> str:
        """`bert.py:85/Gelu`, with a number where there are several."""
        place, _, call = origin.rpartition(": ")
        file, _, line = place.split(" (")[0].rpartition(":")
        base = f"{os.path.basename(file)}:{line}/" if line else ""
        name = base + (op.removeprefix("weft::") if base or not call else op)
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        return f"{name}_{count}" if count else name


def _dim(dim: int | str) -> int | str | None:
    """A size in Weft's spelling; None for what that has no word for, and what is inferred then."""
    if isinstance(dim, int):
        return dim
    if "(" not in dim and "**" not in dim and "/ " not in dim:
        return dim
    try:
        return sizes.fold(Size(dim), str, str, _spell)
    except ValueError:
        return None


def _spell(op: str, args: list[str]) -> str:
    if op in ("max", "min"):
        return f"{op}({', '.join(args)})"
    if op in ("+", "-", "*", "//", "%"):
        return f"({args[0]} {op} {args[1]})"
    if op == "**" and args[1] in ("2", "3", "4"):
        return f"({' * '.join([args[0]] * int(args[1]))})"
    raise ValueError(op)


# Operands of which dtype and sizes count, and no element.
_TYPE_ALONE = {("Shape", 0), ("Size", 0), ("CastLike", 1), ("weft::SumTo", 1)}
