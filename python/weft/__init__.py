"""Weft: a graph compiler.

    import numpy as np
    import weft

    g = weft.Graph()
    a, b = g.input("a", "f32", [8]), g.input("b", "f32", [8])
    g.outputs = [(a + b) * a]

    session = weft.Session(weft.compile(g))
    [y] = session.run(np.ones(8, "f4"), np.ones(8, "f4"))

`weft.ops` has the operators, `weft.passes` what is known of passes; `weft.load` reads models.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Iterable, overload

from weft import errors as errors
from weft import expr as expr
from weft import ops as ops
from weft import passes as passes
from weft._types import LimitsLike, ModelLike, PathLike, PipelineLike
from weft._weft import (
    Entry, Expr, Finding, Graph, GradientSplit, IoSpec, Node, PassRecord, PendingRun, PluginInfo, Program, Session, StepTime,
    Tensor, VariableStore, abi_id, apply_passes, default_limits, dtype_of, gradients, load_plugin,
    load_program, loaded_plugins, numpy_dtype, resolve_pipeline, save, split_gradient, standard_pipeline,
)
from weft._weft import _compile, _export_onnx
from weft._weft import load as _load
from weft._weft import version as __version__
from weft.define import Operator, PassContext, RewriteFacts, op, register_pass
from weft.errors import *  # noqa: F403
from weft.errors import Error
from weft.report import report

__all__ = [
    "Entry", "Error", "Expr", "Finding", "Graph", "GradientSplit", "IoSpec", "Node", "Operator", "PassContext", "PassRecord",
    "PendingRun", "PluginInfo", "Program", "RewriteFacts", "Session", "StepTime", "Tensor", "VariableStore", "__version__",
    "abi_id", "apply_passes", "compile", "default_limits", "dtype_of", "errors", "export_onnx", "expr", "gradients", "load",
    "load_plugin", "load_program", "loaded_plugins", "numpy_dtype", "op", "ops", "passes", "register_pass", "report",
    "resolve_pipeline", "save", "split_gradient", "standard_pipeline",
]
__all__ += errors.__all__


def load(model: ModelLike, format: str = "", *, limits: LimitsLike | None = None, strict: bool = False,  # noqa: A002
         allow_unsupported: bool = False, overridable: Sequence[str] = (), external_data_dir: PathLike | None = None,
         findings: list[Finding] | None = None) -> Graph:
    """A graph from a file, from the bytes of one, or from an onnx.ModelProto.

    Formats are 'onnx', 'weft', 'json' and protobuf's text forms; by default that of the path's extension, of bytes 'onnx'.
    PyTorch's `.pt2` files are read as well. `overridable` names initializers of an ONNX model that become inputs; with
    `allow_unsupported` operators that Weft lacks become inputs too. `findings` is a list that gets what the import has to say.
    """
    if isinstance(model, (str, os.PathLike)) and not format and os.fspath(model).endswith(".pt2"):
        from weft.torch import export

        return export(model).graph
    return _load(model, format, limits=limits, strict=strict, allow_unsupported=allow_unsupported, overridable=overridable,
                 external_data_dir=external_data_dir, findings=findings)


def compile(  # noqa: A001: the word of the field
    model: Graph | ModelLike,
    *,
    backend: str = "",
    pipeline: PipelineLike | None = None,
    fusion: bool = True,
    threads: int = 0,
    tune: bool = False,
    tf32: bool = False,
    limits: LimitsLike | None = None,
    strict: bool = False,
    checks: str | Iterable[str] | None = None,
    dump_dir: PathLike | None = None,
    steady: Iterable[str] = (),
    memory_budget: int | str | None = None,
    hints: Mapping[str, int] | None = None,
    feedback: Iterable[str] = (),
) -> Program:
    """Makes a program of a graph, or of a model that `load` reads.

    `backend` is 'cpu' (by default), 'ref', 'cuda', 'cuda:1' ...; `pipeline` stands for its own passes; without `fusion` there
    is one operator a kernel. `threads` is what the program uses, 0 all that the process may. With `tune` library calls are
    chosen by timing; with `tf32` a GPU may round operands of products to 10 bits.
    `steady` names inputs that rarely change, such as weights: sessions pack them once, and again when they lie elsewhere or
    are tensors of another `version`.
    `memory_budget` bounds what a run adds to memory: bytes, '300M', '50%' (of what it takes where nothing is computed twice) or
    'min'. A run that cannot keep it raises weft.OutOfMemoryError before it begins; no bit of a result changes. `hints` are likely
    values of symbols, which plans are made for.
    `feedback` names outputs that are what an input is in the next run, 'present=past', or 'auto': all that are rows behind those
    of an input. Both stay in the session; how many rows there are is fed as a number where no other input tells it.
    """
    graph = model if isinstance(model, Graph) else load(model, limits=limits)
    return _compile(graph, backend=backend, pipeline=pipeline, fusion=fusion, threads=threads, tune=tune, tf32=tf32,
                    limits=limits, strict=strict, checks=checks, dump_dir=dump_dir, steady=list(steady),
                    memory_budget="" if memory_budget is None else str(memory_budget), hints=dict(hints or {}),
                    feedback=list(feedback))


@overload
def export_onnx(graph: Graph, path: None = None, *, external: str = ..., external_bytes: int = ..., value_info: str = ...,
                allow_custom_ops: bool = ..., limits: LimitsLike | None = ...) -> bytes: ...
@overload
def export_onnx(graph: Graph, path: PathLike, *, external: str = ..., external_bytes: int = ..., value_info: str = ...,
                allow_custom_ops: bool = ..., limits: LimitsLike | None = ...) -> None: ...
def export_onnx(graph: Graph, path: PathLike | None = None, *, external: str = "auto", external_bytes: int = 4096,
                value_info: str = "known", allow_custom_ops: bool = False, limits: LimitsLike | None = None) -> bytes | None:
    """Writes a graph of any stage as an ONNX model: to a file, or without a path to bytes.

    Tensors of `external_bytes` and more go beside the model where `external` is 'always', or ('auto') where it would not fit
    else. `value_info` says for which values in between dtypes and shapes are written: 'known', 'declared' or 'none'.
    """
    return _export_onnx(graph, path, external=external, external_bytes=external_bytes, value_info=value_info,
                        allow_custom_ops=allow_custom_ops, limits=limits)


MutableMapping.register(VariableStore)
