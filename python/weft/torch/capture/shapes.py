"""Which sizes of the inputs are symbols: torch.export's `dynamic_shapes`, read.

Inputs that share a `Dim` (or a name) share a symbol, so that no comparison of two inputs pins one
to the example's number. Derived dimensions (`2 * n + 1`) are expressions over their root.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from weft.torch.capture import private
from weft.torch.record import Symbol


class DynamicShapes:
    def __init__(self, shape_env: Any, spec: Any) -> None:
        self._env = shape_env
        self._spec = spec
        self._sizes: dict[str, torch.SymInt] = {}
        self._bounds: dict[str, tuple[int, int | None]] = {}
        # torch's name of a symbol -> the user's.
        self.names: dict[str, str] = {}

    def sizes(self, path: tuple[Any, ...], shape: Sequence[int]) -> list[int | torch.SymInt]:
        """Sizes of an input whose example has `shape`."""
        dims = _dims_at(self._spec, path)
        return [self._size(dims.get(i), n, path, i) for i, n in enumerate(shape)]

    def symbols(self) -> list[Symbol]:
        return [Symbol(name, low, high) for name, (low, high) in self._bounds.items()]

    def _size(self, dim: Any, example: int, path: tuple[Any, ...], axis: int) -> int | torch.SymInt:
        if dim is None or isinstance(dim, int):
            return example
        if isinstance(dim, str):
            return self._symbol(dim, example, 0, None)
        root = getattr(dim, "root", None)
        if root is not None:
            return self._derived(dim, root, example)
        name = getattr(dim, "__name__", None)
        if name is None:  # a hint: AUTO, DYNAMIC, STATIC
            if getattr(getattr(dim, "type", None), "name", "") == "STATIC":
                return example
            label = "_".join(str(part) for part in path)
            return self._symbol(f"{label}_{axis}", example, dim.min or 0, dim.max)
        high = dim.max if isinstance(dim.max, int) else None
        return self._symbol(name, example, int(dim.min), high)

    def _derived(self, dim: Any, root: Any, example: int) -> torch.SymInt:
        name = root.__name__
        if name not in self._sizes:
            # fn is a*x + b with integers; solved for x at the example.
            offset = dim.fn(0)
            factor = dim.fn(1) - offset
            value, rest = divmod(example - offset, factor)
            if rest:
                raise ValueError(f"{example} is not {dim.__name__} for any integer {name}")
            self._size(root, value, (), 0)
        size: torch.SymInt = dim.fn(self._sizes[name])
        return size

    def _symbol(self, name: str, example: int, low: int, high: int | None) -> torch.SymInt:
        if not name.isidentifier():
            raise ValueError(f"'{name}' is not a name for a dimension")
        if name not in self._sizes:
            torch_name, size = private.create_symbol(self._env, name, example, low, high)
            self._sizes[name] = size
            self._bounds[name] = (low, high)
            self.names[torch_name] = name
        return self._sizes[name]


def _dims_at(spec: Any, path: tuple[Any, ...]) -> Mapping[int, Any]:
    """Dimensions of the leaf at `path`: {axis: dim}."""
    at = spec
    for depth, key in enumerate(path):
        if at is None:
            return {}
        if isinstance(at, Mapping):
            at = at.get(key)
        elif isinstance(at, (list, tuple)):
            # Positions of arguments stand for their names at the top.
            if isinstance(key, int) and key < len(at):
                at = at[key]
            elif depth == 0:
                return {}
            else:
                return {}
        else:
            return {}
    if isinstance(at, Mapping):
        return {int(axis): dim for axis, dim in at.items()}
    if isinstance(at, (list, tuple)):
        return dict(enumerate(at))
    return {}
