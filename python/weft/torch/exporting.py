"""`export`: from a module, an exported program or a `.pt2` file to a graph of Weft."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import weft
from weft.torch.graph import GraphBuilder
from weft.torch.record import Record, Specialization
from weft.torch.translate.core import Rule, Translation, missing_rules

if TYPE_CHECKING:
    import torch

    from weft.torch.capture.recorder import Captured


class SpecializationWarning(UserWarning):
    """A dynamic size is a number in the graph, since the model's code asks for it."""


class ExportError(weft.Error):
    """The model cannot be brought over; the message names every obstacle."""


@dataclass(slots=True)
class Exported:
    """A graph and what it was made of. `graph` compiles as any other."""

    graph: weft.Graph
    record: Record
    # Names of the parameters that have a gradient among the outputs, in their order.
    gradients: tuple[str, ...] = ()
    specializations: tuple[Specialization, ...] = field(default=())

    def save(self, path: str | os.PathLike[str], **options: Any) -> None:
        """`.onnx`, `.weft`, `.json`: the graph; `.weftx`: compiled, by options of `compile`."""
        text = os.fspath(path)
        if text.endswith(".weftx"):
            self.compile(**options).save(text)
        else:
            weft.save(self.graph, text, **options)

    def compile(self, **options: Any) -> weft.Program:
        return weft.compile(self.graph, **options)


def build(
    record: Record,
    tensors: Mapping[str, Any],
    *,
    rules: Mapping[str, Rule] | None = None,
    loss: str | None = None,
    only: Sequence[str] | None = None,
    variables: Collection[str] = (),
    updates: Callable[[GraphBuilder, Mapping[str, weft.Entry]], None] | None = None,
) -> Exported:
    """A record's graph. With `loss`, the name of an output, gradients of that as outputs
    `grad_NAME`; `updates` adds what an optimizer makes of them. Weights named in `variables` are
    state of the program, which begins with what `tensors` has of it. Needs no torch."""
    missing = missing_rules(record, rules)
    if missing:
        lines = "\n".join(f"  {place}" for place in dict.fromkeys(missing))
        raise ExportError(f"operators without a rule:\n{lines}")
    written = {*variables, *written_sources(record)}
    if updates is not None:
        written.update(s.name for s in record.sources if s.trainable)
    builder = GraphBuilder(tensors, tuple(written))
    translation = Translation(record, builder, rules, with_gradients=loss is not None)
    translation.sources()
    translation.run()
    translation.outputs()
    names: list[str] = []
    if loss is not None:
        if loss not in builder.outputs:
            raise ExportError(f"the model has no output '{loss}': {', '.join(builder.outputs)}")
        names = [n for n in builder.trainable if only is None or n in only]
        entries = [builder.trainable[n] for n in names]
        made = weft.gradients([builder.outputs[loss]], entries) if entries else []
        gradients = dict(zip(names, made))
        builder.close_borders()
        if updates is not None:
            updates(builder, gradients)
        else:
            for name, entry in gradients.items():
                builder.output(f"grad_{name}", entry)
    graph = builder.finish()
    return Exported(graph, record, tuple(names), tuple(record.specializations))


def written_sources(record: Record) -> tuple[str, ...]:
    """What the graph writes: updates, and running statistics, which normalisation in training
    writes though its schema is silent."""
    sources = {s.value: s.name for s in record.sources}
    written = set(record.updates)
    for node in record.nodes:
        if "batch_norm" in node.op and any(a is True for a in node.args):
            for a in node.args[3:5]:
                index = getattr(a, "index", None)
                if index in sources:
                    written.add(sources[index])
    return tuple(sorted(written))


def capture(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    gradients: bool = False,
) -> Captured:
    """The record of a module by the recorder, or by torch.export where that is needed."""
    import torch

    from weft.torch.capture import fx, recorder

    if isinstance(model, torch.export.ExportedProgram):
        return fx.read_exported(model)
    try:
        return recorder.record(model, args, kwargs, dynamic_shapes, gradients=gradients)
    except recorder.NeedsExport:
        if gradients or not isinstance(model, torch.nn.Module):
            raise
        program = torch.export.export(
            model, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes, strict=False
        )
        return fx.read_exported(program)


def export(
    model: torch.nn.Module | torch.export.ExportedProgram | str | os.PathLike[str],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    loss: str | Callable[..., Any] | None = None,
    targets: Sequence[Any] = (),
    optimizer: torch.optim.Optimizer | None = None,
    rules: Mapping[str, Rule] | None = None,
) -> Exported:
    """Brings a model over; it is run once on tensors without content, and nothing is computed.

    `dynamic_shapes` is torch.export's. `loss` is the name of an output, or a function of the
    model's result and `targets`, which become inputs; then gradients of all parameters that
    require them are outputs `grad_NAME`, or, with an `optimizer`, its step is taken instead. A
    `.pt2` file needs no torch.
    """
    if isinstance(model, (str, os.PathLike)):
        from weft.torch.pt2 import read_pt2

        record, arrays = read_pt2(model)
        return build(record, arrays, rules=rules)
    module: Any = model
    inputs = dict(kwargs or {})
    if callable(loss):
        from weft.torch.capture.losses import with_loss

        module, args, dynamic_shapes = with_loss(model, loss, args, targets, dynamic_shapes)
    captured = capture(module, args, inputs, dynamic_shapes, gradients=loss is not None)
    if callable(loss):
        from weft.torch.capture.losses import strip_prefix

        captured = strip_prefix(captured)
    for found in captured.record.specializations:
        if found.symbol is not None:
            where = f" at {found.place}" if found.place else ""
            warnings.warn(
                f"'{found.symbol}' is fixed: {found.fact}{where}", SpecializationWarning, 2
            )
    updates = None
    if optimizer is not None:
        if loss is None:
            raise ExportError("an optimizer needs a loss")
        from weft.torch.optimizers import updates_of

        updates = updates_of(optimizer, model)
    return build(
        captured.record,
        captured.tensors,
        rules=rules,
        loss=None if loss is None else loss if isinstance(loss, str) else "loss",
        updates=updates,
    )
