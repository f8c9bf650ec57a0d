"""Folders of `write_test_case`, read back by others: onnx's protobuf, ONNX Runtime, Weft's importer
and its `Gradient` over the file's own forward part."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from common import distance
from lenet import LeNet
from onnx import numpy_helper

import weft
import weft.torch


def _lenet(folder: pathlib.Path) -> None:
    x, y = torch.randn(4, 1, 28, 28), torch.randint(0, 10, (4,))
    weft.torch.write_test_case(LeNet(), (x,), folder, loss=F.cross_entropy, targets=(y,))


def _resnet18(folder: pathlib.Path) -> None:
    import torchvision

    # In double: at 16 values a channel, gradients of floats are noise of some thousandths.
    model = torchvision.models.resnet18(num_classes=10).train().double()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    x, y = torch.randn(4, 3, 64, 64).double(), torch.randint(0, 10, (4,))
    weft.torch.write_test_case(model, (x,), folder, loss=F.cross_entropy, targets=(y,))
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def _bert(folder: pathlib.Path) -> None:
    import transformers_set

    model, kwargs = transformers_set.ALL["bert"]()
    weft.torch.write_test_case(model, (), folder, kwargs)


class Counting(torch.nn.Module):
    """Returns a buffer that it writes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total


class Doubling(torch.nn.Module):
    """Writes an input, and returns it as it is behind that."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.mul_(2)
        return x + 1, x


def _counting(folder: pathlib.Path) -> None:
    model = Counting()
    weft.torch.write_test_case(model, (torch.ones(2),), folder)
    assert torch.equal(model.total, torch.zeros(2))
    assert np.array_equal(_read(folder / "test_data_set_0", "output")["output"], [1, 1])


def _doubling(folder: pathlib.Path) -> None:
    weft.torch.write_test_case(Doubling(), (torch.ones(2),), folder)
    data = folder / "test_data_set_0"
    assert np.array_equal(_read(data, "input")["x"], [1, 1])
    assert np.array_equal(_read(data, "output")["updated_x"], [2, 2])


CASES: dict[str, Callable[[pathlib.Path], None]] = {
    "LeNet with gradients": _lenet,
    "ResNet-18 in training and double, with gradients": _resnet18,
    "BERT": _bert,
    "a buffer that is written": _counting,
    "an input that is written": _doubling,
}


def _read(folder: pathlib.Path, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for i in range(len(list(folder.glob(f"{kind}_*.pb")))):
        proto = onnx.TensorProto.FromString((folder / f"{kind}_{i}.pb").read_bytes())
        found[proto.name] = numpy_helper.to_array(proto)
    return found


def error(name: str) -> float:
    """The largest difference of results, in ONNX Runtime and Weft, and of gradients in Weft."""
    import onnxruntime

    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        CASES[name](folder)
        data = folder / "test_data_set_0"
        inputs, outputs = _read(data, "input"), _read(data, "output")
        gradients = _read(data, "gradient")
        assert ("gradients" in name) == bool(gradients)
        graph = weft.load(folder / "model.onnx")
        assert [e.name for e in graph.inputs] == list(inputs)
        assert graph.output_names == list(outputs)
        results = [weft.Session(weft.compile(graph)).run(inputs)]
        if "double" not in name:  # ONNX Runtime lacks its convolutions
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            other = onnxruntime.InferenceSession(
                str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
            )
            results.append(other.run(list(outputs), inputs))
        worst = 0.0
        for got in results:
            for g, w in zip(got, outputs.values()):
                worst = max(worst, distance(g, w))
        if gradients:
            loss = graph.outputs[graph.output_names.index("loss")]
            entries = {n.name: n.outputs[0] for n in graph.params}
            made = weft.gradients([loss], [entries[n] for n in gradients])
            graph.outputs = dict(zip(gradients, made))
            got = weft.Session(weft.compile(graph)).run(inputs)
            longest = max(float(np.abs(g).max()) for g in gradients.values())
            for g, w in zip(got, gradients.values()):
                worst = max(worst, float(np.abs(np.asarray(g) - w).max()) / longest)
        return worst
