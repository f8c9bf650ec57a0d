"""`write_test_case`: a model with what torch computes by it, in the folder form of ONNX's tests.

    FOLDER/model.onnx
    FOLDER/test_data_set_0/input_0.pb ..     in the order of the model's inputs
                           output_0.pb ..    in the order of its outputs
                           gradient_0.pb ..  of the loss by a parameter, which the tensor's name is

Unlike an export, it executes the model.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import weft
from weft.torch.exporting import Exported, export

# TensorProto.DataType by torch's names.
_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
    "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16,
}  # fmt: skip


def write_test_case(
    model: Any,
    args: Sequence[Any],
    folder: str | os.PathLike[str],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    loss: Callable[..., Any] | None = None,
    targets: Sequence[Any] = (),
    **options: Any,
) -> Exported:
    """Exports `model`, runs it in torch, and writes both. With `loss`, the loss is the first output
    of the model, and there is a `gradient_*.pb` of each parameter that it depends on. Statistics
    that a run in training mode changes are put back. `options` are those of `weft.export_onnx`."""
    import torch

    from weft.torch.capture.losses import with_loss
    from weft.torch.capture.recorder import flatten_inputs, flatten_outputs

    inputs = dict(kwargs or {})
    exported = export(
        model, args, inputs, dynamic_shapes=dynamic_shapes, loss=loss, targets=targets
    )
    graph = exported.graph
    outputs = dict(zip(graph.output_names, graph.outputs))
    for name in exported.gradients:
        del outputs[f"grad_{name}"]
    graph.outputs = outputs
    for node in graph.nodes:
        if node.op == "weft::Assign":
            graph.erase(node)
    graph.erase_dead()
    module, given = model, tuple(args)
    if loss is not None:
        module, given, _ = with_loss(model, loss, args, targets, None)
    # What goes in and comes out may change later: the model writes to inputs and buffers, and these
    # are put back.
    leaves = _copies(flatten_inputs(module, given, inputs))
    with _kept_buffers(model), torch.set_grad_enabled(loss is not None):
        result = module(*given, **inputs)
        updated = [(f"updated_{n}", k, x) for n, k, x in flatten_inputs(module, given, inputs)]
        results = _copies(leaf for leaf in updated if leaf[0] in graph.output_names)
        results |= _copies((n, (), leaf) for n, leaf in flatten_outputs(result))
        names = [n for n, p in model.named_parameters() if n in exported.gradients]
        gradients: Sequence[Any] = ()
        if loss is not None and names:
            held = dict(model.named_parameters())
            gradients = torch.autograd.grad(
                result["loss"], [held[n] for n in names], allow_unused=True
            )
    place = pathlib.Path(folder)
    data = place / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    for old in data.glob("*.pb"):
        old.unlink()
    weft.export_onnx(graph, place / "model.onnx", **options)
    for i, entry in enumerate(graph.inputs):
        _write(data / f"input_{i}.pb", entry.name, leaves[entry.name])
    for i, name in enumerate(graph.output_names):
        _write(data / f"output_{i}.pb", name, results[name])
    reached = [(n, g) for n, g in zip(names, gradients) if g is not None]
    for i, (name, gradient) in enumerate(reached):
        _write(data / f"gradient_{i}.pb", name, gradient)
    return exported


@contextmanager
def _kept_buffers(model: Any) -> Iterator[None]:
    """Running statistics as they were before."""
    import torch

    before = [(b, b.detach().clone()) for b in model.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, content in before:
                buffer.copy_(content)


def _copies(leaves: Iterable[tuple[str, Any, Any]]) -> dict[str, Any]:
    """Of the tensors among them, by name."""
    import torch

    return {n: x.detach().clone() for n, _, x in leaves if isinstance(x, torch.Tensor)}


def _write(path: pathlib.Path, name: str, tensor: Any) -> None:
    import torch

    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in _TYPES:
        raise weft.UnsupportedError(f"'{name}' is of dtype {dtype}, which ONNX's files lack")
    flat = tensor.detach().cpu().contiguous()
    raw = (flat.view(torch.int16) if dtype == "bfloat16" else flat).numpy().tobytes()
    path.write_bytes(tensor_proto(name, _TYPES[dtype], list(tensor.shape), raw))


def tensor_proto(name: str, data_type: int, dims: Sequence[int], raw: bytes) -> bytes:
    """ONNX's TensorProto: dims = 1, data_type = 2, name = 8, raw_data = 9."""
    text = name.encode()
    parts = [b"".join(b"\x08" + _varint(d) for d in dims), b"\x10", _varint(data_type)]
    return b"".join([*parts, b"\x42", _varint(len(text)), text, b"\x4a", _varint(len(raw)), raw])


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
