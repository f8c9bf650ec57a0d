"""One HTML file of what a pipeline does to a graph: the text before and after each pass, its time, counts and statistics."""

from __future__ import annotations

import html
import os
from typing import TYPE_CHECKING

from weft._types import PathLike, PipelineLike
from weft._weft import Graph, PassRecord, _split_pipeline, apply_passes, resolve_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator

_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 110em; padding: 0 1em; color: #222; }
pre, td.code { font: 12px/1.4 ui-monospace, monospace; }
table.passes { border-collapse: collapse; } table.passes td, table.passes th { padding: .15em .8em; text-align: left; }
table.passes td.n { text-align: right; font-variant-numeric: tabular-nums; }
details { border: 1px solid #ccc; border-radius: 4px; margin: .6em 0; } summary { padding: .4em .8em; cursor: pointer; }
details > div { padding: 0 .8em .6em; overflow-x: auto; }
table.diff { border-collapse: collapse; width: 100%; table-layout: fixed; }
table.diff td { vertical-align: top; white-space: pre-wrap; overflow-wrap: anywhere; width: 50%; padding: 0 .4em; }
td.gone { background: #fdd; } td.new { background: #dfd; } td.skip { color: #888; text-align: center; }
.quiet { color: #777; }
"""


def _rows(before: list[str], after: list[str]) -> Iterator[tuple[str, str, str, str]]:
    """(text, class) of both sides, line beside line; runs of equal lines are shortened."""
    import difflib

    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            lines = list(zip(before[i1:i2], after[j1:j2]))
            if len(lines) > 8:
                yield from ((a, "", b, "") for a, b in lines[:3])
                yield f"... {len(lines) - 6} equal lines", "skip", "", "skip"
                lines = lines[-3:]
            yield from ((a, "", b, "") for a, b in lines)
            continue
        left, right = before[i1:i2], after[j1:j2]
        for k in range(max(len(left), len(right))):
            a, b = left[k] if k < len(left) else "", right[k] if k < len(right) else ""
            yield a, "gone" if k < len(left) else "", b, "new" if k < len(right) else ""


def _diff(before: str, after: str) -> str:
    rows = []
    # A difference of two long texts takes time that grows with the square of their lengths.
    left, right = before.splitlines(), after.splitlines()
    if len(left) + len(right) > 6000:
        left, right = left[:3000] + ["..."], right[:3000] + ["..."]
    for a, ka, b, kb in _rows(left, right):
        rows.append(f'<tr><td class="code {ka}">{html.escape(a)}</td><td class="code {kb}">{html.escape(b)}</td></tr>')
    return f'<table class="diff">{"".join(rows)}</table>'


def _pass_html(step: str, records: list[PassRecord], before: str, after: str) -> str:
    asked = [r for r in records if r.asked]
    record = asked[-1] if asked else records[-1]
    counts = ", ".join(f"{html.escape(k)} {v}" for k, v in sorted(record.statistics.items()) if v)
    needs = "".join(f'<div class="quiet">{html.escape(r.name)}: {html.escape(r.reason)}</div>' for r in records if not r.asked)
    told = "".join(f"<div>{html.escape(w)}</div>" for w in [*record.warnings, *record.faults])
    body = _diff(before, after) if before != after else '<p class="quiet">nothing changed</p>'
    title = (f"<b>{html.escape(step)}</b> &nbsp; {record.nodes_before} &rarr; {record.nodes_after} nodes, "
             f"{1e3 * sum(r.seconds for r in records):.2f} ms")
    is_open = " open" if before != after and len(after) < 20_000 else ""
    return f'<details id="{record.number}"{is_open}><summary>{title}</summary><div>{needs}{told}<p>{counts}</p>{body}</div></details>'


def report(graph: Graph, pipeline: PipelineLike, path: PathLike = "weft_report.html", *, target: str = "cpu") -> str:
    """Applies a pipeline pass by pass and writes a page with the graph before and after each. Gives the path.

    What a pass depends on runs before it and is shown with it.
    """
    steps, sections, table = _split_pipeline(resolve_pipeline(graph, pipeline, target=target)), [], []
    before = graph.to_text()
    first = before
    for number, step in enumerate(steps, 1):
        records: list[PassRecord] = []
        graph = apply_passes(graph, step, target=target, records=records)
        after = graph.to_text()
        sections.append(_pass_html(f"{number}. {step}", records, before, after))
        last = records[-1]
        table.append(f"<tr><td>{number}</td><td>{html.escape(step)}</td><td class=n>{last.nodes_before}</td>"
                     f"<td class=n>{last.nodes_after}</td><td class=n>{1e3 * sum(r.seconds for r in records):.2f}</td></tr>")
        before = after
    name = html.escape(graph.name or "graph")
    page = (f"<!doctype html><html lang=en><meta charset=utf-8><title>{name}</title><style>{_STYLE}</style><body>"
            f"<h1>{name}</h1><table class=passes><tr><th></th><th>pass</th><th>nodes</th><th>after</th><th>ms</th></tr>"
            f"{''.join(table)}</table><h2>The graph</h2><details><summary>as it was given</summary><div><pre>{html.escape(first)}"
            f"</pre></div></details><h2>Pass by pass</h2>{''.join(sections)}</body></html>\n")
    with open(path, "w", encoding="utf-8") as out:
        out.write(page)
    return os.fspath(path)
