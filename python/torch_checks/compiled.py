"""torch.compile(backend="weft") beside eager torch: results, gradients, buffers, other shapes."""

from __future__ import annotations

import copy
import gc
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from common import distance

import weft.torch
from weft.torch.dynamo import backend

# Of four steps in float64. Models of transformers compute parts in float32 all the same.
TOLERANCES = {name: 1e-9 for name in ("lenet", "resnet18", "mobilenet_v2", "densenet121")}


@dataclass(slots=True)
class Count:
    """What was compiled since it was last asked."""

    graphs: int = 0
    nodes: int = 0
    left: int = 0
    complete: int = 0  # models with no operator left to torch

    def add(self, found: Sequence[backend.Lowered]) -> None:
        left = [row for g in found for row in g.left]
        self.graphs += len(found)
        self.nodes += sum(g.nodes for g in found)
        self.left += len(left)
        self.complete += not left
        for op, reason, _ in sorted(set(left)):
            print(f"[{op} in torch: {reason}]", end=" ")


TOTAL = Count()


def tensors(result: Any) -> list[torch.Tensor]:
    leaves, _ = torch.utils._pytree.tree_flatten(result)
    return [x for x in leaves if isinstance(x, torch.Tensor)]


def _worst(got: Any, want: Any) -> float:
    a, b = tensors(got), tensors(want)
    assert len(a) == len(b), f"{len(a)} results, {len(b)} wanted"
    for x, y in zip(a, b):
        assert x.stride() == y.stride(), f"strides {x.stride()}, {y.stride()} wanted"
    pairs = ((x.detach().numpy(), y.detach().numpy()) for x, y in zip(a, b))
    return max((distance(x, y) for x, y in pairs), default=0.0)


def inference_error(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> float:
    """One graph where backend `eager` has one."""
    torch._dynamo.reset()
    graphs = 0

    def eager(module: Any, _: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return module.forward

    with torch.no_grad():
        want = model(*args, **kwargs)
        torch.compile(model, backend=eager)(*args, **kwargs)
        torch._dynamo.reset()
        with backend.observed.inside() as found:
            got = torch.compile(model, backend="weft")(*args, **kwargs)
    assert len(found) == graphs, f"{len(found)} graphs, backend eager has {graphs}"
    TOTAL.add(found)
    return _worst(got, want)


def still(model: Any) -> Any:
    """Without dropout: eager torch draws other numbers."""
    for module in model.modules():
        for name, value in list(vars(module).items()):
            if ("drop" in name or name == "p") and isinstance(value, float):
                setattr(module, name, 0.0)
        config = getattr(module, "config", None)
        for name in list(vars(config)) if config is not None else ():
            if "drop" in name and isinstance(getattr(config, name), float):
                setattr(config, name, 0.0)
    return model


def _loss(result: Any, labels: Any) -> torch.Tensor:
    if isinstance(result, torch.Tensor) and labels is not None:
        return F.cross_entropy(result, labels)
    parts = [x for x in tensors(result) if x.is_floating_point() and x.requires_grad]
    total: torch.Tensor = torch.stack([x.square().mean() for x in parts]).sum()
    return total


def training_error(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], labels: Any = None
) -> float:
    """Four steps of SGD: compiled, eager, compiled, eager; beside four of eager torch. Gradients of
    the last one, by their length, and all parameters and buffers."""
    torch._dynamo.reset()
    model = still(model).train()
    other = copy.deepcopy(model)
    compiled = torch.compile(other, backend="weft")
    runs = [(model, model), (other, compiled)]
    with backend.observed.inside() as found:
        for step in range(4):
            for module, run in runs:
                call = module if step % 2 else run
                module.zero_grad()
                _loss(call(*args, **kwargs), labels).backward()
                with torch.no_grad():
                    for p in module.parameters():
                        if p.grad is not None:
                            p.sub_(p.grad, alpha=1e-3)
    TOTAL.add(found)
    worst = 0.0
    state = other.state_dict()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    total = float(torch.stack([g.norm() for g in grads]).norm())
    for name, p in model.named_parameters():
        q = other.get_parameter(name)
        assert (p.grad is None) == (q.grad is None), name
        if p.grad is not None and q.grad is not None:
            # Of a gradient that is nothing, rounding is all there is.
            length = max(float(p.grad.norm()), 1e-6 * total)
            worst = max(worst, float((p.grad - q.grad).norm()) / length)
    for name, p in model.state_dict().items():
        worst = max(worst, distance(state[name].numpy(), p.numpy()) if p.numel() else 0.0)
    return worst


def training_tasks() -> Iterator[tuple[str, Any]]:
    """(name, function that makes model, args, kwargs, labels), in float64."""
    import torchvision
    import transformers_set
    from lenet import LeNet

    labels = torch.arange(4) % 10

    def lenet() -> Any:
        return LeNet().double(), (torch.randn(4, 1, 28, 28).double(),), {}, labels

    yield "lenet", lenet

    def picture(name: str) -> Any:
        model = torchvision.models.get_model(name, weights=None, num_classes=10).double()
        return model, (torch.randn(4, 3, 64, 64).double(),), {}, labels

    for name in (
        "resnet18 mobilenet_v2 shufflenet_v2_x0_5 squeezenet1_1 efficientnet_b0 mnasnet0_5 "
        "mobilenet_v3_small regnet_y_400mf densenet121"
    ).split():
        yield name, lambda n=name: picture(n)

    def transformer(name: str) -> Any:
        model, kwargs = transformers_set.ALL[name]()
        return (
            model.double(),
            (),
            {
                k: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v
                for k, v in kwargs.items()
            },
            None,
        )

    for name in transformers_set.ALL:
        yield name, lambda n=name: transformer(n)


# ---- single behaviours ----


def shapes() -> float:
    """Another shape in every call: compiled once."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 5),
    ).double().train()  # fmt: skip
    torch._dynamo.reset()
    other = copy.deepcopy(model)
    compiled = torch.compile(other, backend="weft", dynamic=True)
    worst = 0.0
    with backend.observed.inside() as found:
        for batch, size in itertools.product((2, 3, 5), (8, 13, 9)):
            x = torch.randn(batch, 3, size, size + 1).double()
            results = []
            for run, module in ((model, model), (compiled, other)):
                module.zero_grad()
                y = run(x)
                y.square().sum().backward()
                results.append([y, *(p.grad for p in module.parameters())])
            worst = max(worst, _worst(results[1], results[0]))
    assert len(found) == 2, f"{len(found)} graphs"
    TOTAL.add(found)
    return worst


def sizes() -> float:
    """Sizes as results, views of arguments, broadcast and permuted results."""

    def f(x: torch.Tensor, n: int) -> Any:
        y = x.relu() + n
        return y.t(), x.shape[0] * 3 + n, y.expand(3, *y.shape), x[1:], y[:, 1:], x.t(), y.mean(0)

    torch._dynamo.reset()
    compiled = torch.compile(f, backend="weft", dynamic=True)
    worst = 0.0
    for i, shape in enumerate(((4, 5), (7, 3), (3, 8))):
        x = torch.randn(shape)
        got, want = compiled(x, i + 2), f(x, i + 2)
        assert got[1] == want[1]
        worst = max(worst, _worst(got, want))
    return worst


def memory() -> float:
    """Arguments in other orders of memory than row-major, weights transposed, channels last."""
    model = torch.nn.Sequential(torch.nn.Conv2d(4, 8, 3), torch.nn.BatchNorm2d(8)).eval()
    model = model.to(memory_format=torch.channels_last)
    x = torch.randn(2, 4, 9, 9).to(memory_format=torch.channels_last)
    torch._dynamo.reset()
    worst = inference_error(model, (x,), {})

    def f(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Any:
        return a @ b, (a * 2).t().contiguous().t(), c + b

    args = (torch.randn(5, 6).t(), torch.randn(5, 8)[:, ::2], torch.randn(4).expand(5, 4))
    return max(worst, inference_error(f, args, {}))


def parameters() -> float:
    """Weights that are written in every way, replaced and trained by one fused kernel between
    calls of a compiled model in inference."""
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(),
        torch.nn.Linear(8 * 36, 16),
    ).eval()  # fmt: skip
    x = torch.randn(2, 3, 8, 8)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="weft")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    linear: Any = model[3]
    conv: Any = model[0]

    def train() -> None:
        model(x).square().mean().backward()
        optimizer.step()

    @torch.no_grad()
    def write() -> None:
        linear.weight.mul_(1.5)

    def write_data() -> None:
        conv.weight.data.mul_(0.5)

    def replace() -> None:
        linear.weight.data = torch.randn(16, 8 * 36)

    def assign() -> None:
        linear.weight = torch.nn.Parameter(torch.randn(16, 8 * 36))

    worst = 0.0
    for change in (lambda: None, train, write, write_data, replace, assign, train):
        change()
        with torch.no_grad():
            worst = max(worst, _worst(compiled(x), model(x)))
    return worst


def dropout() -> float:
    """The law of dropout, torch.manual_seed, and a backward part that has the same mask."""
    module = torch.nn.Dropout(0.3)
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="weft")
    x = torch.ones(200, 500, requires_grad=True)
    torch.manual_seed(3)
    first, second = compiled(x), compiled(x)
    torch.manual_seed(3)
    again = compiled(x)
    assert torch.equal(first, again) and not torch.equal(first, second)
    first.sum().backward()
    assert x.grad is not None and torch.equal(x.grad, first.detach())
    kept = float((first != 0).float().mean())
    return abs(kept - 0.7) / 0.7 / 500  # 1e-5 is 0.35 percent


def left_to_torch() -> float:
    """Operators without a rule in the middle of others."""

    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        a = torch.special.bessel_j0(x * 2).sin()
        b = torch.fft.fft(y.relu()).abs() + a
        return torch.special.bessel_j0(b) * y, a.sum()

    args = (torch.randn(5, 6), torch.randn(5, 6))
    torch._dynamo.reset()
    with torch.no_grad(), backend.observed.inside() as found:
        got = torch.compile(f, backend="weft", dynamic=True)(*args)
    assert all(g.left and g.programs for g in found)
    return _worst(got, f(*args))


def threads() -> float:
    """One compiled function in four threads."""
    import concurrent.futures

    f = torch.compile(lambda x: (x @ x.t()).softmax(1), backend="weft")
    xs = [torch.randn(64, 64) for _ in range(16)]
    with torch.no_grad(), concurrent.futures.ThreadPoolExecutor(4) as pool:
        f(xs[0])
        got = list(pool.map(f, xs * 4))
    worst = max(_worst(y, (x @ x.t()).softmax(1)) for x, y in zip(xs * 4, got))
    # What follows from weights is computed anew meanwhile.
    model = torch.nn.Sequential(torch.nn.Conv2d(64, 2048, 3), torch.nn.BatchNorm2d(2048)).eval()
    h = torch.compile(model, backend="weft")
    images = [torch.randn(1, 64, 4, 4) for _ in range(16)]

    def touched(x: torch.Tensor) -> torch.Tensor:
        weft.torch.touch()
        with torch.no_grad():
            result: torch.Tensor = h(x)
        return result

    with torch.no_grad(), concurrent.futures.ThreadPoolExecutor(3) as pool:
        h(images[0])
        got = list(pool.map(touched, images * 4))
        return max([worst, *(_worst(y, model(x)) for x, y in zip(images * 4, got))])


def freed() -> float:
    """Saved values go with the graph: memory does not grow."""
    import resource

    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    compiled = torch.compile(model, backend="weft")
    x = torch.randn(1024, 256)
    peak = []
    for _ in range(2):
        for _ in range(40):
            compiled(x).sum().backward()
        gc.collect()
        peak.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return (peak[1] - peak[0]) / peak[0] * 1e-4


BEHAVIOURS = (
    shapes, sizes, memory, parameters, dropout, left_to_torch, threads, freed,
)  # fmt: skip
