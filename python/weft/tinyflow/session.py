"""Sessions: programs of what is fetched, over one store of variables."""

from __future__ import annotations

import os
import warnings
from typing import Any, Mapping, Sequence

import numpy as np

import weft
from weft.tinyflow.graph import lower, shape_of
from weft.tinyflow.symbol import Symbol, draws, written

# As the command tinyflow does: threads that wait let others work soon. Has an effect where OpenMP is not loaded yet.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def _backend(words: str) -> str:
    if words not in ("cpu", "cpu fusion", "gpu", "gpu fusion"):
        raise weft.UsageError(f"a session runs on 'cpu', 'cpu fusion', 'gpu' or 'gpu fusion', not on {words!r}")
    if words.startswith("gpu"):
        try:
            weft.compile(weft.Graph.parse("weft 1\ngraph (%x: f32[1]) -> (%y) {\n  %y = Exp(%x) : ?\n}\n"), backend="cuda")
            return "cuda"
        except (weft.UnsupportedError, weft.DeviceError) as error:
            warnings.warn(f"there is no GPU to run on, so the session is on the CPU: {error}", stacklevel=3)
    return "cpu"


def _is_read(variable: Symbol, graph: weft.Graph) -> bool:
    """Its content is, not its shape alone."""
    uses = [(u.op, slot) for u in variable.node.users for slot, e in enumerate(u.inputs) if e == variable]
    return variable in graph.outputs or any(use not in (("weft::Assign", 0), ("Shape", 0)) for use in uses)


class Session:
    """Runs symbols: `Session()`, `Session('gpu fusion')`, `Session(config='gpu')`, `Session(device='gpu')`; always by fused kernels."""

    def __init__(self, config: str = "cpu", *, device: str | None = None) -> None:
        self.backend, self.store = _backend(device or config), weft.VariableStore()
        self._fixed: set[Any] = set()
        self._programs: dict[Any, tuple[weft.Session, list[Symbol], list[bool]]] = {}

    def run(self, fetches: Symbol | Sequence[Symbol], feed_dict: Mapping[Any, Any] | None = None) -> Any:
        """The value of a symbol, or a list of those of several; None for a group."""
        wanted = [fetches] if isinstance(fetches, Symbol) else list(fetches)
        feeds = {p: np.asarray(value, np.float32) for p, value in (feed_dict or {}).items()}
        session, inputs, are_groups = self._program(wanted, feeds)
        got = session.run(*[feeds[s] if s in feeds else draws[s]() for s in inputs])
        results = [None if is_group else value for value, is_group in zip(got, are_groups)]
        return results[0] if isinstance(fetches, Symbol) else results

    def _program(self, wanted: list[Symbol], feeds: Mapping[Any, Any]) -> tuple[weft.Session, list[Symbol], list[bool]]:
        # Equal first extents are one symbol, so that batches of any size have one program.
        sizes: dict[int, str] = {}
        dims = {}
        for p, value in feeds.items():
            shape, said = value.shape, p.shape or (None,) * value.ndim
            if len(shape) != len(said) or any(n not in (None, m) for n, m in zip(said, shape)):
                raise weft.ShapeError(f"{p.name!r} has the shape {list(said)}, and {list(shape)} is fed")
            free = shape and shape[0] != 1 and said[0] is None
            dims[p] = (sizes.setdefault(shape[0], f"n{len(sizes)}"), *shape[1:]) if free else shape
        if (*wanted, *dims.items()) not in self._fixed:
            try:
                return self._compiled(wanted, dims)
            except weft.ShapeError:  # a first extent that has to be a certain number
                self._fixed.add((*wanted, *dims.items()))
        return self._compiled(wanted, {p: value.shape for p, value in feeds.items()})

    def _compiled(self, wanted: list[Symbol], dims: Mapping[Any, Any]) -> tuple[weft.Session, list[Symbol], list[bool]]:
        key = (*wanted, *dims.items())
        if key not in self._programs:
            graph = lower(wanted, dims, lambda name: self.store[name].shape if name in self.store else None)
            absent = {v.name: shape_of(v) for v in graph.states if v.name not in self.store}
            missing = [v.name for v in graph.states if v.name in absent and _is_read(v, graph)]
            if missing:
                raise weft.BindingError(f"variables without a value: {', '.join(missing)}; run initialize_all_variables() or assign them")
            self.store.update({name: np.zeros(shape, np.float32) for name, shape in absent.items()})
            session = weft.Session(weft.compile(graph, backend=self.backend), self.store)
            self._programs[key] = session, [written.at(e) for e in graph.inputs], [s.node.op == "weft::Group" for s in wanted]
        return self._programs[key]
