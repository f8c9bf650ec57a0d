"""Speed of torch.compile(backend="weft") beside inductor, rounds of each engine in turn."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Run = Callable[[], Any]
ENGINES = ("eager", "inductor", "weft")


class LeNet(nn.Module):
    """Convolutions of 20 and 50 channels, 500 units, tanh."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.fc1, self.fc2 = nn.Linear(800, 500), nn.Linear(500, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(torch.tanh(self.conv1(x)), 2)
        x = F.max_pool2d(torch.tanh(self.conv2(x)), 2)
        result: torch.Tensor = self.fc2(torch.tanh(self.fc1(x.flatten(1))))
        return result


class _Residual(nn.Module):
    def __init__(self, width: int, out: int, step: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, step, 1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.short: nn.Module = nn.Identity()
        if step != 1 or width != out:
            self.short = nn.Sequential(
                nn.Conv2d(width, out, 1, step, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.short(x))


class ResNet20(nn.Module):
    """He et al. 2015 for pictures of 32 x 32, projections as shortcuts."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        blocks = []
        width = 16
        for out, step in ((16, 1), (32, 2), (64, 2)):
            for k in range(3):
                blocks.append(_Residual(width, out, step if k == 0 else 1))
                width = out
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.blocks(F.relu(self.norm(self.conv(x))))
        result: torch.Tensor = self.head(y.mean((2, 3)))
        return result


def _compiled(function: Any, engine: str) -> Any:
    return function if engine == "eager" else torch.compile(function, backend=engine)


def inference(name: str, engine: str) -> Run:
    torch.manual_seed(0)
    model: Any
    if name == "encoder":
        layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, norm_first=True)
        model, x = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), (1, 256, 512)
    else:
        import torchvision

        model, x = torchvision.models.get_model(name, weights=None), (1, 3, 224, 224)
    run, data = _compiled(model.eval(), engine), torch.randn(x)

    @torch.no_grad()
    def call() -> Any:
        return run(data)

    return call


def training(name: str, batch: int, engine: str) -> Run:
    torch.manual_seed(0)
    kind, shape = {"lenet": (LeNet, (1, 28, 28)), "resnet20": (ResNet20, (3, 32, 32))}[name]
    model: Any = kind().train()
    x, labels = torch.randn(batch, *shape), torch.randint(0, 10, (batch,))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    forward = _compiled(lambda x, y: F.cross_entropy(model(x), y), engine)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = forward(x, labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


def small(engine: str) -> Run:
    a, b = torch.randn(8), torch.randn(8)
    run = _compiled(lambda a, b: (a + b) * a, engine)
    return lambda: run(a, b)


CASES: Mapping[str, Callable[[str], Run]] = {
    "(a + b) * a": small,
    "resnet18 b1": lambda e: inference("resnet18", e),
    "resnet50 b1": lambda e: inference("resnet50", e),
    "mobilenet_v2 b1": lambda e: inference("mobilenet_v2", e),
    "encoder": lambda e: inference("encoder", e),
    "lenet b8, step": lambda e: training("lenet", 8, e),
    "lenet b64, step": lambda e: training("lenet", 64, e),
    "resnet20 b8, step": lambda e: training("resnet20", 8, e),
    "resnet20 b64, step": lambda e: training("resnet20", 64, e),
}
# How many times the speed of inductor is asked for.
ASKED = {
    "resnet18 b1": 1.5, "resnet50 b1": 1.5, "mobilenet_v2 b1": 2.0, "encoder": 1.15,
    "lenet b8, step": 1.6, "lenet b64, step": 1.6, "resnet20 b8, step": 1.4,
    "resnet20 b64, step": 1.15,
}  # fmt: skip


def _median(run: Run, seconds: float) -> tuple[float, float]:
    """Median and least, in microseconds; short ones in groups of 100."""
    began = time.perf_counter()
    run()
    group = 100 if time.perf_counter() - began < 1e-4 else 1
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        began = time.perf_counter()
        for _ in range(group):
            run()
        times.append((time.perf_counter() - began) / group)
    return statistics.median(times) * 1e6, min(times) * 1e6


def measure(name: str, engines: tuple[str, ...] = ENGINES, rounds: int = 5) -> dict[str, float]:
    """Microseconds a call: of all rounds of an engine the least median."""
    runs = {}
    for engine in engines:
        torch._dynamo.reset()
        runs[engine] = CASES[name](engine)
        for _ in range(3):
            runs[engine]()
    best = dict.fromkeys(engines, float("inf"))
    for _ in range(rounds):
        for engine, run in runs.items():
            best[engine] = min(best[engine], _median(run, 1.0)[0])
    return best


_FIRST = """
import sys, time, torch
sys.path.insert(0, {folder!r})
import compile_speed
run = compile_speed.CASES[{name!r}]
torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
compile_speed._compiled(lambda x: x + 1, {engine!r})(torch.ones(2))
torch._dynamo.reset()
call = run({engine!r})
began = time.perf_counter()
call()
print(time.perf_counter() - began)
"""


def first_call(name: str, engine: str, cache: str) -> float:
    """Seconds of the first call in a process of its own; what is imported is there."""
    folder = os.path.dirname(os.path.abspath(__file__))
    environment = dict(os.environ, TORCHINDUCTOR_CACHE_DIR=cache)
    text = subprocess.run(
        [sys.executable, "-c", _FIRST.format(folder=folder, name=name, engine=engine)],
        capture_output=True, text=True, check=True, env=environment,
    ).stdout  # fmt: skip
    return float(text.split()[-1])


def first_calls(name: str) -> dict[str, float]:
    found = {}
    for engine in ("aot_eager", "weft", "inductor"):
        with tempfile.TemporaryDirectory() as cache:
            found[engine] = first_call(name, engine, cache)
            if engine != "aot_eager":
                found[engine + " again"] = first_call(name, engine, cache)
    return found


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        what, _, case = argument.partition(":")
        print(argument, measure(case) if what == "call" else first_calls(case), flush=True)
