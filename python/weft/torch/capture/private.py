"""Everything of torch that torch does not promise to keep, in one place.

Whoever needs a private name of torch takes it from here. Versions that nobody has tested are
refused: a private name that still exists may mean something else.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch
import torch.compiler
import torch.fx.experimental.symbolic_shapes as symbolic_shapes
from torch._guards import Source as _GuardSource
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "DATA_DEPENDENT",
    "FakeTensor",
    "FakeTensorMode",
    "TorchDispatchMode",
    "check_version",
    "create_symbol",
    "exporting",
    "fact_places",
    "key_path_names",
    "new_shape_env",
    "pytree",
    "size_text",
]

TESTED = ((2, 15),)

# What a run on FakeTensors raises where the model reads a number out of its data.
DATA_DEPENDENT: tuple[type[Exception], ...] = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    symbolic_shapes.GuardOnDataDependentSymNode,
)


def check_version() -> None:
    """Refuses a torch whose private names nobody has tried."""
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version in TESTED or os.environ.get("WEFT_TORCH_UNTESTED") == "1":
        return
    tested = ", ".join(".".join(map(str, v)) for v in TESTED)
    raise ImportError(
        f"torch {torch.__version__} is not tested with weft.torch, which reads private names of "
        f"torch; tested: {tested} (WEFT_TORCH_UNTESTED=1 tries it all the same)"
    )


@contextlib.contextmanager
def exporting() -> Iterator[None]:
    """Models that ask whether they are being traced are told so, and do not branch on data."""
    module: Any = torch.compiler
    before = module._is_compiling_flag, module._is_exporting_flag
    module._is_compiling_flag = module._is_exporting_flag = True
    try:
        yield
    finally:
        module._is_compiling_flag, module._is_exporting_flag = before


class _Named(_GuardSource):
    """The source of a symbol: its name. torch's own would import dynamo, which takes a second."""

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "text", text)

    @property
    def _name_template(self) -> str:
        return self.text

    @property
    def name(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named) and other.text == self.text

    def is_ephemeral(self) -> bool:
        return False


def new_shape_env() -> Any:
    return symbolic_shapes.ShapeEnv()


def create_symbol(
    shape_env: Any, name: str, example: int, low: int, high: int | None
) -> tuple[str, torch.SymInt]:
    """A size that is `example` in this run: the name torch prints for it, and the size."""
    source = _Named(name)
    symbol = shape_env.create_symbol(
        example, source, dynamic_dim=symbolic_shapes.DimDynamic.DYNAMIC
    )
    size: Any = shape_env.create_symintnode(symbol, hint=example, source=source)
    if low > 2 or high is not None:
        bounds = {"min": max(low, 2)} | ({} if high is None else {"max": high})
        symbolic_shapes._constrain_range_for_size(size, **bounds)
    return str(symbol), size


def size_text(size: Any) -> str:
    """The expression of a SymInt, after what was decided about its symbols."""
    node = size.node
    return str(node.shape_env.simplify(node.expr))


def fact_places(shape_env: Any) -> Iterator[tuple[str, str | None, tuple[str, int, str] | None]]:
    """What the run has decided about symbols: the fact, the symbol that became a number, where."""
    frozen = {str(s): str(e) for s, e in shape_env.replacements.items() if e.is_number}
    for guard in shape_env.guards:
        symbols = sorted(str(s) for s in guard.expr.free_symbols)
        decided = next((s for s in symbols if s in frozen), None)
        yield str(guard.expr), decided, _user_place(guard.sloc)


def _user_place(sloc: Any) -> tuple[str, int, str] | None:
    text = sloc.maybe_user_loc
    if not text:
        return None
    # "file.py:12 in forward"
    file, _, rest = text.rpartition(":")
    line, _, function = rest.partition(" in ")
    return file, int(line), function


def key_path_names(tree: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Leaves of nested tuples, lists, dicts and registered containers, each with its keys."""
    leaves, _ = pytree.tree_flatten_with_path(tree)
    return [(tuple(_key_text(k) for k in path), leaf) for path, leaf in leaves]


def _key_text(key: Any) -> Any:
    for attribute in ("idx", "key", "name"):
        if hasattr(key, attribute):
            return getattr(key, attribute)
    return str(key)
