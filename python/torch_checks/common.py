"""What the checks share: a model on several engines, beside eager torch."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import weft
import weft.torch
from weft.torch.capture.recorder import flatten_inputs, flatten_outputs

Feeds = dict[str, Any]
Arguments = tuple[Sequence[Any], Mapping[str, Any]]


@dataclass(slots=True)
class Difference:
    """The largest distance of all results, in units of the result's size."""

    weft: float
    onnxruntime: float | None


def distance(got: Any, want: Any) -> float:
    """The largest difference, relative to the element or the mean of all, the larger of them."""
    a, b = np.asarray(got), np.asarray(want)
    if a.shape != b.shape or a.dtype != b.dtype:
        raise AssertionError(f"{a.dtype}{a.shape} is not {b.dtype}{b.shape}")
    if a.size == 0:
        return 0.0
    a, b = a.astype(np.float64), b.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    scale = np.abs(b) + max(float(np.nanmean(np.abs(np.where(np.isfinite(b), b, 0)))), 1e-3)
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(a - b) / scale)
    return float("inf") if np.isnan(error).any() else float(error.max())


def feeds_of(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Feeds:
    return {
        name: leaf.numpy()
        for name, _, leaf in flatten_inputs(model, args, kwargs)
        if isinstance(leaf, torch.Tensor)
    }


def expected(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    with torch.no_grad():
        result = model(*args, **kwargs)
    return [leaf.numpy() for _, leaf in flatten_outputs(result) if isinstance(leaf, torch.Tensor)]


def compare(
    model: Any,
    bindings: Sequence[Arguments],
    dynamic_shapes: Any = None,
    onnxruntime: bool = True,
) -> Difference:
    """Exports for the first binding of the dynamic sizes and runs all of them."""
    args, kwargs = bindings[0]
    exported = weft.torch.export(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    graph = exported.graph
    names = [e.name for e in graph.inputs]
    cases = [
        ({n: v for n, v in feeds_of(model, a, k).items() if n in names}, expected(model, a, k))
        for a, k in bindings
    ]
    # One engine after the other: the largest models have gigabytes in each.
    found = Difference(_worst(weft.Session(exported.compile()).run, cases), None)
    if onnxruntime:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "m.onnx"
            weft.export_onnx(graph, path)
            found.onnxruntime = _worst(_onnxruntime(path), cases)
    return found


def _worst(
    run: Callable[[Feeds], Sequence[Any]], cases: Sequence[tuple[Feeds, Sequence[Any]]]
) -> float:
    worst = 0.0
    for feeds, want in cases:
        got = run(feeds)
        if len(got) != len(want):
            raise AssertionError(f"{len(got)} results, {len(want)} wanted")
        for g, w in zip(got, want):
            worst = max(worst, distance(g, w))
    return worst


def _onnxruntime(model: pathlib.Path) -> Callable[[Feeds], Sequence[Any]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = {i.name for i in session.get_inputs()}

    def run(feeds: Feeds) -> Sequence[Any]:
        results: Sequence[Any] = session.run(None, {k: v for k, v in feeds.items() if k in names})
        return results

    return run
