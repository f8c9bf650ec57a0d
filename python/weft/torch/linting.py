"""`lint`: everything that stands between a model and its graph, by the user's file and line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.torch.exporting import written_sources
from weft.torch.graph import GraphBuilder
from weft.torch.record import Record
from weft.torch.translate.core import Rule, Translation

_PLACE = re.compile(r"(?:^| at )(\S+:\d+) \((\S+)\)")


@dataclass(frozen=True, slots=True)
class Obstacle:
    """`kind` is "operator", "specialization", "data-dependent", "function" or "capture"."""

    kind: str
    message: str
    place: str  # "file.py:12", or ""

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


def lint(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    gradients: bool = False,
    rules: Mapping[str, Rule] | None = None,
) -> list[Obstacle]:
    """All obstacles to an export, none where it works. Where the capture itself ends early, what
    ended it is the only one that is known."""
    from weft.torch.capture import private, recorder
    from weft.torch.exporting import capture

    try:
        captured = capture(model, args, kwargs, dynamic_shapes, gradients=gradients)
    except recorder.CustomFunction as error:
        return [_obstacle("function", str(error))]
    except Exception as error:  # whatever the user's code or torch raises
        read: tuple[type[BaseException], ...] = (recorder.NeedsExport, *private.DATA_DEPENDENT)
        kind = "data-dependent" if isinstance(error, read) else "capture"
        text = str(error).strip().splitlines() or [""]
        return [Obstacle(kind, f"{type(error).__name__}: {text[0]}", _raised_at(error))]
    return find_obstacles(captured.record, captured.tensors, rules)


def find_obstacles(
    record: Record, tensors: Mapping[str, Any], rules: Mapping[str, Rule] | None = None
) -> list[Obstacle]:
    """Those of a record; needs no torch."""
    found = [
        Obstacle(
            "specialization",
            f"'{s.symbol}' is fixed: {s.fact}",
            f"{s.place.file}:{s.place.line}" if s.place else "",
        )
        for s in record.specializations
        if s.symbol is not None
    ]
    builder = GraphBuilder(tensors, written_sources(record))
    translation = Translation(record, builder, rules)
    translation.sources()
    for text in dict.fromkeys(translation.obstacles()):
        found.append(_obstacle("operator", text))
    return found


def _obstacle(kind: str, text: str) -> Obstacle:
    match = _PLACE.search(text)
    return Obstacle(kind, text, match[1] if match else "")


def _raised_at(error: BaseException) -> str:
    """The innermost frame that is neither torch's nor Weft's."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "/torch/" not in file and "/weft/" not in file and not file.startswith("<"):
            place = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
