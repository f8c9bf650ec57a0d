"""How graphs and programs show themselves in notebooks."""

from __future__ import annotations

import html
from typing import Any

from weft._weft import Graph, IoSpec, Node, Program, Session

_MOST = 200
_TABLE = '<table style="border-collapse:collapse;font-size:90%">'
_CODE = 'style="text-align:left;font-family:monospace;white-space:pre"'
_CELL = 'style="text-align:left"'


def _row(*cells: object, code: int = -1) -> str:
    return "<tr>" + "".join(f"<td {_CODE if i == code else _CELL}>{c}</td>" for i, c in enumerate(cells)) + "</tr>"


def _type(dtype: str | None, shape: tuple[int | str | None, ...] | None) -> str:
    dims = "" if shape is None else "[" + ", ".join("?" if d is None else str(d) for d in shape) + "]"
    return html.escape((dtype or "?") + dims)


def _node_name(node: Node) -> str:
    return html.escape(node.name or f"%{node.id}")


def _operator(node: Node) -> str:
    """Its name, and of a fused node what it holds."""
    attrs: dict[str, Any] = node.attrs
    body = attrs.get("body")
    text = html.escape(node.op or "variable")
    if isinstance(body, Graph):
        inner = [n.op for n in body.nodes if n.op]
        lines = html.escape(str(body))
        text = f"<details><summary>{text}: {html.escape(' '.join(inner))}</summary><pre>{lines}</pre></details>"
    return text


def graph_html(graph: Graph) -> str:
    """A row for each node: operands, operator, dtypes and shapes of results; fused bodies unfold."""
    rows = []
    nodes = [n for n in graph.nodes if n.op]
    for node in nodes[:_MOST]:
        inputs = ", ".join("_" if e is None else _node_name(e.node) + (f":{e.index}" if e.index else "") for e in node.inputs)
        types = "<br>".join(_type(e.dtype, e.shape) for e in node.outputs)
        rows.append(_row(_node_name(node), _operator(node), inputs, types, code=3))
    if len(nodes) > _MOST:
        rows.append(_row(f"... {len(nodes) - _MOST} more nodes"))
    inputs = ", ".join(f"{_node_name(e.node)}: {_type(e.dtype, e.shape)}" for e in graph.inputs)
    outputs = ", ".join(map(html.escape, graph.output_names))
    return (f"<b>Graph</b> {html.escape(graph.name)} ({graph.num_nodes} nodes)<br>inputs: {inputs}<br>outputs: {outputs}"
            f"{_TABLE}{_row('<b>node</b>', '<b>operator</b>', '<b>operands</b>', '<b>results</b>')}{''.join(rows)}</table>")


def _io(specs: list[IoSpec]) -> str:
    return ", ".join(f"{html.escape(s.name)}: {_type(s.dtype, s.shape)}" for s in specs)


def program_html(program: Program) -> str:
    """A row for each kernel and call, with its time in a run on random inputs (symbols are 1)."""
    stats = program.stats
    rows = []
    try:
        session = Session(program)  # with variables of its own
        inputs = program.sample_inputs()
        session.profile(inputs)
        steps = session.profile(inputs)
        for step in steps[:_MOST]:
            rows.append(_row(html.escape(step.name), html.escape(step.kind), f"{step.microseconds:.1f}",
                             f"{step.bytes / 1e3:.1f}", html.escape(step.how)))
    except Exception as error:  # a picture is no reason to fail
        rows.append(_row(html.escape(str(error))))
    head = _row(*(f"<b>{t}</b>" for t in ("step", "kind", "us", "kB", "how")))
    return (f"<b>Program</b> on {html.escape(program.backend)}: {stats['kernels']} kernels, {stats['library_calls']} library "
            f"calls, compiled in {stats['compile_seconds']:.3f} s<br>inputs: {_io(program.inputs)}<br>outputs: "
            f"{_io(program.outputs)}{_TABLE}{head}{''.join(rows)}</table>")
