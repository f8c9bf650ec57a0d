"""Tensors of torch's modules and optimizers in the places that hold them.

A train step works in their memory. What may happen to them between two runs is seen here: another
tensor in the place, other memory behind it, another size, no memory at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

import weft
from weft._weft import _Watch
from weft.torch.capture import private

class Constants:
    """Tensors that a program has the content of: those that the loss's closure holds, and
    attributes of modules that are no buffers."""

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        # One of inference mode counts no writes.
        self._tensors = [t for t in tensors if not t.is_inference()]
        self._seen = self._look()

    def _look(self) -> list[tuple[int, int]]:
        return [(t.data_ptr(), private.version(t)) for t in self._tensors]

    def unchanged(self) -> bool:
        return not self._tensors or self._look() == self._seen


def tensors_of(module: torch.nn.Module, watch: _Watch) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name, tied ones by their first."""
    for part in module.modules():
        for holder in private.module_holders(part):
            watch.hold(holder)
    found = dict(module.named_parameters())
    for name, tensor in module.named_buffers():
        found.setdefault(name, tensor)
    return found


def check(name: str, tensor: torch.Tensor) -> None:
    """That a tensor is one whose memory can be worked in."""
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        problem, hint = "is not initialised", "run the model once, which sets its size"
    elif type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        problem, hint = f"is of class {type(tensor).__name__}", "give a plain tensor"
    elif tensor.layout is not torch.strided:
        problem, hint = f"has the layout {tensor.layout}", "give a dense tensor"
    elif tensor.device.type != "cpu":
        problem, hint = f"is on the device '{tensor.device}'", "move the model to the CPU"
    elif tensor.is_complex():
        problem, hint = f"is of dtype {tensor.dtype}", "use two real tensors"
    elif tensor.numel() and not tensor.data_ptr():
        problem, hint = "has lost its memory", "give it memory again before the step"
    elif not tensor.is_contiguous():
        problem, hint = "is not contiguous", "keep the model in the default memory format"
    else:
        return
    raise weft.UnsupportedError(f"'{name}' {problem}", "", f"tensor '{name}'", hint)


def refuse_hooks(named: Iterable[tuple[str, torch.Tensor]], optimizer: Any) -> None:
    """Hooks on gradients and steps would not be called."""
    for name, tensor in named:
        if private.has_gradient_hooks(tensor):
            raise weft.UnsupportedError(
                f"the parameter '{name}' has a hook on its gradient, which a train step does not "
                "call",
                "",
                f"parameter '{name}'",
                "remove the hook, or step without TrainStep",
            )
    if private.has_step_hooks(optimizer):
        raise weft.UnsupportedError(
            "the optimizer has hooks on its step, which a train step does not call",
            "",
            type(optimizer).__name__,
            "remove the hooks, or step without TrainStep",
        )


class Steps:
    """Numbers of steps of the parameters of a group: the optimizer's `step` of each is an element
    of one vector here, so that all are counted at once."""

    def __init__(self, count: int) -> None:
        wide = torch.get_default_dtype() == torch.float64
        self.vector = torch.zeros(count, dtype=torch.float64 if wide else torch.float32)
        self._memory = self.vector.numpy()
        self._values: list[float] = []
        self._version = -1

    def values(self) -> list[float]:
        """As they are now, whoever has counted."""
        if private.version(self.vector) != self._version:
            self._values, self._version = self.vector.tolist(), private.version(self.vector)
        return self._values

    def count(self, positions: Sequence[int]) -> None:
        """One more step of the parameters in these places. Not by torch's operators, which take
        longer than all else of it: `vector` is one of the tensors of which the step tells autograd
        that they are written."""
        values = self.values()
        for i in positions:
            values[i] += 1
            self._memory[i] = values[i]

    def told(self) -> None:
        """The content is what was counted here: autograd has been told."""
        self._version = private.version(self.vector)


class ParameterState:
    """What an optimizer remembers of one parameter, in torch's own tensors."""

    def __init__(
        self,
        optimizer: Any,
        parameter: torch.Tensor,
        keys: tuple[str, ...],
        steps: Steps | None,
        position: int,
    ) -> None:
        self._optimizer, self.parameter, self.keys = optimizer, parameter, keys
        self.steps, self.position = steps, position
        held = optimizer.state.get(parameter) or {}
        counted = steps is None or held.get("step") is not None
        # Put into the optimizer once there has been a step, as torch does.
        self.fresh = not counted or any(held.get(k) is None for k in keys)
        self.entries: dict[str, Any] = dict(held) if self.fresh or not held else held
        for key in keys:
            if self.entries.get(key) is None:
                self.entries[key] = torch.zeros_like(parameter.detach())
        if steps is not None:
            element = steps.vector[position]
            element.fill_(float(self.entries.get("step", 0)))
            self.entries["step"] = element

    def past(self) -> int:
        """Steps taken so far; of SGD, whether there were any."""
        if self.steps is not None:
            return int(self.steps.values()[self.position])
        return 0 if self.fresh else 1

    def install(self) -> None:
        """Where torch has it: a step was taken."""
        held = self._optimizer.state[self.parameter]
        held.update(self.entries)
        self.entries, self.fresh = held, False
