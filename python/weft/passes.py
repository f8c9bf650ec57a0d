"""What is known of passes: `weft.passes.list()`, `weft.passes.describe("Fusion")`. They are applied by `weft.apply_passes`."""

from __future__ import annotations

import builtins
from dataclasses import dataclass, field

from weft import _weft
from weft.errors import UnknownPassError


@dataclass(frozen=True)
class PassOption:
    """An option of a pass and its default."""

    name: str
    default: bool | int | float | str
    doc: str


@dataclass(frozen=True)
class PassInfo:
    """A registered pass: what it needs, gives and takes."""

    name: str
    doc: str
    changes_graph: bool
    depends: builtins.list[str]
    provides: builtins.list[str]
    preserves: builtins.list[str]
    options: builtins.list[PassOption]
    statistics: dict[str, str] = field(repr=False)
    owner: str


def _all() -> dict[str, PassInfo]:
    return {p["name"]: PassInfo(**{**p, "options": [PassOption(**o) for o in p["options"]]}) for p in _weft._list_passes()}


def list() -> builtins.list[str]:  # noqa: A001
    """Names of all passes."""
    return sorted(_all())


def describe(name: str) -> PassInfo:
    """What a pass does, depends on and provides."""
    known = _all()
    if name not in known:
        from difflib import get_close_matches

        near = get_close_matches(name, known, 3)
        raise UnknownPassError(f"there is no pass '{name}'", "WEFT-E0102", "", f"did you mean {', '.join(near)}?" if near else "")
    return known[name]
