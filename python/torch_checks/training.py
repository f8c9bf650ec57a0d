"""Gradients and optimizer steps beside torch's own, in float64."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from common import distance
from lenet import LeNet

import weft
import weft.torch

CONVOLUTIONAL = (
    "resnet18 mobilenet_v2 shufflenet_v2_x0_5 squeezenet1_1 efficientnet_b0 mnasnet0_5 "
    "mobilenet_v3_small regnet_y_400mf"
).split()
# torch's gradient of hardsigmoid takes 1/6 as a float32 for float64 as well.
TOLERANCES = {"mobilenet_v3_small": 1e-6}
TRANSFORMERS = (
    "bert gpt2 vit swin deberta_v2 whisper convnext segformer detr wav2vec2 roberta opt"
).split()


class Borders(torch.nn.Module):
    """Where gradients stop: detach, no_grad, a frozen parameter, a padding row."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.c, self.d = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.d.weight.requires_grad_(False)
        self.e = torch.nn.Embedding(5, 4, padding_idx=0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.a(x)
        h2 = self.b(h.detach())
        with torch.no_grad():
            k = self.c(h)
        result: torch.Tensor = self.d(h2 * k + h) + self.e(torch.tensor([0, 1, 0]))
        return result


def _first(result: Any) -> torch.Tensor:
    x = result if isinstance(result, torch.Tensor) else next(iter(result.values()))
    weights = torch.linspace(-1, 1, x.shape[-1], dtype=x.dtype)
    return (x * weights).square().mean()


Task = tuple[str, Any, Sequence[Any], dict[str, Any], Callable[..., Any], Sequence[Any]]


def tasks() -> Iterator[Task]:
    import torchvision
    import transformers_set

    torch.manual_seed(0)
    labels = torch.randint(0, 10, (4,))
    yield (
        "lenet",
        LeNet().double(),
        (torch.randn(4, 1, 28, 28).double(),),
        {},
        F.cross_entropy,
        (labels,),
    )
    yield "borders", Borders().double(), (torch.randn(3, 4).double(),), {}, _first, ()
    for name in CONVOLUTIONAL:
        model = torchvision.models.get_model(name, weights=None).train().double()
        for module in model.modules():
            if type(module).__name__ in ("Dropout", "StochasticDepth"):
                module.p = 0.0
        x = torch.randn(4, 3, 64, 64).double()
        yield name, model, (x,), {}, F.cross_entropy, (labels,)
    for name in TRANSFORMERS:
        model, kwargs = transformers_set.ALL[name]()
        double = {
            k: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v
            for k, v in kwargs.items()
        }
        yield name, model.double(), (), double, _first, ()


def gradient_error(task: Task) -> float:
    """The largest difference of loss and of all gradients, relative to the longest gradient."""
    _, model, args, kwargs, loss, targets = task
    exported = weft.torch.export(model, args, kwargs, loss=loss, targets=targets)
    reference = copy.deepcopy(model)
    value = loss(reference(*args, **kwargs), *targets)
    value.backward()  # type: ignore[no-untyped-call,unused-ignore]
    names = [entry.name for entry in exported.graph.inputs]
    order = [*_argument_names(model, args), *kwargs, *(["target"] if targets else [])]
    named = {
        n: v
        for n, v in zip(order, (*args, *kwargs.values(), *targets))
        if isinstance(v, torch.Tensor)
    }
    session = weft.Session(exported.compile())
    got = dict(zip(exported.graph.output_names, session.run({n: named[n].numpy() for n in names})))
    want = {n: p.grad for n, p in reference.named_parameters() if p.grad is not None}
    longest = max(float(g.square().mean().sqrt()) for g in want.values())
    worst = abs(float(got["loss"]) - float(value)) / max(abs(float(value)), 1e-9)
    for name, gradient in want.items():
        error = np.abs(np.asarray(got[f"grad_{name}"]) - gradient.numpy()).max()
        length = max(float(gradient.square().mean().sqrt()), 1e-2 * longest)
        worst = max(worst, float(error) / length)
    return worst


def _argument_names(model: Any, args: Sequence[Any]) -> list[str]:
    import inspect

    return list(inspect.signature(model.forward).parameters)[: len(args)]


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "SGD nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "SGD dampening": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3),
    "Adam": lambda p: torch.optim.Adam(p, lr=1e-2, weight_decay=1e-2),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2),
}


class MnistCnn(torch.nn.Module):
    """The network of PyTorch's MNIST example, without its dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(1, 32, 3), torch.nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = torch.nn.Linear(9216, 128), torch.nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))
        return F.log_softmax(x, dim=1)


def _resnet18() -> torch.nn.Module:
    import torchvision

    model: torch.nn.Module = torchvision.models.resnet18(num_classes=10)
    return model


# Networks whose training is exported: the module, its input's shape, its loss.
TRAINED: dict[str, tuple[Callable[[], torch.nn.Module], tuple[int, ...], Callable[..., Any]]] = {
    "LeNet": (LeNet, (4, 1, 28, 28), F.cross_entropy),
    "MNIST CNN": (MnistCnn, (4, 1, 28, 28), F.nll_loss),
    "ResNet-18": (_resnet18, (4, 3, 64, 64), F.cross_entropy),
}


def optimizer_error(name: str, network: str = "LeNet", steps: int = 4) -> float:
    """The largest difference of all parameters and statistics after some steps, and of losses."""
    torch.manual_seed(0)
    make, shape, loss = TRAINED[network]
    model = make().double().train()
    x, y = torch.randn(*shape).double(), torch.randint(0, 10, (shape[0],))
    reference = copy.deepcopy(model)
    exported = weft.torch.export(
        model, (x,), loss=loss, targets=(y,),
        optimizer=OPTIMIZERS[name](model.parameters()),
    )  # fmt: skip
    session = weft.Session(exported.compile())
    names = [entry.name for entry in exported.graph.inputs]
    optimizer = OPTIMIZERS[name](reference.parameters())
    worst = 0.0
    for _ in range(steps):
        got, *_ = session.run(dict(zip(names, (x.numpy(), y.numpy()))))
        optimizer.zero_grad()
        value = loss(reference(x), y)
        value.backward()
        optimizer.step()
        worst = max(worst, distance(got, value.detach().numpy()))
    for n, t in reference.state_dict().items():
        if n in session.store:
            worst = max(worst, distance(np.asarray(session.store[n]), t.numpy()))
    assert all(n in session.store for n, _ in reference.named_parameters())
    return worst
