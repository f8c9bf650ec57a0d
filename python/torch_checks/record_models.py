"""Writes python/tests/recorded: record_models.py [NAME ...]."""

from __future__ import annotations

import gzip
import json
import pathlib
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

import seeded  # noqa: E402
import transformers_set  # noqa: E402
from lenet import LeNet  # noqa: E402

from weft.torch.capture.losses import strip_prefix, with_loss  # noqa: E402
from weft.torch.capture.recorder import Captured, record  # noqa: E402
from weft.torch.record import Frame, Record  # noqa: E402

TARGET = HERE.parent / "tests" / "recorded"
# With gradients: one of each kind of layer.
TRAINED = {"lenet", "bert", "gpt2", "llama", "t5", "vit", "swin", "convnext", "wav2vec2"}


def models() -> dict[str, Any]:
    import torchvision

    def picture(make: Any, *shape: int) -> Any:
        batch = torch.export.Dim("batch")
        return lambda: (
            make().eval(),
            [{"x": torch.zeros(n, *shape)} for n in (2, 3)],
            {"x": {0: batch}},
        )

    made = {
        "lenet": picture(LeNet, 1, 28, 28),
        "resnet18": picture(torchvision.models.resnet18, 3, 64, 64),
        "mobilenet_v2": picture(torchvision.models.mobilenet_v2, 3, 64, 64),
    }
    for name in transformers_set.ALL:
        made[name] = lambda n=name: transformers_set.bindings(n)
    return made


def _first(result: Any) -> torch.Tensor:
    """A number that all of the first result goes into, evenly."""
    x = result if isinstance(result, torch.Tensor) else next(iter(result.values()))
    weights = torch.linspace(-1, 1, x.shape[-1], dtype=x.dtype)
    return (x * weights).square().mean()


def _keep(array: Any) -> dict[str, Any]:
    values = np.asarray(array)
    return {
        "dtype": values.dtype.name,
        "dims": list(values.shape),
        "values": values.ravel().tolist(),
    }


def _seed(module: torch.nn.Module) -> dict[str, Any]:
    """Gives the module its seeded weights; what is not seeded is returned."""
    kept: dict[str, Any] = {}
    with torch.no_grad():
        for kind, named in (
            ("parameter", module.named_parameters()),
            ("buffer", module.named_buffers()),
        ):
            for name, tensor in named:
                dtype = str(tensor.dtype).removeprefix("torch.")
                if seeded.is_seeded(name, dtype, kind):
                    array = seeded.make_weight(name, list(tensor.shape), dtype)
                    tensor.copy_(torch.from_numpy(array))
                else:
                    kept[name] = _keep(tensor.numpy())
    return kept


def _strip(record_: Record) -> None:
    """Places of the files within their packages: nothing of this machine."""

    def short(frame: Frame) -> Frame:
        return replace(
            frame, file=frame.file.rsplit("site-packages/", 1)[-1].rsplit("/python/", 1)[-1]
        )

    record_.stacks = [tuple(short(f) for f in stack[:1]) for stack in record_.stacks]
    record_.specializations = [
        replace(s, place=short(s.place) if s.place else None) for s in record_.specializations
    ]


def _inputs(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Floats by their seed, which they are given here; others as they are."""
    plain: dict[str, Any] = {}
    for name, value in kwargs.items():
        if not isinstance(value, torch.Tensor):
            continue
        if value.is_floating_point():
            dims = list(value.shape)
            kwargs[name] = torch.from_numpy(seeded.make_input(name, dims, "float32"))
            plain[name] = {"dtype": "float32", "dims": dims, "seed": name}
        else:
            plain[name] = _keep(value.numpy())
    return plain


def write(name: str, make: Any) -> int:
    module, bindings, shapes = make()
    kept = _seed(module)
    trained = name in TRAINED
    inputs = [_inputs(kwargs) for kwargs in bindings]
    captured: Captured
    if trained:
        whole, args, _ = with_loss(module, _first, (), (), None)
        captured = strip_prefix(record(whole, args, bindings[0], shapes, gradients=True))
    else:
        captured = record(module, (), bindings[0], shapes)
    for source in captured.record.sources:
        if source.kind == "constant":
            kept[source.name] = _keep(captured.tensors[source.name].numpy())
    names = [o.name for o in captured.record.outputs]
    cases = []
    for kwargs, plain in zip(bindings, inputs):
        module.zero_grad()
        result = module(**kwargs)
        flat = {"output": result} if isinstance(result, torch.Tensor) else dict(result)
        outputs = {
            n: seeded.project(n, v.detach().numpy())
            for n, v in flat.items()
            if n in names and isinstance(v, torch.Tensor)
        }
        if trained:
            loss = _first(result)
            loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
            outputs["loss"] = seeded.project("loss", loss.detach().numpy())
            for n, p in module.named_parameters():
                if p.grad is not None:
                    outputs[f"grad_{n}"] = seeded.project(f"grad_{n}", p.grad.numpy())
        cases.append({"inputs": plain, "outputs": outputs})
    _strip(captured.record)
    plain = {
        "record": json.loads(captured.record.to_json()),
        "kept": kept,
        "loss": "loss" if trained else None,
        "cases": cases,
    }
    TARGET.mkdir(exist_ok=True)
    data = gzip.compress(json.dumps(plain, separators=(",", ":")).encode(), 9, mtime=0)
    (TARGET / f"{name}.json.gz").write_bytes(data)
    return len(data)


def main() -> None:
    table = models()
    for name in sys.argv[1:] or table:
        print(name, write(name, table[name]), flush=True)


if __name__ == "__main__":
    main()
