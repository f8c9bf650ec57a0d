"""CPU seconds of an export: blocks of a transformer, weights written, beside torch.onnx."""

from __future__ import annotations

import pathlib
import tempfile
import time
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
