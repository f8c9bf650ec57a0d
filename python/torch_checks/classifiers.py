"""torchvision's classifiers with random weights and statistics."""

from __future__ import annotations

from typing import Any

import torch


def names() -> list[str]:
    import torchvision

    return [str(n) for n in torchvision.models.list_models(module=torchvision.models)]


def make(name: str) -> tuple[Any, int]:
    """The model, and the size of its pictures."""
    import torchvision

    torch.manual_seed(0)
    extra = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    model = torchvision.models.get_model(name, weights=None, **extra).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            assert module.running_mean is not None and module.running_var is not None
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    return model, 299 if name == "inception_v3" else 224
