"""`explain`: what torch.compile makes of a model, and what it leaves to torch and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from weft.torch.dynamo import backend
from weft.torch.dynamo.lowering import Lowered


@dataclass(frozen=True, slots=True)
class Left:
    """An operator that torch runs."""

    op: str
    reason: str
    place: str  # "file.py:12 (forward)", or ""


@dataclass(slots=True)
class Explanation:
    graphs: list[Lowered] = field(default_factory=list)

    @property
    def breaks(self) -> int:
        """Times that dynamo had to end a graph and begin another."""
        return max(sum(1 for g in self.graphs if g.kind != "backward") - 1, 0)

    @property
    def nodes(self) -> int:
        """aten operators, of all graphs."""
        return sum(g.nodes for g in self.graphs)

    @property
    def programs(self) -> int:
        return sum(g.programs for g in self.graphs)

    @property
    def left(self) -> list[Left]:
        """Operators that run in torch."""
        return [Left(*row) for g in self.graphs for row in g.left]

    def __str__(self) -> str:
        rows = [
            f"{len(self.graphs)} graphs ({', '.join(g.kind for g in self.graphs)}), "
            f"{self.breaks} breaks: {self.nodes - len(self.left)} of {self.nodes} operators in "
            f"{self.programs} programs"
        ]
        for row, times in Counter(self.left).items():
            place = f"{row.place}: " if row.place and row.place not in row.reason else ""
            rows.append(f"{place}{row.op} (x{times}): {row.reason}")
        return "\n".join(rows)


def explain(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic: bool | None = None,
    options: Mapping[str, Any] | None = None,
) -> Explanation:
    """Compiles a model for these arguments, and runs it once. Where its parameters require
    gradients and grad mode is on, the backward part is among what is told."""

    def compiler(module: torch.fx.GraphModule, example_inputs: Sequence[Any], **_: Any) -> Any:
        return backend.weft(module, example_inputs, options=options, cached=False)

    compiled = torch.compile(model, backend=compiler, dynamic=dynamic)
    with backend.observed.inside() as found:
        compiled(*args, **dict(kwargs or {}))
    return Explanation(found)
