"""A model with its loss, as one module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from weft.torch.capture.recorder import Captured

_MODEL = "weft_model"
_LOSS = "weft_loss"


class _WithLoss(torch.nn.Module):  # type: ignore[misc,unused-ignore]
    def __init__(self, model: Any, loss: Callable[..., Any], count: int, names: list[str]) -> None:
        super().__init__()
        setattr(self, _MODEL, model)
        setattr(self, _LOSS, loss)
        self._count = count
        self.input_names = names

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        result = getattr(self, _MODEL)(*args[: self._count], **kwargs)
        value = getattr(self, _LOSS)(result, *args[self._count :])
        outputs = {"loss": value}
        if isinstance(result, torch.Tensor):
            outputs["output"] = result
        elif isinstance(result, dict):
            outputs.update({k: v for k, v in result.items() if k != "loss"})
        else:
            outputs.update({f"output_{i}": v for i, v in enumerate(result)})
        return outputs


def with_loss(
    model: Any,
    loss: Callable[..., Any],
    args: Sequence[Any],
    targets: Sequence[Any],
    dynamic_shapes: Any,
) -> tuple[torch.nn.Module, tuple[Any, ...], Any]:
    """The module, its arguments, and dynamic_shapes with those of the targets, by name."""
    import inspect

    parameters = [
        p.name
        for p in inspect.signature(model.forward).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    names = [parameters[i] if i < len(parameters) else f"arg{i}" for i in range(len(args))]
    labels = ["target"] if len(targets) == 1 else [f"target_{i}" for i in range(len(targets))]
    module = _WithLoss(model, loss, len(args), [*names, *labels])
    module.training = model.training  # alone: parts may be in another mode
    return module, (*args, *targets), dynamic_shapes


def strip_prefix(captured: Captured) -> Captured:
    """Names of the model's own parameters, without that of the module around it."""

    def short(name: str) -> str:
        return name.removeprefix(f"{_MODEL}.").replace(f"{_LOSS}.", "loss.")

    record = captured.record
    record.sources = [
        replace(s, name=short(s.name), ties=tuple(map(short, s.ties))) for s in record.sources
    ]
    record.updates = {short(name): value for name, value in record.updates.items()}
    tensors = {short(name): t for name, t in captured.tensors.items()}
    return Captured(record, tensors, captured.held)
