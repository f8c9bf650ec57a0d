"""Records of fx graphs: what torch.export and AOTAutograd give.

Types are what tracing has noted of each node (`meta["val"]`); nodes that compute sizes are
dropped, since sizes are expressions. In-place calls of an exported program become values
(`weft.torch.functional`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from weft.torch.capture import private
from weft.torch.capture.recorder import Captured, rename
from weft.torch.functional import make_functional
from weft.torch.pt2 import FRAME_PATTERN, user_frames
from weft.torch.record import (
    Argument,
    Body,
    DType,
    Node,
    Output,
    Record,
    Ref,
    Size,
    SizeType,
    Source,
    Symbol,
    TensorType,
)

_READS_NUMBER = ("aten._local_scalar_dense.default", "aten.item.default")


class FxReader:
    """One fx graph. Placeholders become sources as `source` says."""

    def __init__(self, module: torch.fx.GraphModule, names: Mapping[str, str]) -> None:
        self.module = module
        self.record = Record()
        self._names = names
        self._numbers: dict[torch.fx.Node, int] = {}
        self._parts: dict[torch.fx.Node, list[int | None]] = {}
        self._stack_numbers: dict[str, int] = {}
        self.attributes: dict[str, torch.Tensor] = {}

    # ---- values ----

    def define(self, value: Any) -> int:
        if isinstance(value, torch.Tensor):
            dims = tuple(self._size(d) for d in value.shape)
            self.record.values.append(TensorType(_dtype_name(value.dtype), dims))
        else:
            size = self._size(value)
            self.record.values.append(SizeType(size.text if isinstance(size, Size) else str(size)))
        return len(self.record.values) - 1

    def _size(self, value: Any) -> int | Size:
        if isinstance(value, int):
            return value
        text = rename(private.size_text(value), self._names)
        return int(text) if text.lstrip("-").isdigit() else Size(text)

    def bind(self, node: torch.fx.Node, number: int) -> None:
        self._numbers[node] = number

    def argument(self, a: Any) -> Argument:
        if isinstance(a, torch.fx.Node):
            if a in self._numbers:
                return Ref(self._numbers[a])
            value = a.meta.get("val")
            if isinstance(value, (torch.SymInt, torch.SymFloat)):
                return self._size(value)
            if isinstance(value, (bool, int, float)):
                return value
            if a.op == "get_attr":
                return self._attribute(a)
            raise ValueError(f"{a.format_node()} gives no value that a record can hold")
        if isinstance(a, (list, tuple)):
            return tuple(self.argument(part) for part in a)
        if a is None or isinstance(a, (bool, int, float, str)):
            return a
        if isinstance(a, torch.dtype):
            return DType(_dtype_name(a))
        if isinstance(a, (torch.device, torch.layout, torch.memory_format)):
            return str(a).removeprefix("torch.")
        if isinstance(a, (torch.SymInt, torch.SymFloat)):
            return self._size(a)
        raise ValueError(f"argument of type {type(a).__name__}")

    def _attribute(self, node: torch.fx.Node) -> Argument:
        content: Any = self.module
        for part in str(node.target).split("."):
            content = getattr(content, part)
        if isinstance(content, torch.fx.GraphModule):
            return Body(read_body(content, self._names))
        if not isinstance(content, torch.Tensor):
            raise ValueError(f"attribute {node.target} of type {type(content).__name__}")
        number = self.define(content)
        self.record.sources.append(Source(str(node.target), "constant", number))
        self.attributes[str(node.target)] = content
        self.bind(node, number)
        return Ref(number)

    # ---- nodes ----

    def read(self, source: Callable[[str, int], Source | None]) -> None:
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                value = node.meta.get("val")
                if isinstance(value, torch.Tensor):
                    number = self.define(value)
                    self.bind(node, number)
                    made = source(node.name, number)
                    if made is not None:
                        self.record.sources.append(made)
            elif node.op == "call_function":
                self._call(node)

    def _call(self, node: torch.fx.Node) -> None:
        if node.target is operator.getitem:
            parent, index = node.args
            if isinstance(parent, torch.fx.Node) and parent in self._parts:
                number = self._parts[parent][int(index)]  # type: ignore[arg-type,unused-ignore]
                if number is not None:
                    self.bind(node, number)
            return
        value = node.meta.get("val")
        op = str(node.target)
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)):
            if op not in _READS_NUMBER:
                return
        args = tuple(self.argument(a) for a in node.args)
        kwargs = {k: self.argument(a) for k, a in node.kwargs.items()}
        results: list[int | None]
        if isinstance(value, (list, tuple)):
            results = [self.define(v) if isinstance(v, torch.Tensor) else None for v in value]
            self._parts[node] = results
        elif value is None:
            results = []
        else:
            results = [self.define(value)]
            if isinstance(value, torch.Tensor):
                self.bind(node, results[0])  # type: ignore[arg-type]
        stack = self._stack(node.meta.get("stack_trace") or "")
        self.record.nodes.append(Node(op, args, kwargs, tuple(results), stack))

    def _stack(self, text: str) -> int:
        known = self._stack_numbers.get(text)
        if known is None:
            self.record.stacks.append(user_frames(FRAME_PATTERN.findall(text)))
            known = self._stack_numbers[text] = len(self.record.stacks) - 1
        return known

    def results(self) -> Sequence[Any]:
        """What the graph's output node returns."""
        output = next(n for n in self.module.graph.nodes if n.op == "output")
        returned = output.args[0]
        return returned if isinstance(returned, (list, tuple)) else [returned]


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def read_body(module: torch.fx.GraphModule, names: Mapping[str, str]) -> Record:
    """A sub-graph of control flow: its inputs by position."""
    return read_graph(module, names)


def read_graph(module: torch.fx.GraphModule, names: Mapping[str, str] | None = None) -> Record:
    """Any fx graph with types: all placeholders are inputs."""
    return capture_graph(module, names).record


def capture_graph(
    module: torch.fx.GraphModule, names: Mapping[str, str] | None = None
) -> Captured:
    """The same, and the tensors that the graph has among its attributes."""
    reader = FxReader(module, names or {})
    reader.read(lambda name, number: Source(name, "input", number))
    for i, value in enumerate(reader.results()):
        reader.record.outputs.append(Output(f"output_{i}", reader.argument(value)))
    tensors = {k: v.detach() for k, v in reader.attributes.items()}
    return Captured(make_functional(reader.record), tensors)


def read_exported(
    program: torch.export.ExportedProgram, names: Mapping[str, str] | None = None
) -> Captured:
    """An exported program and its tensors; `names` are the user's for torch's symbols."""
    signature: Any = program.graph_signature
    names = names or {}
    reader = FxReader(program.graph_module, names)
    kinds = {spec.arg.name: spec for spec in signature.input_specs if hasattr(spec.arg, "name")}

    def source(name: str, number: int) -> Source | None:
        spec = kinds[name]
        kind = spec.kind.name
        if kind == "USER_INPUT":
            return Source(name, "input", number)
        label = {"PARAMETER": "parameter", "BUFFER": "buffer", "CONSTANT_TENSOR": "constant"}[kind]
        trainable = kind == "PARAMETER" and program.state_dict[spec.target].requires_grad
        return Source(spec.target, label, number, trainable)

    reader.read(source)
    record = reader.record
    labels = _output_labels(program)
    position = 0
    for spec, value in zip(signature.output_specs, reader.results()):
        kind = spec.kind.name
        if kind == "USER_OUTPUT":
            label = labels[position] if position < len(labels) else f"output_{position}"
            record.outputs.append(Output(label, reader.argument(value)))
            position += 1
        elif kind in ("BUFFER_MUTATION", "USER_INPUT_MUTATION", "PARAMETER_MUTATION"):
            number = reader.argument(value)
            assert isinstance(number, Ref)
            record.updates[spec.target] = number.index
        else:
            raise ValueError(f"output of kind {kind}")
    for symbol, bounds in program.range_constraints.items():
        low, high = bounds.lower, bounds.upper
        record.symbols.append(Symbol(names.get(str(symbol), str(symbol)), int(low), _finite(high)))
    tensors = dict(program.state_dict)
    tensors.update({k: v for k, v in program.constants.items() if isinstance(v, torch.Tensor)})
    tensors.update(reader.attributes)
    return Captured(make_functional(record), {k: v.detach() for k, v in tensors.items()})


def _finite(bound: Any) -> int | None:
    number = getattr(bound, "is_finite", None)
    try:
        return int(bound) if number or number is None else None
    except (OverflowError, TypeError, ValueError):
        return None


def _output_labels(program: torch.export.ExportedProgram) -> list[str]:
    from weft.torch.capture.recorder import flatten_outputs

    spec: Any = program.call_spec.out_spec
    if spec is None:
        return []
    blank = private.pytree.tree_unflatten([0] * spec.num_leaves, spec)
    return [name for name, _ in flatten_outputs(blank)]
