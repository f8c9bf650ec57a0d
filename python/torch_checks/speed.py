"""CPU seconds of an export: blocks of a transformer, weights written, beside torch.onnx."""

from __future__ import annotations

import math
import pathlib
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

import weft.torch


class Block(torch.nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, d = x.shape
        parts = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, d))
        result: torch.Tensor = x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))
        return result


def model(layers: int) -> torch.nn.Module:
    return torch.nn.Sequential(*[Block(256, 4) for _ in range(layers)]).eval()


def dims() -> Any:
    return ({0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")},)


def least(run: Callable[[], None], times: int) -> float:
    best = float("inf")
    for _ in range(times):
        began = time.process_time()
        run()
        best = min(best, time.process_time() - began)
    return best


def weft_seconds(layers: int, tokens: int, dynamic: bool, times: int = 3) -> float:
    module, x = model(layers), torch.randn(2, tokens, 256)
    shapes = dims() if dynamic else None
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "m.onnx"
        weft.torch.export(model(1), (x,), dynamic_shapes=shapes)  # imports
        return least(
            lambda: weft.torch.export(module, (x,), dynamic_shapes=shapes).save(path), times
        )


def torch_seconds(layers: int, tokens: int, dynamic: bool) -> float:
    module, x = model(layers), torch.randn(2, tokens, 256)
    shapes = dims() if dynamic else None
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "m.onnx"

        def run(m: torch.nn.Module) -> None:
            program: Any = torch.onnx.export(
                m, (x,), dynamo=True, dynamic_shapes=shapes, verbose=False
            )
            program.save(path)

        run(model(1))
        return least(lambda: run(module), 1)


LAYERS = (6, 12, 24, 48, 96)


def layers_exponent(dynamic: bool) -> tuple[float, list[float]]:
    """The slope of CPU seconds over layers, both as logarithms, by least squares; and the seconds."""
    seconds = [weft_seconds(n, 16, dynamic) for n in LAYERS]
    x, y = [math.log(n) for n in LAYERS], [math.log(s) for s in seconds]
    mx, my = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mx) * (b - my) for a, b in zip(x, y)) / sum((a - mx) ** 2 for a in x)
    return slope, seconds


class Literal(torch.nn.Module):
    """Makes one tensor of numbers, and computes with it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tensor([1.0, 2.0])


# Calls that compute nothing: they give another view, or another name, of memory that is there.
_NAMES_ONLY = frozenset("detach alias lift_fresh view _unsafe_view".split())


class Kernels(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc,unused-ignore]
    """Counts calls with tensors that have memory, below FakeTensors: entered before they are."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        parts = result if isinstance(result, (list, tuple)) else (result,)
        real = [p for p in parts if isinstance(p, torch.Tensor) and p.device.type != "meta"]
        fake = torch._subclasses.fake_tensor.FakeTensor
        name = str(func).split(".")[1]
        if any(not isinstance(p, fake) for p in real) and name not in _NAMES_ONLY:
            self.found[str(func)] += 1
        return result


def counting_works() -> bool:
    """That an eager run is counted, and of an export the making of a literal alone."""
    module, x = Literal(), torch.randn(3, 2)
    with Kernels() as eager:
        module(x)
    with Kernels() as exporting:
        weft.torch.export(module, (x,))
    print(f"eager {dict(eager.found)}, export {dict(exporting.found)}", end=" ")
    return "aten.add.Tensor" in eager.found and "aten.add.Tensor" not in exporting.found


def kernels(layers: int, dynamic: bool) -> Counter[str]:
    """What torch computes while a model is exported and written."""
    module, x = model(layers), torch.randn(2, 16, 256)
    with tempfile.TemporaryDirectory() as folder, Kernels() as counted:
        exported = weft.torch.export(module, (x,), dynamic_shapes=dims() if dynamic else None)
        exported.save(pathlib.Path(folder) / "m.onnx")
    return counted.found


_MEASURE = """
import pathlib, sys, tempfile
import torch, weft.torch, speed
def peak():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(l.split()[1]) for l in lines if l.startswith("VmHWM")) * 1024
module, x = speed.model(int(sys.argv[1])), torch.randn(2, 16, 256)
with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "m.onnx"
    weft.torch.export(speed.model(1), (x,)).save(path)  # imports
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    weft.torch.export(module, (x,)).save(path)
    parameters = sum(p.numel() * p.element_size() for p in module.parameters())
    print((peak() - before) / parameters)
"""


def memory_share(layers: int) -> float:
    """What the peak of an export's memory is above that before it, over the parameters' size."""
    made = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(layers)],
        capture_output=True,
        text=True,
        check=True,
        cwd=pathlib.Path(__file__).parent,
    )
    return float(made.stdout.split()[-1])
