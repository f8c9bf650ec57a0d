"""Steps of torch's optimizers, as nodes: SGD, Adam, AdamW.

State of the optimizer becomes variables of the graph, `optimizer.NAME.exp_avg` and so on. What a
step computes with besides is its coefficients: numbers of one group of parameters, which an
exported graph has as constants and counts by itself, and a train step reads anew in every run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import weft
from weft._weft import _make_node
from weft.torch.graph import GraphBuilder

Updates = Callable[[GraphBuilder, Mapping[str, weft.Entry]], None]
# A coefficient by name, in a dtype.
Coefficient = Callable[[str, str], weft.Entry]
# A variable of the optimizer for a parameter, by the optimizer's name of it.
Slot = Callable[[str], weft.Entry]

KINDS = ("SGD", "Adam", "AdamW")


class Writer:
    """Nodes in the graph of one builder."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.graph = builder.graph

    def op(self, name: str, *inputs: weft.Entry) -> weft.Entry:
        made: weft.Entry = _make_node(name, *inputs, graph=self.graph, name="")
        return made

    def cast(self, value: weft.Entry, dtype: str) -> weft.Entry:
        made: weft.Entry = _make_node("Cast", value, graph=self.graph, name="", to=dtype)
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


# ---- what an optimizer does, as plain data ----


def kind_of(optimizer: Any) -> str:
    kind = type(optimizer).__name__
    if kind not in KINDS:
        raise ValueError(f"the optimizer {kind} is not known; {', '.join(KINDS)} are")
    return kind


def structure(kind: str, group: Mapping[str, Any]) -> tuple[str, ...]:
    """Which terms the step of a group has: another graph for each."""
    if group.get("amsgrad"):
        raise ValueError(f"{kind} with amsgrad=True is not known")
    terms = ["maximize"] if group["maximize"] else []
    if group["weight_decay"]:
        terms.append("apart" if _decays_apart(kind, group) else "decay")
    if kind == "SGD" and group["momentum"]:
        terms.append("nesterov" if group["nesterov"] else "momentum")
    return tuple(terms)


def _decays_apart(kind: str, group: Mapping[str, Any]) -> bool:
    return kind == "AdamW" or bool(group.get("decoupled_weight_decay"))


def slots(kind: str, terms: tuple[str, ...]) -> tuple[str, ...]:
    """What the optimizer remembers of each parameter, in its shape."""
    if kind != "SGD":
        return ("exp_avg", "exp_avg_sq")
    return ("momentum_buffer",) if {"momentum", "nesterov"} & set(terms) else ()


def coefficients(kind: str, group: Mapping[str, Any], past: int) -> dict[str, float]:
    """The numbers of one step of a group, `past` steps behind the first, in torch's arithmetic.
    Of SGD only whether there is a step behind it counts."""
    rate, decay = float(group["lr"]), float(group["weight_decay"])
    if kind == "SGD":
        # torch's first step takes the gradient whole.
        share = 1 - float(group["dampening"]) if past else 1.0
        return {"rate": rate, "decay": decay, "momentum": float(group["momentum"]), "share": share}
    beta1, beta2 = (float(b) for b in group["betas"])
    return {
        "beta1": beta1,
        "rest1": 1 - beta1,
        "beta2": beta2,
        "rest2": 1 - beta2,
        "eps": float(group["eps"]),
        "decay": decay,
        "keep": 1 - rate * decay,
        "size": rate / (1 - beta1 ** (past + 1)),
        "root": math.sqrt(1 - beta2 ** (past + 1)),
    }


def write_step(
    w: Writer,
    kind: str,
    terms: tuple[str, ...],
    name: str,
    dtype: str,
    gradient: weft.Entry,
    at: Coefficient,
    slot: Slot,
) -> None:
    """The new content of one parameter and of what is remembered of it. Halves are computed with
    as floats: most of their coefficients are 1 in a half."""
    half = dtype in ("float16", "bfloat16")
    wide = "float32" if half else dtype

    def widen(e: weft.Entry) -> weft.Entry:
        return w.cast(e, wide) if half else e

    def write(variable: weft.Entry, value: weft.Entry, key: str) -> None:
        w.assign(variable, w.cast(value, dtype) if half else value, f"{name}.{key}")

    variable = w.builder.sources[name]
    gradient = widen(gradient)
    if "maximize" in terms:
        gradient = w.op("Neg", gradient)
    held = {key: slot(key) for key in slots(kind, terms)}
    rule = _sgd if kind == "SGD" else _adam
    new, kept = rule(
        w,
        terms,
        widen(variable),
        gradient,
        lambda key: at(key, wide),
        {k: widen(e) for k, e in held.items()},
    )
    for key, value in kept.items():
        write(held[key], value, key)
    w.builder.update(name, w.cast(new, dtype) if half else new)


Kept = dict[str, weft.Entry]


def _sgd(
    w: Writer,
    terms: tuple[str, ...],
    variable: weft.Entry,
    step: weft.Entry,
    at: Callable[[str], weft.Entry],
    held: Kept,
) -> tuple[weft.Entry, Kept]:
    kept: Kept = {}
    if "decay" in terms:
        step = w.op("Add", step, w.op("Mul", variable, at("decay")))
    if "momentum_buffer" in held:
        momentum = at("momentum")
        before = w.op("Mul", held["momentum_buffer"], momentum)
        mixed = w.op("Add", before, w.op("Mul", step, at("share")))
        kept["momentum_buffer"] = mixed
        step = w.op("Add", step, w.op("Mul", mixed, momentum)) if "nesterov" in terms else mixed
    return w.op("Sub", variable, w.op("Mul", step, at("rate"))), kept


def _adam(
    w: Writer,
    terms: tuple[str, ...],
    variable: weft.Entry,
    gradient: weft.Entry,
    at: Callable[[str], weft.Entry],
    held: Kept,
) -> tuple[weft.Entry, Kept]:
    base = variable
    if "apart" in terms:
        base = w.op("Mul", variable, at("keep"))
    elif "decay" in terms:
        gradient = w.op("Add", gradient, w.op("Mul", variable, at("decay")))
    first = w.op("Mul", held["exp_avg"], at("beta1"))
    mean = w.op("Add", first, w.op("Mul", gradient, at("rest1")))
    second = w.op("Mul", held["exp_avg_sq"], at("beta2"))
    square = w.op("Add", second, w.op("Mul", w.op("Mul", gradient, gradient), at("rest2")))
    deviation = w.op("Add", w.op("Div", w.op("Sqrt", square), at("root")), at("eps"))
    update = w.op("Mul", w.op("Div", mean, deviation), at("size"))
    return w.op("Sub", base, update), {"exp_avg": mean, "exp_avg_sq": square}


def reached(gradients: Mapping[str, weft.Entry]) -> set[str]:
    """Parameters that the loss depends on; torch leaves the others as they are."""
    return {n for n, g in gradients.items() if g.node.op != "weft::Zeros"}


# ---- as a part of an exported graph ----


def updates_of(optimizer: Any, model: Any) -> Updates:
    """What the optimizer's `step` does, for the parameters of `model` that it holds. Its state
    begins with what it holds now."""
    kind = kind_of(optimizer)
    names = {id(p): name for name, p in model.named_parameters()}
    for group in optimizer.param_groups:
        structure(kind, group)

    def add(builder: GraphBuilder, gradients: Mapping[str, weft.Entry]) -> None:
        writer = Writer(builder)
        depends = reached(gradients)
        for number, group in enumerate(optimizer.param_groups):
            members = [(names[id(p)], p) for p in group["params"] if id(p) in names]
            held = [(n, p) for n, p in members if n in depends]
            if held:
                _add_group(writer, kind, optimizer, group, number, held, gradients)

    return add


def _add_group(
    w: Writer,
    kind: str,
    optimizer: Any,
    group: Mapping[str, Any],
    number: int,
    held: list[tuple[str, Any]],
    gradients: Mapping[str, weft.Entry],
) -> None:
    terms = structure(kind, group)
    values = coefficients(kind, group, 1)
    counted: dict[str, weft.Entry] = {}
    if kind != "SGD":
        counted = _count_steps(w, optimizer, group, number, held)
    for name, parameter in held:
        dtype = dtype_of(parameter)
        saved = optimizer.state.get(parameter, {})

        def slot(key: str, n: str = name, p: Any = parameter, s: Any = saved) -> weft.Entry:
            value = s.get(key)
            content = (
                np.zeros(tuple(p.shape), dtype_of(p))
                if value is None
                else value.detach().cpu().numpy()
            )
            return w.state(f"optimizer.{n}.{key}", content)

        own = dict(counted)
        if kind == "SGD" and slots(kind, terms) and group["dampening"]:
            if saved.get("momentum_buffer") is None:
                begun = w.state(f"optimizer.{name}.begun", np.zeros((), bool))
                share = w.number(values["share"], "float64"), w.number(1, "float64")
                own["share"] = w.op("Where", begun, *share)
                w.assign(begun, w.graph.constant(np.ones((), bool)), f"{name}.begun")

        def at(key: str, kind: str, o: Mapping[str, weft.Entry] = own) -> weft.Entry:
            if key not in o:
                return w.number(values[key], kind)
            return o[key] if kind == "float64" else w.cast(o[key], kind)

        write_step(w, kind, terms, name, dtype, gradients[name], at, slot)


def dtype_of(parameter: Any) -> str:
    return str(parameter.dtype).removeprefix("torch.")


def _count_steps(
    w: Writer,
    optimizer: Any,
    group: Mapping[str, Any],
    number: int,
    held: list[tuple[str, Any]],
) -> dict[str, weft.Entry]:
    """Adam's step size and the root of its correction, by a counter that the graph has."""
    steps = {float(optimizer.state.get(p, {}).get("step", 0)) for _, p in held}
    if len(steps) != 1:
        raise ValueError("parameters of one group have taken different numbers of steps")
    beta1, beta2 = (float(b) for b in group["betas"])
    # Counted in double, as torch computes its corrections.
    counter = w.state(f"optimizer.step_{number}", np.array(steps.pop(), np.float64))
    one = w.number(1, "float64")
    t = w.op("Add", counter, one)
    w.assign(counter, t, f"optimizer.step_{number}")
    correction1 = w.op("Sub", one, w.op("Pow", w.number(beta1, "float64"), t))
    correction2 = w.op("Sub", one, w.op("Pow", w.number(beta2, "float64"), t))
    return {
        "size": w.op("Div", w.number(float(group["lr"]), "float64"), correction1),
        "root": w.op("Sqrt", correction2),
    }
