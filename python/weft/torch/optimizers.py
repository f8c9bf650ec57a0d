"""Steps of torch's optimizers, as nodes: SGD, Adam, AdamW.

State of the optimizer becomes variables of the graph, `optimizer.NAME.exp_avg` and so on, which
begin with what the optimizer holds; hyperparameters are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import weft
from weft._weft import _make_node
from weft.torch.graph import GraphBuilder

Updates = Callable[[GraphBuilder, Mapping[str, weft.Entry]], None]


class _Writer:
    """Nodes in the graph of one builder."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.graph = builder.graph

    def op(self, name: str, *inputs: weft.Entry) -> weft.Entry:
        made: weft.Entry = _make_node(name, *inputs, graph=self.graph, name="")
        return made

    def number(self, value: float, dtype: str) -> weft.Entry:
        return self.graph.constant(np.array(value, dtype))

    def state(self, name: str, initial: Any) -> weft.Entry:
        return self.graph.state(name, np.asarray(initial))

    def assign(self, variable: weft.Entry, value: weft.Entry, name: str) -> weft.Entry:
        made: weft.Entry = _make_node(
            "weft::Assign", variable, value, graph=self.graph, name=f"update_{name}"
        )
        return made


def updates_of(optimizer: Any, model: Any) -> Updates:
    """What the optimizer's `step` does, for the parameters of `model` that it holds."""
    kind = type(optimizer).__name__
    steps = {"SGD": _sgd, "Adam": _adam, "AdamW": _adam}
    if kind not in steps:
        raise ValueError(f"the optimizer {kind} is not known; SGD, Adam, AdamW are")
    names = {id(p): name for name, p in model.named_parameters()}

    def add(builder: GraphBuilder, gradients: Mapping[str, weft.Entry]) -> None:
        writer = _Writer(builder)
        for number, group in enumerate(optimizer.param_groups):
            _refuse(kind, group)
            members = [(names[id(p)], p) for p in group["params"] if id(p) in names]
            held = [(n, p) for n, p in members if n in gradients]
            if held:
                steps[kind](writer, optimizer, group, number, held, gradients)

    return add


def _refuse(kind: str, group: Mapping[str, Any]) -> None:
    for option in ("amsgrad",):
        if group.get(option):
            raise ValueError(f"{kind} with {option}=True is not known")


def _array(tensor: Any) -> Any:
    return tensor.detach().cpu().numpy()


def _sgd(
    w: _Writer,
    optimizer: Any,
    group: Mapping[str, Any],
    number: int,
    held: list[tuple[str, Any]],
    gradients: Mapping[str, weft.Entry],
) -> None:
    momentum, dampening = group["momentum"], group["dampening"]
    for name, parameter in held:
        dtype = str(parameter.dtype).removeprefix("torch.")
        variable = w.builder.sources[name]

        def times(x: weft.Entry, value: float, d: str = dtype) -> weft.Entry:
            return w.op("Mul", x, w.number(value, d))

        step = gradients[name]
        if group["maximize"]:
            step = w.op("Neg", step)
        if group["weight_decay"]:
            step = w.op("Add", step, times(variable, group["weight_decay"]))
        if momentum:
            buffer = optimizer.state.get(parameter, {}).get("momentum_buffer")
            # torch's first step takes the gradient whole; a buffer that begins so that momentum
            # and dampening come out the same would have to know it. So the first is told apart.
            label = f"optimizer.{name}.momentum_buffer"
            if buffer is not None:
                held_buffer = w.state(label, _array(buffer))
                mixed = w.op("Add", times(held_buffer, momentum), times(step, 1 - dampening))
            else:
                held_buffer = w.state(label, np.zeros(tuple(parameter.shape), dtype))
                mixed = w.op("Add", times(held_buffer, momentum), times(step, 1 - dampening))
                if dampening:
                    begun = w.state(f"optimizer.{name}.begun", np.zeros((), bool))
                    mixed = w.op("Where", begun, mixed, step)
                    w.assign(begun, w.graph.constant(np.ones((), bool)), f"{name}.begun")
            w.assign(held_buffer, mixed, f"{name}.momentum_buffer")
            step = w.op("Add", step, times(mixed, momentum)) if group["nesterov"] else mixed
        new = w.op("Sub", variable, times(step, float(group["lr"])))
        w.builder.update(name, new)


def _adam(
    w: _Writer,
    optimizer: Any,
    group: Mapping[str, Any],
    number: int,
    held: list[tuple[str, Any]],
    gradients: Mapping[str, weft.Entry],
) -> None:
    beta1, beta2 = (float(b) for b in group["betas"])
    lr, eps, decay = float(group["lr"]), float(group["eps"]), float(group["weight_decay"])
    apart = type(optimizer).__name__ == "AdamW" or bool(group.get("decoupled_weight_decay"))
    steps = {float(optimizer.state.get(p, {}).get("step", 0)) for _, p in held}
    if len(steps) != 1:
        raise ValueError("parameters of one group have taken different numbers of steps")
    # Counted in double, as torch computes its corrections.
    counter = w.state(f"optimizer.step_{number}", np.array(steps.pop(), np.float64))
    one = w.number(1, "float64")
    t = w.op("Add", counter, one)
    w.assign(counter, t, f"optimizer.step_{number}")
    correction1 = w.op("Sub", one, w.op("Pow", w.number(beta1, "float64"), t))
    correction2 = w.op("Sub", one, w.op("Pow", w.number(beta2, "float64"), t))
    step_size = w.op("Div", w.number(lr, "float64"), correction1)
    root = w.op("Sqrt", correction2)
    for name, parameter in held:
        dtype = str(parameter.dtype).removeprefix("torch.")

        def number_of(value: float, d: str = dtype) -> weft.Entry:
            return w.number(value, d)

        variable = w.builder.sources[name]
        gradient = gradients[name]
        if group["maximize"]:
            gradient = w.op("Neg", gradient)
        base = variable
        if decay and apart:
            base = w.op("Mul", variable, number_of(1 - lr * decay))
        elif decay:
            gradient = w.op("Add", gradient, w.op("Mul", variable, number_of(decay)))
        saved = optimizer.state.get(parameter, {})
        zeros = np.zeros(tuple(parameter.shape), dtype)
        first = w.state(f"optimizer.{name}.exp_avg", _array(saved["exp_avg"]) if saved else zeros)
        second = w.state(
            f"optimizer.{name}.exp_avg_sq", _array(saved["exp_avg_sq"]) if saved else zeros
        )
        mean = w.op(
            "Add",
            w.op("Mul", first, number_of(beta1)),
            w.op("Mul", gradient, number_of(1 - beta1)),
        )
        square = w.op(
            "Add",
            w.op("Mul", second, number_of(beta2)),
            w.op("Mul", w.op("Mul", gradient, gradient), number_of(1 - beta2)),
        )
        w.assign(first, mean, f"{name}.exp_avg")
        w.assign(second, square, f"{name}.exp_avg_sq")
        scale, size = root, step_size
        if dtype != "float64":
            scale, size = (w.op("CastLike", e, gradient) for e in (root, step_size))
        deviation = w.op("Div", w.op("Sqrt", square), scale)
        denominator = w.op("Add", deviation, number_of(eps))
        update = w.op("Mul", size, w.op("Div", mean, denominator))
        w.builder.update(name, w.op("Sub", base, update))
