"""What the tests share."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import unittest
from typing import Any

import numpy as np
from numpy.typing import NDArray

import weft

Array = NDArray[Any]

# A build without a compiler (tools/sanitize python) has no other backend than 'ref'.
BACKEND = os.environ.get("WEFT_TEST_BACKEND", "")
if BACKEND:
    _compile = weft.compile

    def _compile_there(model: Any, **options: Any) -> weft.Program:
        return _compile(model, **{"backend": BACKEND, **options})

    weft.compile = _compile_there

# Kernels are looked at, or are needed to be done before long.
needs_kernels = unittest.skipIf(BACKEND == "ref", "without a compiler of kernels")


def example() -> weft.Graph:
    """(a + b) * a on 8 numbers."""
    g = weft.Graph("example")
    a, b = g.input("a", "f32", [8]), g.input("b", "f32", [8])
    g.outputs = {"y": (a + b) * a}
    return g


def session_of(graph: weft.Graph, **options: Any) -> weft.Session:
    return weft.Session(weft.compile(graph, **options))


def unary(op: str, dtype: str, shape: Any, **attributes: Any) -> weft.Session:
    g = weft.Graph()
    x = g.input("x", dtype, shape)
    g.outputs = [weft.ops.get(op)(x, **attributes)]
    return session_of(g)


def floats(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def run_script(text: str, timeout: float = 120) -> "subprocess.CompletedProcess[str]":
    """A program of its own, with this one's path."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
    first = "import common\n" if BACKEND else ""
    return subprocess.run([sys.executable, "-c", first + textwrap.dedent(text)], capture_output=True, text=True, timeout=timeout,
                          env=environment, check=False)
