"""The recorder: one run of a module on FakeTensors, each aten call written down as it passes.

Nothing is computed: parameters, buffers and inputs are FakeTensors of one mode, which know dtype
and size only. `functionalize` has turned in-place writes and writes through views into values
before the recorder sees them; what is written to a parameter, buffer or input itself arrives as a
final `copy_`, which becomes an update of that source. There is no fx graph and no second trace.

Not for control flow operators, sizes that come from data and custom autograd functions: those
raise `NeedsExport`, and `capture.exported` takes them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
import torch.overrides

from weft.torch.capture import private
from weft.torch.capture.functions import forward_only
from weft.torch.capture.shapes import DynamicShapes
from weft.torch.functional import make_functional
from weft.torch.record import (
    Argument,
    DType,
    Frame,
    Node,
    Output,
    Record,
    Ref,
    Size,
    SizeType,
    Source,
    Specialization,
    TensorType,
)

_TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep
_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Frames kept of each call; the innermost is what messages name.
_STACK_DEPTH = 4

# Calls about tensors, not on them: they define nothing that a graph needs.
_SILENT = frozenset(
    {
        "prim.device.default",
        "aten._assert_tensor_metadata.default",
        "aten.sym_size.int",
        "aten.sym_stride.int",
        "aten.sym_numel.default",
        "aten.sym_storage_offset.default",
        "aten.is_contiguous.default",
        "aten.is_contiguous.memory_format",
        "aten.is_strides_like_format.default",
        "aten.is_non_overlapping_and_dense.default",
        "aten.dim.default",
        "aten.as_strided_.default",
        "prim.layout.default",
    }
)


class CustomFunction(ValueError):
    """A gradient is asked for through an autograd.Function with a backward of its own."""


class NeedsExport(Exception):
    """The module does what the recorder cannot follow; the cause says what."""


@dataclass(slots=True)
class Captured:
    """A record, and the tensors behind its parameters, buffers and constants."""

    record: Record
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    # Constants as who holds them sees them: where they are replaced by `.data`, too.
    held: list[torch.Tensor] = field(default_factory=list)


class Stacks:
    """Frames of the user's code at a call, each distinct stack once."""

    def __init__(self, table: list[tuple[Frame, ...]]) -> None:
        self._table = table
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._mine: dict[str, bool] = {}

    def current(self) -> int:
        found: list[Any] = []
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and len(found) < 2 * _STACK_DEPTH:
            code = frame.f_code
            file = code.co_filename
            mine = self._mine.get(file)
            if mine is None:
                mine = self._mine[file] = not (file.startswith((_TORCH_FOLDER, _OWN_FOLDER, "<")))
            if mine:
                found += (code, frame.f_lineno)
            elif code is _RUN_CODE:
                break
            frame = frame.f_back
        key = tuple(found)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._table)
            self._table.append(
                tuple(
                    Frame(found[i].co_filename, found[i + 1], found[i].co_name)
                    for i in range(0, len(found), 2)
                )
            )
        return number


class Recorder(private.TorchDispatchMode):  # type: ignore[misc,no-untyped-call,unused-ignore]
    """Writes down aten calls. Values are known by the identity of their FakeTensors."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call,unused-ignore]
        self.record = Record()
        self.constants: dict[str, torch.Tensor] = {}
        self._numbers: dict[int, int] = {}
        # Identities stay unique while their objects live.
        self._alive: list[Any] = []
        self._stacks = Stacks(self.record.stacks)
        self._sizes: dict[Any, Size] = {}
        self._names = names
        self._ops: dict[Any, str] = {}
        self._dtypes: dict[torch.dtype, DType] = {}

    # ---- values ----

    def add_source(self, source: Callable[[int], Source], tensor: torch.Tensor) -> None:
        value = self._define(tensor)
        self.record.sources.append(source(value))

    def _define(self, tensor: torch.Tensor) -> int:
        self.record.values.append(
            TensorType(self._dtype(tensor.dtype).name, tuple(self._dim(d) for d in tensor.shape))
        )
        number = len(self.record.values) - 1
        self._numbers[id(tensor)] = number
        self._alive.append(tensor)
        return number

    def _dtype(self, dtype: torch.dtype) -> DType:
        known = self._dtypes.get(dtype)
        if known is None:
            known = self._dtypes[dtype] = DType(str(dtype).removeprefix("torch."))
        return known

    def _dim(self, size: int | torch.SymInt) -> int | Size:
        return size if isinstance(size, int) else self._size(size)

    def _size(self, size: torch.SymInt) -> int | Size:
        node: Any = size.node
        if node.is_constant():
            return int(size)
        expression = node.expr
        if expression.is_Integer:
            return int(expression)
        known = self._sizes.get(expression)
        if known is None:
            known = self._sizes[expression] = Size(rename(str(expression), self._names))
        return known

    def argument(self, value: Any) -> Argument:
        if isinstance(value, torch.Tensor):
            number = self._numbers.get(id(value))
            return Ref(self._constant(value) if number is None else number)
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, (list, tuple)):
            return tuple([self.argument(part) for part in value])
        if isinstance(value, torch.SymInt):
            return self._size(value)
        if isinstance(value, torch.dtype):
            return self._dtype(value)
        if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
            return str(value).removeprefix("torch.")
        if isinstance(value, torch.SymFloat):
            return Size(rename(private.size_text(value), self._names))
        if isinstance(value, torch.SymBool):
            return bool(value)
        if isinstance(value, complex):
            raise NeedsExport(f"complex number {value} as an argument")
        if isinstance(value, torch.Generator):
            return "generator"
        raise NeedsExport(f"argument of type {type(value).__name__}")

    def _constant(self, tensor: torch.Tensor) -> int:
        """A tensor that came from nowhere: a literal, or an attribute that is no buffer."""
        content = getattr(tensor, "constant", None) if is_fake(tensor) else tensor
        if content is None:
            raise NeedsExport("a tensor whose origin the recorder has not seen")
        name = f"constant_{len(self.constants)}"
        value = self._define(tensor)
        self.record.sources.append(Source(name, "constant", value))
        self.constants[name] = content
        return value

    # ---- calls ----

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        op = self._ops.get(func)
        if op is None:
            op = self._ops[func] = str(func)
        if op not in _SILENT:
            self._add(op, args, kwargs, result)
        return result

    def _add(self, op: str, args: Any, kwargs: Any, result: Any) -> None:
        if op == "aten.copy_.default" and self._is_source(args[0]):
            number = self.argument(args[1])
            assert isinstance(number, Ref)
            target = self._numbers[id(args[0])]
            name = next(s.name for s in self.record.sources if s.value == target)
            self.record.updates[name] = number.index
            return
        record = self.record
        taken = tuple([self.argument(a) for a in args])
        named = {k: self.argument(v) for k, v in kwargs.items()} if kwargs else {}
        results: list[int | None] = []
        for part in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(part, torch.Tensor):
                known = self._numbers.get(id(part))
                results.append(self._define(part) if known is None else None)
            elif isinstance(part, (list, tuple)):
                results += [self._define(p) for p in part]
            elif isinstance(part, torch.SymInt) and isinstance(size := self._size(part), Size):
                # A number read out of a tensor: sizes behind it are expressions over it.
                record.values.append(SizeType(size.text))
                results.append(len(record.values) - 1)
            else:
                results.append(None)
        record.nodes.append(
            Node(op, taken, named, tuple(results), self._stacks.current(), torch.is_grad_enabled())
        )

    def current_stack(self) -> int:
        return self._stacks.current()

    def _is_source(self, tensor: torch.Tensor) -> bool:
        number = self._numbers.get(id(tensor))
        return number is not None and any(s.value == number for s in self.record.sources)


class WholeLinear(torch.overrides.TorchFunctionMode):  # type: ignore[misc,unused-ignore]
    """Keeps F.linear one call, `weft.linear`. torch's own would be four, of a reshaped input, and
    reads the sizes of an input of three axes as numbers when there is a bias."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.linear:
            return private.whole_linear(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def is_fake(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, private.FakeTensor)


def rename(text: str, names: Mapping[str, str]) -> str:
    """torch's symbols (`s77`) by the user's names, in an expression."""
    if text in names:
        return names[text]
    word = ""
    out: list[str] = []
    for c in text + " ":
        if c.isalnum() or c == "_":
            word += c
        else:
            if word:
                out.append(names.get(word, word))
                word = ""
            out.append(c)
    return "".join(out)[:-1]


def specializations(
    env: private.FactEnv, names: Mapping[str, str], record: Record
) -> list[Specialization]:
    """Facts that the run has decided, each once, with the user's place."""
    import re

    frozen = env.pinned()
    found: dict[str, Specialization] = {}
    for fact, stack in env.facts:
        symbols = [s for s in re.findall(r"[A-Za-z_]\w*", fact) if s in frozen]
        text = rename(fact, names)
        equality = fact.startswith("Eq(") and len(symbols) > 0
        frames = record.stacks[stack]
        found.setdefault(
            text,
            Specialization(
                text,
                rename(symbols[0], names) if equality else None,
                frames[0] if frames else None,
            ),
        )
    return list(found.values())


def _state_of(
    module: torch.nn.Module,
) -> tuple[list[tuple[str, torch.Tensor, str, tuple[str, ...]]], dict[str, list[str]]]:
    """Parameters and buffers, tied ones once: name, tensor, kind, other names."""
    groups: dict[int, list[str]] = {}
    first: dict[int, tuple[torch.Tensor, str]] = {}
    for kind, named in (
        ("parameter", module.named_parameters(remove_duplicate=False)),
        ("buffer", module.named_buffers(remove_duplicate=False)),
    ):
        for name, tensor in named:
            groups.setdefault(id(tensor), []).append(name)
            first.setdefault(id(tensor), (tensor, kind))
    state = [(names[0], *first[key], tuple(names[1:])) for key, names in groups.items()]
    return state, {names[0]: names for names in groups.values()}


def flatten_inputs(
    module: torch.nn.Module | Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[str, tuple[Any, ...], Any]]:
    """Leaves of the arguments: the name each gets in a graph, its keys, the leaf."""
    import inspect

    target = module.forward if isinstance(module, torch.nn.Module) else module
    try:
        parameters = list(inspect.signature(target).parameters.values())
    except ValueError:  # a function of C++
        parameters = []
    bound: dict[str, Any] = {}
    named = getattr(module, "input_names", ())
    for i, arg in enumerate(args):
        if i < len(named):
            bound[named[i]] = arg
        elif i < len(parameters) and parameters[i].kind is not inspect.Parameter.VAR_POSITIONAL:
            bound[parameters[i].name] = arg
        else:
            bound[f"arg{i}"] = arg
    bound.update(kwargs)
    return [
        ("_".join(str(part) for part in path), path, leaf)
        for path, leaf in private.key_path_names(bound)
    ]


def flatten_outputs(result: Any) -> list[tuple[str, Any]]:
    leaves = private.key_path_names(result)
    if len(leaves) == 1 and not leaves[0][0]:
        return [("output", leaves[0][1])]
    return [
        (
            "_".join(
                str(part) for part in (path if isinstance(path[0], str) else ("output", *path))
            ),
            leaf,
        )
        for path, leaf in leaves
    ]


def _run(module: Any, state: Any, leaves: Any, call: Any, ties: Any) -> Any:
    """What is recorded; frames outside of it are not the user's."""
    full = {name: state[first] for first, names in ties.items() for name in names}
    args, kwargs = call(leaves)
    if isinstance(module, torch.nn.Module):
        return torch.func.functional_call(module, full, args, kwargs, tie_weights=False)
    return module(*args, **kwargs)


_RUN_CODE = _run.__code__


def record(
    module: torch.nn.Module | Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    gradients: bool = False,
) -> Captured:
    """Runs `module` once without computing and returns what it did.

    `dynamic_shapes` is torch.export's. With `gradients` the regions under `no_grad` are told apart.
    """
    private.check_version()
    kwargs = dict(kwargs or {})
    state, ties = _state_of(module) if isinstance(module, torch.nn.Module) else ([], {})
    made: list[Recorder] = []
    shape_env = private.FactEnv(lambda: made[0].current_stack() if made else 0)
    mode = private.FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True)
    inputs = flatten_inputs(module, args, kwargs)
    if isinstance(dynamic_shapes, (list, tuple)):  # one for each argument, in order
        tops = list(dict.fromkeys(path[0] for _, path, _ in inputs))
        dynamic_shapes = dict(zip(tops, dynamic_shapes))
    shapes = DynamicShapes(shape_env, dynamic_shapes)
    fakes: list[Any] = []
    for _, path, leaf in inputs:
        if isinstance(leaf, torch.Tensor):
            sizes = shapes.sizes(path, leaf.shape)
            if any(not isinstance(s, int) for s in sizes):
                with mode:
                    fakes.append(torch.empty(sizes, dtype=leaf.dtype))
            else:
                fakes.append(mode.from_tensor(leaf.detach(), static_shapes=True))
        else:
            fakes.append(leaf)
    fake_state = {
        name: mode.from_tensor(tensor.detach(), static_shapes=True) for name, tensor, _, _ in state
    }
    recorder = Recorder(shapes.names)
    made.append(recorder)
    captured = Captured(recorder.record)
    for name, tensor, kind, others in state:
        trainable = kind == "parameter" and tensor.requires_grad
        recorder.add_source(
            lambda v, n=name, k=kind, t=trainable, o=others: Source(n, k, v, t, o),  # type: ignore[misc]
            fake_state[name],
        )
        captured.tensors[name] = tensor.detach()
    for (name, _, leaf), fake in zip(inputs, fakes):
        if isinstance(leaf, torch.Tensor):
            recorder.add_source(lambda v, n=name: Source(n, "input", v), fake)  # type: ignore[misc]

    _, spec = private.pytree.tree_flatten((tuple(args), kwargs))

    def call(leaves: list[Any]) -> Any:
        return private.pytree.tree_unflatten(leaves, spec)

    def run(state: dict[str, torch.Tensor], leaves: list[Any]) -> Any:
        result = _run(module, state, leaves, call, ties)
        return [leaf for _, leaf in named_results(result)]

    names: list[str] = []

    def named_results(result: Any) -> list[tuple[str, Any]]:
        flat_result = flatten_outputs(result)
        names[:] = [name for name, _ in flat_result]
        return flat_result

    def refuse(name: str) -> Exception:
        frames = recorder.record.stacks[recorder.current_stack()]
        where = f" at {frames[0]}" if frames else ""
        return CustomFunction(
            f"the gradient of the custom autograd.Function {name}{where} is its own, and is not "
            "brought over"
        )

    functions = forward_only(refuse if gradients else None)
    try:
        with (
            functions,
            private.exporting(),
            torch.set_grad_enabled(gradients),
            mode,
            recorder,
            WholeLinear(),
            private.python_dispatcher(),
        ):
            result = torch.func.functionalize(run, remove="mutations")(fake_state, fakes)
    except private.DATA_DEPENDENT as error:
        raise NeedsExport(f"a number is read out of a tensor: {error}") from error
    except NotImplementedError as error:
        if "HigherOrderOperator" not in str(error):
            raise
        raise NeedsExport(f"control flow: {error}") from error
    for name, leaf in zip(names, result):
        recorder.record.outputs.append(Output(name, recorder.argument(leaf)))
    recorder.record.symbols = shapes.symbols()
    recorder.record.specializations = specializations(shape_env, shapes.names, recorder.record)
    # What torch's Python implementations of composites write escapes functionalize.
    make_functional(recorder.record)
    captured.tensors.update({k: v.detach() for k, v in recorder.constants.items()})
    captured.held = list(recorder.constants.values())
    return captured
