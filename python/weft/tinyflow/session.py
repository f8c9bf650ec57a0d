"""Sessions: programs of what is fetched, over one store of variables."""

from __future__ import annotations

import os
import warnings
from typing import Any, Mapping, Sequence

import numpy as np

import weft
from weft.tinyflow.graph import Lowering
from weft.tinyflow.symbol import Assign, Many, Placeholder, Shape, Source, Symbol, Variable

# As the command tinyflow does: threads that wait let others work soon. Has an effect where OpenMP is not loaded yet.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def _backend(words: str) -> str:
    device, *others = words.split() or ["cpu"]
    if device not in ("cpu", "gpu") or others not in ([], ["fusion"]):
        raise weft.UsageError(f"a session runs on 'cpu', 'cpu fusion', 'gpu' or 'gpu fusion', not on {words!r}")
    if device == "gpu":
        try:
            weft.compile(weft.Graph.parse("weft 1\ngraph (%x: f32[1]) -> (%y) {\n  %y = Exp(%x) : ?\n}\n"), backend="cuda")
            return "cuda"
        except (weft.UnsupportedError, weft.DeviceError) as error:
            warnings.warn(f"there is no GPU to run on, so the session is on the CPU: {error}", stacklevel=3)
    return "cpu"


class Session:
    """Runs symbols: `Session()`, `Session('gpu fusion')`, `Session(config='gpu')`, `Session(device='gpu')`. Kernels are always
    fused. Where there is no GPU, it warns and runs on the CPU."""

    def __init__(self, config: str = "cpu", *, device: str | None = None) -> None:
        self.backend, self.store = _backend(device or config), weft.VariableStore()
        self._fixed: set[Any] = set()
        self._programs: dict[Any, tuple[weft.Session, list[Placeholder | Source]]] = {}

    def run(self, fetches: Symbol | Sequence[Symbol], feed_dict: Mapping[Any, Any] | None = None) -> Any:
        """The value of a symbol, or a list of those of several; None for a group."""
        wanted = [fetches] if isinstance(fetches, Symbol) else list(fetches)
        if all(self._direct(s) for s in wanted):
            results = [self._do(s) for s in wanted]
        else:
            feeds = {p: np.asarray(value, np.float32) for p, value in (feed_dict or {}).items()}
            session, inputs = self._program(wanted, feeds)
            got = iter(session.run(*(s.fill(s.shape or ()) if isinstance(s, Source) else feeds[s] for s in inputs)))
            results = [None if isinstance(s, Many) else next(got) for s in wanted]
        return results[0] if isinstance(fetches, Symbol) else results

    def _program(self, wanted: list[Symbol], feeds: Mapping[Any, Any]) -> tuple[weft.Session, list[Placeholder | Source]]:
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

    def _compiled(self, wanted: list[Symbol], dims: Mapping[Any, Any]) -> tuple[weft.Session, list[Placeholder | Source]]:
        key = (*wanted, *dims.items())
        if key not in self._programs:
            made = Lowering(wanted, dims, self._shape)
            absent = [v for v in made.states if v.name not in self.store]
            missing = [v.name for v in absent if v in made.values]  # others are written only
            if missing:
                raise weft.BindingError(f"variables without a value: {', '.join(missing)}; run initialize_all_variables() or assign them")
            for v in absent:
                v.shape, self.store[v.name] = made.shapes[v], np.zeros(made.shapes[v], np.float32)
            self._programs[key] = weft.Session(weft.compile(made.graph, backend=self.backend), self.store), made.inputs
        return self._programs[key]

    def _shape(self, v: Variable) -> Shape | None:
        return self.store[v.name].shape if v.name in self.store else v.shape

    def _direct(self, s: Symbol) -> bool:
        """Whether no program is needed."""
        if isinstance(s, Assign):
            return isinstance(s.inputs[0], Source) and (s.inputs[0].like is None or isinstance(s.inputs[0].like, Variable))
        return isinstance(s, Variable) or isinstance(s, Many) and all(self._direct(i) for i in s.inputs)

    def _do(self, s: Symbol) -> Any:
        if isinstance(s, Assign):
            source, v = s.inputs[0], s.target
            shape, before = source.shape if source.like is None else self._shape(source.like), self._shape(v)
            if shape is None or before not in (None, shape):
                raise weft.ShapeError(f"variable {v.name!r}: the shape {before} is known, and {shape} is assigned",
                                      hint="infer_variable_shapes, or a first value, makes a shape known")
            v.shape, self.store[v.name] = shape, source.fill(shape)
        elif isinstance(s, Many):
            for i in s.inputs:
                self._do(i)
            return None
        elif s.name not in self.store:
            raise weft.BindingError(f"variable {s.name!r} has no value: run initialize_all_variables() or assign it one")
        return self.store[s.target.name if isinstance(s, Assign) else s.name]
