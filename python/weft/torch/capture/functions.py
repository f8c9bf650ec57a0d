"""Custom `autograd.Function`s: their forward calls are recorded, their backward is not.

functorch refuses functions without `setup_context`. Where no gradient is asked for, `forward` is
all that counts, and is called as it is; else the function is refused by its name, since a gradient
made of its forward calls would not be its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from weft.torch.capture import private


class _Context:
    """What forward may ask of its ctx; nothing reads it."""

    needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Any) -> None: ...

    def mark_non_differentiable(self, *tensors: Any) -> None: ...

    def set_materialize_grads(self, value: bool) -> None: ...


@contextlib.contextmanager
def forward_only(refuse: Callable[[str], Exception] | None) -> Iterator[None]:
    """Functions applied inside run their forward alone, or raise what `refuse` makes of a name."""

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if refuse is not None:
            raise refuse(f"{cls.__module__}.{cls.__qualname__}")
        with torch.no_grad():
            if private.has_setup_context(cls):
                return cls.forward(*args, **kwargs)
            return cls.forward(_Context(), *args, **kwargs)

    with private.replaced_apply(classmethod(apply)):
        yield
