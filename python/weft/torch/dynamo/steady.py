"""What follows from steady inputs alone is computed when they change, not in every run: the affine
map of a batch normalization, weights scaled by it, casts, look-ups at constant places.

    %c = Conv(%x, %w)  %y = BatchNormalization(%c, %s, %t, %m, %v)      %w %s %t %m %v steady
      ->  first:  %a = s / sqrt(v + epsilon)   %w' = w a   %b' = t - m a
          rest:   %y = Conv(%x, %w', %b')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import weft
from weft._weft import _make_node

# Where elements stand, not what they are: these cost nothing where they are, or would make much of
# little.
_MOVES = frozenset(
    {"Transpose", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Expand", "Slice", "Flatten",
     "Split", "ConstantOfShape", "Shape"}
)  # fmt: skip


@dataclass(slots=True)
class Split:
    """`first` takes `taken` and gives what `rest` takes as `names`."""

    first: weft.Graph
    rest: weft.Graph
    taken: list[str]
    names: list[str]


def split(graph: weft.Graph, steady: Sequence[str]) -> Split | None:
    """Changes `graph`, in which batch normalizations of steady operands are affine maps then. None
    where nothing is worth a program of its own."""
    inputs = {e.name: e for e in graph.inputs}
    known = {inputs[n] for n in steady if n in inputs}
    _fold_normalizations(graph, known)
    # Entries that follow from steady inputs and constants; True: by an operator that computes.
    follows: dict[weft.Entry, bool] = {e: False for e in known}
    constant: set[weft.Entry] = set()
    cut: dict[weft.Entry, None] = {}

    def take(entry: weft.Entry) -> None:
        """Something of the rest reads it: itself, or where only places change what it is of."""
        if not follows.get(entry):
            return
        if (entry.node.op or "") in _MOVES:
            for e in entry.node.inputs:
                if e is not None:
                    take(e)
        else:
            cut.setdefault(entry)

    for node in graph.nodes:
        operands = [e for e in node.inputs if e is not None]
        if not node.op:
            continue
        outputs = list(node.outputs)
        if all(e in constant or graph.value(e) is not None for e in operands):
            if not _draws(node):
                constant.update(outputs)
            continue
        if not _draws(node) and all(
            e in follows or e in constant or graph.value(e) is not None for e in operands
        ):
            computes = (node.op or "") not in _MOVES or any(follows.get(e) for e in operands)
            follows.update(dict.fromkeys(outputs, computes))
            continue
        for e in operands:
            take(e)
    for e in graph.outputs:
        take(e)
    if not cut:
        return None
    first = graph.copy()
    first.outputs = {f"derived_{i}": first.at(e) for i, e in enumerate(cut)}
    first.erase_dead()
    first.inputs = [e for e in first.inputs if e.name in steady and e.node.users]
    taken = [e.name for e in first.inputs]
    graph.infer()
    names = []
    declared = list(graph.inputs)
    for i, entry in enumerate(cut):
        name = f"derived_{i}"
        stand_in = graph.input(name, entry.dtype, entry.shape)
        graph.replace_uses(entry, stand_in)
        declared.append(stand_in)
        names.append(name)
    graph.inputs = declared
    graph.erase_dead()
    graph.inputs = [e for e in declared if e.name not in steady or e.node.users]
    return Split(first, graph, taken, names)


def _draws(node: weft.Node) -> bool:
    op = node.op or ""
    return "Random" in op or op in ("Dropout", "Bernoulli", "Multinomial")


_WIDE = ("f32", "f64")


def _rank_of(entry: weft.Entry | None) -> int:
    return len(entry.shape or ()) if entry is not None else 0


def _fold_normalizations(graph: weft.Graph, known: set[weft.Entry]) -> None:
    def op(name: str, *operands: weft.Entry | None, **attributes: Any) -> weft.Entry:
        made: weft.Entry = _make_node(name, *operands, graph=graph, name="", **attributes)
        return made

    outputs = set(graph.outputs)
    found = [n for n in graph.nodes if n.op == "BatchNormalization"]
    if found:
        graph.infer()
    # Edits forget what is inferred behind them.
    kinds = [(_rank_of(n.inputs[0]), {e.dtype for e in n.inputs if e is not None}) for n in found]
    for node, (rank, dtypes) in zip(found, kinds):
        if node.attrs.get("training_mode") or rank < 2:
            continue
        x, scale, shift, mean, variance = node.inputs[:5]
        if x is None or not all(e in known for e in (scale, shift, mean, variance)):
            continue
        assert scale is not None and variance is not None
        # Half precision has no bits to spare for a factor in the weights; under autocast it is that
        # of x alone.
        if scale.dtype not in _WIDE or len(dtypes) > 1:
            continue
        epsilon = float(node.attrs.get("epsilon", 1e-5))
        factor = op("Div", scale, op("Sqrt", variance + epsilon))
        offset = op("Sub", shift, op("Mul", mean, factor))
        conv = x.node
        plain = conv.op == "Conv" and len(conv.users) == 1 and x not in outputs
        if plain and conv.inputs[1] in known:
            weight = conv.inputs[1]
            bias = conv.inputs[2] if len(conv.inputs) > 2 else None
            if bias is not None and bias not in known:
                continue
            if bias is not None:
                offset = op("Add", op("Mul", bias, factor), offset)
            spread = op("Reshape", factor, graph.constant([-1] + [1] * (rank - 1), dtype="i64"))
            result = op("Conv", conv.inputs[0], op("Mul", weight, spread), offset,
                        **dict(conv.attrs))  # fmt: skip
        else:
            to = graph.constant([-1] + [1] * (rank - 2), dtype="i64")
            result = op("Add", op("Mul", x, op("Reshape", factor, to)), op("Reshape", offset, to))
        graph.replace_uses(node.outputs[0], result)
