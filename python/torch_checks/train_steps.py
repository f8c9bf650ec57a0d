"""`TrainStep` beside eager steps: losses, parameters, buffers and the optimizer's own state."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from lenet import LeNet

import weft
from weft.torch import TrainStep

STEPS = 24

Make = Callable[[Any], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Make] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05),
    "SGD momentum": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, weight_decay=1e-3),
    "SGD nesterov": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True),
    "SGD dampening": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3),
    "SGD maximize": lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9, maximize=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=1e-2),
    "Adam fused": lambda p: torch.optim.Adam(p, lr=1e-3, fused=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-3),
}


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = torch.nn.BatchNorm2d(width)
        self.conv2 = torch.nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = torch.nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(h)))


class Residual(torch.nn.Module):
    """Batch normalisation, a parameter that nothing reads, one that is frozen, two that are tied."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(1, 8, 3, padding=1)
        self.blocks = torch.nn.Sequential(Block(8), Block(8))
        self.a = torch.nn.Linear(8, 8)
        self.b = torch.nn.Linear(8, 8)
        self.b.weight = self.a.weight
        self.unread = torch.nn.Linear(3, 3)
        self.head = torch.nn.Linear(8, 10)
        self.head.bias.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.blocks(F.max_pool2d(self.stem(x), 4)).mean((2, 3))
        result: torch.Tensor = self.head(torch.tanh(self.b(torch.tanh(self.a(h)))))
        return result


def batches(count: int, size: int = 8, seed: int = 1) -> list[tuple[torch.Tensor, torch.Tensor]]:
    g = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(size, 1, 28, 28, generator=g, dtype=torch.float64),
            torch.randint(0, 10, (size,), generator=g),
        )
        for _ in range(count)
    ]


class Pair:
    """The same model twice: one steps by TrainStep, the other eagerly."""

    def __init__(self, model: torch.nn.Module, make: Make, loss: Any = F.cross_entropy) -> None:
        self.model, self.reference = model, copy.deepcopy(model)
        self.optimizer = make(self.model.parameters())
        self.other = make(self.reference.parameters())
        self.loss = loss
        self.step = TrainStep(self.model, loss, self.optimizer)
        self.worst = 0.0

    def eager(self, model: Any, optimizer: Any, x: Any, y: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = self.loss(model(x), y)
        loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
        optimizer.step()
        return loss.detach()

    def run(self, x: torch.Tensor, y: torch.Tensor, eagerly: bool = False) -> None:
        if eagerly:
            got = self.eager(self.model, self.optimizer, x, y)
        else:
            got = self.step(x, y)
        want = self.eager(self.reference, self.other, x, y)
        self.see(got, want)

    def see(self, got: torch.Tensor, want: torch.Tensor) -> None:
        scale = max(float(want.abs().max()), 1e-3) if want.numel() else 1.0
        if want.numel():
            self.worst = max(self.worst, float((got - want).abs().max()) / scale)

    def end(self) -> float:
        """The largest difference, of all that `state_dict` has."""
        for got, want in (
            (self.model.state_dict(), self.reference.state_dict()),
            *(
                (self.optimizer.state_dict()["state"][k], v)
                for k, v in self.other.state_dict()["state"].items()
            ),
        ):
            assert got.keys() == want.keys(), f"{list(got)} is not {list(want)}"
            for key, value in want.items():
                if value is not None:
                    assert got[key].dtype == value.dtype and got[key].shape == value.shape, key
                    self.see(got[key].double(), value.double())
        assert len(self.optimizer.state) == len(self.other.state)
        return self.worst


def _model(kind: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    torch.manual_seed(0)
    return kind().double().train()


def steps_error(name: str, kind: Callable[[], torch.nn.Module]) -> float:
    pair = Pair(_model(kind), OPTIMIZERS[name])
    for x, y in batches(STEPS):
        pair.run(x, y)
    return pair.end()


def alternating_error(name: str) -> float:
    """Eager steps of the same model between those of TrainStep, beginning with either."""
    worst = 0.0
    for first in (0, 1):
        pair = Pair(_model(Residual), OPTIMIZERS[name])
        for i, (x, y) in enumerate(batches(STEPS)):
            pair.run(x, y, eagerly=(i + first) % 3 == 0)
        worst = max(worst, pair.end())
    return worst


def reload_error(name: str) -> float:
    """Saved mid-way, in a file, and loaded into a new model and optimizer; then into the old ones."""
    pair = Pair(_model(Residual), OPTIMIZERS[name])
    data = batches(STEPS)
    for x, y in data[:10]:
        pair.run(x, y)
    file = io.BytesIO()
    torch.save([pair.model.state_dict(), pair.optimizer.state_dict()], file)
    file.seek(0)
    model, optimizer = torch.load(file)
    fresh = Pair(_model(Residual), OPTIMIZERS[name])
    for x, y in batches(3, seed=7):  # something else first
        fresh.run(x, y)
    for part, other in ((fresh.model, fresh.optimizer), (fresh.reference, fresh.other)):
        part.load_state_dict(model)
        other.load_state_dict(copy.deepcopy(optimizer))
    fresh.worst = 0.0
    for x, y in data[10:]:
        fresh.run(x, y)
        pair.run(x, y)
    for got, want in zip(fresh.model.parameters(), pair.reference.parameters()):
        fresh.see(got.detach(), want.detach())
    return max(fresh.end(), pair.end())


def schedule_error(name: str) -> float:
    """Rates and momenta that change with every step; no program is made anew, and no warning."""
    pair = Pair(_model(LeNet), OPTIMIZERS[name])
    both: list[Any] = [
        torch.optim.lr_scheduler.OneCycleLR(o, max_lr=0.05, total_steps=STEPS + 1)
        for o in (pair.optimizer, pair.other)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x, y in batches(STEPS):
            pair.run(x, y)
            for schedule in both:
                schedule.step()
    assert pair.step.num_programs == 1
    return pair.end()


def modes_error() -> float:
    """Sizes that change, training and evaluation mode, parameters that freeze and thaw."""
    pair = Pair(_model(Residual), OPTIMIZERS["Adam"])
    for i, (x, y) in enumerate(batches(STEPS)):
        for model in (pair.model, pair.reference):
            model.train(i % 5 != 4)
            model.get_parameter("stem.weight").requires_grad_(i % 4 != 3)
        n = 8 if i % 3 else 5
        pair.run(x[:n], y[:n])
    assert pair.step.num_programs <= 8
    return pair.end()


def dynamic_error() -> float:
    pair = Pair(_model(Residual), OPTIMIZERS["AdamW"])
    sizes = {0: torch.export.Dim("batch")}
    pair.step = TrainStep(
        pair.model, F.cross_entropy, pair.optimizer, dynamic_shapes={"x": sizes, "target": sizes}
    )
    for i, (x, y) in enumerate(batches(STEPS)):
        pair.run(x[: 3 + i % 6], y[: 3 + i % 6])
    assert pair.step.num_programs == 1, pair.step.num_programs
    return pair.end()


def replaced_error() -> float:
    """Parameters and state that are replaced between steps, as users do."""
    pair = Pair(_model(Residual), OPTIMIZERS["Adam"])
    data = batches(STEPS)
    for i, (x, y) in enumerate(data):
        pair.run(x, y)
        for model, optimizer in (
            (pair.model, pair.optimizer),
            (pair.reference, pair.other),
        ):
            if i == 4:  # other memory of the same parameter
                stem = model.get_parameter("stem.weight")
                stem.data = stem.detach() * 1.5
            if i == 8:  # other sizes: a head of 12 classes
                head = torch.nn.Linear(8, 12).double()
                with torch.no_grad():
                    for p in head.parameters():
                        p.copy_(torch.linspace(-1, 1, p.numel(), dtype=p.dtype).view_as(p))
                model.head = head
                optimizer.add_param_group({"params": list(head.parameters()), "lr": 3e-3})
            if i == 12:  # a buffer
                norm: Any = model.get_submodule("blocks.0.norm1")
                norm.running_mean = torch.full_like(norm.running_mean, 0.25)
            if i == 16:  # what the optimizer remembers
                held = optimizer.state[model.get_parameter("stem.weight")]
                held["exp_avg"] = held["exp_avg"] * 0.5
            if i == 20:
                model.load_state_dict({k: v * 0.9 for k, v in model.state_dict().items()
                                       if v.is_floating_point()}, strict=False)  # fmt: skip
    return pair.end()


def groups_error() -> float:
    """Groups of their own rates and terms, and steps that some parameters have not taken."""
    def make(parameters: Any) -> torch.optim.Optimizer:
        all_of = list(parameters)
        return torch.optim.AdamW(
            [{"params": all_of[:3], "lr": 1e-3, "weight_decay": 0.0},
             {"params": all_of[3:7], "betas": (0.8, 0.99)}, {"params": all_of[7:], "maximize": True}],
            lr=2e-3,
        )  # fmt: skip

    pair = Pair(_model(Residual), make)
    for i, (x, y) in enumerate(batches(STEPS)):
        if i in (6, 12):
            for model in (pair.model, pair.reference):
                model.get_parameter("a.bias").requires_grad_(i == 12)
        pair.run(x, y, eagerly=i % 4 == 1)
    return pair.end()


def loss_module_error() -> float:
    """A loss that is a module, with parameters of its own and weights of classes."""

    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(10, dtype=torch.float64))
            self.register_buffer("weight", torch.linspace(0.5, 2, 10, dtype=torch.float64))

        def forward(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            weight: Any = self.weight
            return F.cross_entropy(logits * self.scale, target, weight)

    model, loss = _model(LeNet), Scaled()
    reference, other_loss = copy.deepcopy(model), copy.deepcopy(loss)
    first = torch.optim.Adam([*model.parameters(), *loss.parameters()])
    second = torch.optim.Adam([*reference.parameters(), *other_loss.parameters()])
    step = TrainStep(model, loss, first)
    worst = 0.0
    for x, y in batches(STEPS):
        got = step(x, y)
        second.zero_grad()
        want = other_loss(reference(x), y)
        want.backward()
        second.step()
        worst = max(worst, abs(float(got) - float(want.detach())))
    return max(worst, float((loss.scale - other_loss.scale).abs().max().detach()))


def closure_error() -> float:
    """Tensors that the loss holds, written and given other memory between steps."""
    weight = torch.linspace(0.5, 2, 10, dtype=torch.float64)

    def loss(result: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (F.log_softmax(result, 1) * weight).gather(1, target[:, None]).mean().neg()

    pair = Pair(_model(LeNet), OPTIMIZERS["SGD"], loss)
    for i, (x, y) in enumerate(batches(9)):
        if i == 3:
            weight.mul_(3)
        if i == 6:
            weight.data = weight.flip(0)
        pair.run(x, y)
    return pair.end() if pair.step.num_programs == 1 else float("inf")


def random_error() -> float:
    """Dropout: the rate, the same numbers after the same seed, others after another."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Dropout(0.25))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    step = TrainStep(model, lambda y: (y != 0).float().mean() + 0 * y.sum(), optimizer, targets=0)
    x = torch.randn(128, 64)
    torch.manual_seed(5)
    first = [float(step(x)) for _ in range(5)]
    torch.manual_seed(5)
    again = [float(step(x)) for _ in range(5)]
    torch.manual_seed(6)
    other = [float(step(x)) for _ in range(5)]
    assert first == again and first != other and len(set(first)) == 5, (first, again, other)
    # The mask of the gradient is that of the forward part: a step of rate 1 on sum(y) moves each
    # bias by what is kept of its column.
    optimizer.param_groups[0]["lr"] = 1.0
    before = model[0].bias.detach().clone()
    weight: Any = model[0].weight
    weight.requires_grad_(False)
    summed = TrainStep(model, lambda y: y.sum(), optimizer, targets=0)
    with torch.no_grad():
        weight.zero_()
        model[0].bias.fill_(1.0)
    loss = float(summed(x))
    moved = 1 - model[0].bias.detach()
    model[0].bias.data.copy_(before)
    assert abs(float(moved.sum()) - loss) < 1e-5 * loss, (float(moved.sum()), loss)
    kept = sum(first) / 5
    assert abs(kept - 0.75) < 0.01, kept
    return 0.0


def refusals() -> Iterator[tuple[str, Callable[[], object], str]]:
    """What cannot work is named: label, call, a part of the message."""
    adam = OPTIMIZERS["Adam"]
    (x, y), *_ = batches(1)

    def changed(change: Callable[[Any, Any], None]) -> Callable[[], object]:
        def call() -> object:
            model = _model(LeNet)
            optimizer = adam(model.parameters())
            step = TrainStep(model, F.cross_entropy, optimizer)
            step(x, y)
            change(model, optimizer)
            return step(x, y)

        return call

    def made(model: Any, optimizer: Any = None, loss: Any = F.cross_entropy) -> object:
        return TrainStep(model, loss, optimizer or adam(model.parameters()))(x, y)

    yield (
        "freed",
        changed(lambda m, o: m.fc1.weight.untyped_storage().resize_(0)),
        "'fc1.weight' has lost its memory",
    )
    yield (
        "moment freed",
        changed(lambda m, o: o.state[m.fc1.weight]["exp_avg"].untyped_storage().resize_(0)),
        "'optimizer.fc1.weight.exp_avg' has lost its memory",
    )
    yield (
        "channels last",
        changed(lambda m, o: m.to(memory_format=torch.channels_last)),
        "is not contiguous",
    )
    # The same memory and sizes.
    yield (
        "transposed",
        changed(lambda m, o: setattr(m.conv1.weight, "data", m.conv1.weight.data.mT)),
        "'conv1.weight' is not contiguous",
    )
    yield "meta", changed(lambda m, o: m.to("meta")), "on the device 'meta'"
    yield (
        "hook",
        changed(lambda m, o: m.fc1.weight.register_hook(lambda g: g)),
        "has a hook on its gradient",
    )
    yield (
        "resized",
        changed(lambda m, o: setattr(m.fc2.bias, "data", torch.zeros(11).double())),
        "11",
    )
    yield "lazy", lambda: made(_model(lambda: torch.nn.LazyLinear(10))), "is not initialised"
    yield (
        "optimizer",
        lambda: made(LeNet(), torch.optim.RMSprop(LeNet().parameters())),
        "RMSprop is not known",
    )
    yield (
        "another model's",
        lambda: made(LeNet(), adam(LeNet().parameters())),
        "holds no parameter of the model",
    )
    yield (
        "amsgrad",
        lambda: made(m := LeNet(), torch.optim.Adam(m.parameters(), amsgrad=True)),
        "amsgrad",
    )
    yield (
        "no gradient",
        lambda: made(_model(LeNet), loss=lambda out, t: out.detach().sum()),
        "depends on no parameter",
    )


def refusal_problem(call: Callable[[], object], part: str) -> str | None:
    try:
        call()
    except (weft.Error, ValueError, RuntimeError) as error:
        return None if part in str(error) else f"says: {error}"
    return "was taken"
