"""PyTorch models in Weft: capture, translation, export.

    import weft.torch

    exported = weft.torch.export(model, (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})
    exported.save("model.onnx")
    session = weft.Session(exported.compile())

Nothing is computed at export: the module runs once on tensors without content. torch is imported
when a module is captured; reading `.pt2` files and recorded models needs none.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from weft.torch.exporting import (
    Exported,
    ExportError,
    SpecializationWarning,
    build,
    export,
)
from weft.torch.linting import Obstacle, lint
from weft.torch.test_case import write_test_case
from weft.torch.translate.core import RULES, Translation, Untranslatable, Val, rule
from weft.torch.translate.gradient import gradient

# Threads that wait let others work soon. Has an effect where torch, which brings OpenMP, is not
# loaded yet.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

if TYPE_CHECKING:
    from weft.torch.dynamo.explaining import Explanation
    from weft.torch.train_step import TrainStep as TrainStep

__all__ = [
    "RULES",
    "ExportError",
    "Exported",
    "Obstacle",
    "SpecializationWarning",
    "TrainStep",
    "Translation",
    "Untranslatable",
    "Val",
    "build",
    "explain",
    "export",
    "gradient",
    "lint",
    "rule",
    "touch",
    "write_test_case",
]

def explain(*args: Any, **kwargs: Any) -> Explanation:
    """What `torch.compile(model, backend="weft")` makes of a model: `explain(model, args, kwargs)`.

    Compiles it for these arguments and runs it once. The result tells the graphs, how many
    operators are in Weft's programs, and each that is left to torch with the reason; `print` it.
    `dynamic` and `options` are those of torch.compile. Where grad mode is on and parameters require
    gradients, the backward part is told as well.
    """
    from weft.torch.dynamo import explaining

    return explaining.explain(*args, **kwargs)


def touch() -> None:
    """Parameters of compiled models may have changed in a way that torch does not count: they are
    looked at anew."""
    from weft._weft import _touch

    _touch()


def __getattr__(name: str) -> Any:
    """What imports torch is imported when it is asked for."""
    if name == "TrainStep":
        from weft.torch.train_step import TrainStep

        return TrainStep
    raise AttributeError(f"module 'weft.torch' has no attribute {name!r}")
