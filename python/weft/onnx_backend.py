"""ONNX's Backend interface (onnx.backend.base): models and single nodes, prepared and run by Weft.

    import onnx
    from weft import onnx_backend

    rep = onnx_backend.prepare(onnx.load("net.onnx"))
    [y] = rep.run([x])

The module is a backend itself, as onnx.backend.test.BackendTest takes one. Devices are 'CPU', 'CUDA' and 'CUDA:1'. Needs onnx.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.backend.base as base
from onnx import helper

import weft

__all__ = ["Backend", "BackendRep", "is_compatible", "prepare", "run_model", "run_node", "supports_device", "why_incompatible"]


class BackendRep(base.BackendRep):  # type: ignore[misc]
    """A model that is compiled. To be run by one thread at a time."""

    def __init__(self, program: weft.Program) -> None:
        self.program = program
        self._session = weft.Session(program)
        self._results: type[tuple[Any, ...]] = base.namedtupledict("Outputs", [o.name for o in program.outputs])

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs it: `inputs` in the order of the model's, or a dict by name. The results can be asked for by name, too.

        Sequences are lists, an empty optional is None.
        """
        if kwargs:
            raise weft.UsageError(f"unknown arguments: {', '.join(sorted(kwargs))}")
        if isinstance(inputs, Mapping):
            results = self._session.run(dict(inputs))
        elif isinstance(inputs, (list, tuple)):
            results = self._session.run(*inputs)
        else:
            results = self._session.run(inputs)
        return self._results(*results)


class Backend(base.Backend):  # type: ignore[misc]
    """Weft, as a backend of ONNX. Keyword arguments that ONNX does not name are those of `weft.compile`."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> BackendRep:
        """Compiles an onnx.ModelProto, its bytes or a path. Raises a weft.Error that names what cannot be run."""
        return BackendRep(weft.compile(model, backend=_backend_of(device), **kwargs))

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Compiles a model, and runs it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Runs one operator on arrays: one for each operand that the node names, or a dict by name.

        `opset_version` is that of the node's domain, by default the newest. Dtypes and shapes of results are inferred, so
        `outputs_info` is not needed, and not read.
        """
        version = kwargs.pop("opset_version", None)
        names = [name for name in dict.fromkeys(node.input) if name]
        given = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(_each_once(node, inputs), inputs))
        missing = [name for name in names if name not in given]
        if missing:
            raise weft.BindingError(f"node '{node.op_type}' has no array for its operand '{missing[0]}'")
        graph = helper.make_graph(
            [node], node.op_type,
            [helper.make_value_info(name, _type_of(given[name])) for name in names],
            [onnx.ValueInfoProto(name=name) for name in node.output if name])
        opsets = {"": onnx.defs.onnx_opset_version(), node.domain: version or _newest(node.domain)}
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in opsets.items()])
        return cls.run_model(model, {name: given[name] for name in names}, device, **kwargs)

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether `prepare` takes the model."""
        return cls.why_incompatible(model, device, **kwargs) == ""

    @classmethod
    def why_incompatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> str:
        """What `prepare` has against the model; empty: nothing."""
        try:
            weft.compile(model, backend=_backend_of(device), **kwargs)
        except weft.Error as error:
            return str(error)
        return ""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether this machine has the device, and Weft runs on it."""
        try:
            return _has(_backend_of(device))
        except weft.UsageError:
            return False


def _backend_of(device: str) -> str:
    kind, _, number = device.partition(":")
    if kind not in ("CPU", "CUDA") or (number and not (kind == "CUDA" and number.isdecimal())):
        raise weft.UsageError(f"unknown device '{device}'", hint="'CPU', 'CUDA' or 'CUDA:1'")
    return device.lower()


@functools.lru_cache(maxsize=None)
def _has(backend: str) -> bool:
    graph = weft.Graph()
    x = graph.input("x", "f32", [1])
    graph.outputs = [x + x]
    try:
        weft.Session(weft.compile(graph, backend=backend))
    except weft.Error:
        return False
    return True


def _each_once(node: onnx.NodeProto, arrays: Sequence[Any]) -> list[str]:
    """The operands that the arrays stand for: those that are named, also where one is named twice."""
    names = [name for name in node.input if name]
    once = list(dict.fromkeys(names))
    if len(arrays) not in (len(names), len(once)):
        raise weft.BadInputError(f"node '{node.op_type}' names {len(once)} operands, and {len(arrays)} arrays are given")
    return names if len(arrays) == len(names) else once


def _type_of(value: Any) -> onnx.TypeProto:
    if isinstance(value, (list, tuple)):
        if not value:
            raise weft.BadInputError("of an empty sequence nobody knows the dtype; run a model that declares it")
        return helper.make_sequence_type_proto(_type_of(value[0]))
    array = np.asarray(value)
    dtype = np.dtype(object) if array.dtype.kind in "US" else array.dtype
    # Of sequences the elements may have different shapes, so none is promised but the rank's.
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype), [None] * array.ndim)


@functools.lru_cache(maxsize=None)
def _newest(domain: str) -> int:
    if domain in ("", "ai.onnx"):
        return int(onnx.defs.onnx_opset_version())
    versions = [s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.domain == domain]
    return max(versions, default=1)


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
why_incompatible = Backend.why_incompatible
