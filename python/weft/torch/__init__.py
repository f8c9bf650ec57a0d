"""PyTorch models in Weft: capture, translation, export.

    import weft.torch

    exported = weft.torch.export(model, (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})
    exported.save("model.onnx")
    session = weft.Session(exported.compile())

Nothing is computed at export: the module runs once on tensors without content. torch is imported
when a module is captured; reading `.pt2` files and recorded models needs none.
"""

from weft.torch.exporting import (
    Exported,
    ExportError,
    SpecializationWarning,
    build,
    export,
)
from weft.torch.linting import Obstacle, lint
from weft.torch.translate.core import RULES, Translation, Untranslatable, Val, rule
from weft.torch.translate.gradient import gradient

__all__ = [
    "RULES",
    "ExportError",
    "Exported",
    "Obstacle",
    "SpecializationWarning",
    "Translation",
    "Untranslatable",
    "Val",
    "build",
    "export",
    "gradient",
    "lint",
    "rule",
]
