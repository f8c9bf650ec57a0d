"""Random nodes that draw from one state, which the caller gives: two numbers per run.

What the translator makes draws anew in each run. Here each such node becomes what it stands for over
`weft::RandomUniform` and `weft::RandomNormal`, which are functions of (state, stream, position): the
same state gives the same numbers, in the forward part and in gradients of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from weft._weft import _make_node

_DRAWS = {
    "RandomUniform": "weft::RandomUniform",
    "RandomUniformLike": "weft::RandomUniform",
    "RandomNormal": "weft::RandomNormal",
    "RandomNormalLike": "weft::RandomNormal",
}
_LAW = ("low", "high", "mean", "scale", "dtype", "shape")


def seed_from(graph: weft.Graph, state: Callable[[], weft.Entry]) -> bool:
    """Whether the graph, which is done, had such nodes; `state` gives an entry of i64[2], and is
    asked once."""
    drawing = [n for n in graph.nodes if _draws(graph, n)]
    if not drawing:
        return False
    entry = state()
    for stream, node in enumerate(drawing):
        made = _replacement(graph, node, entry, stream)
        for old, new in zip(node.outputs, made):
            graph.replace_uses(old, new)
    graph.erase_dead()
    return True


def _draws(graph: weft.Graph, node: weft.Node) -> bool:
    if "seed" in node.attrs:
        return False
    if node.op == "Dropout":
        return len(node.inputs) > 2 and _number(graph, node.inputs[2]) is True
    return node.op in _DRAWS


def _number(graph: weft.Graph, entry: weft.Entry | None) -> Any:
    """The content of a scalar constant; None where it is not one."""
    value = None if entry is None else graph.value(entry)
    return None if value is None or np.size(value) != 1 else np.asarray(value).item()


def _replacement(
    graph: weft.Graph, node: weft.Node, state: weft.Entry, stream: int
) -> list[weft.Entry]:
    def op(name: str, *inputs: weft.Entry | None, **attributes: Any) -> weft.Entry:
        made: weft.Entry = _make_node(name, *inputs, graph=graph, name="", **attributes)
        return made

    given = node.inputs[0] if node.inputs else None
    if node.op in _DRAWS:
        law = {k: v for k, v in node.attrs.items() if k in _LAW}
        if node.op in ("RandomUniform", "RandomNormal"):
            return [op(_DRAWS[node.op], None, state, stream=stream, **law)]
        drawn = op(_DRAWS[str(node.op)], given, state, stream=stream, **law)
        return [drawn if "dtype" in law else op("CastLike", drawn, given)]
    uniform = op("weft::RandomUniform", given, state, stream=stream)
    ratio = node.inputs[1]
    kept = op("GreaterOrEqual", uniform, op("Cast", ratio, to="float32"))
    one = graph.constant(np.float32(1))
    share = op("CastLike", op("Sub", one, op("Cast", ratio, to="float32")), given)
    zero = op("CastLike", graph.constant(np.float32(0)), given)
    return [op("Where", kept, op("Div", given, share), zero), kept]
