"""The translator: from a record of aten calls to a graph of ONNX's operators.

It knows no torch: a record is plain data. Rules stand in one file per operator family and are
found by the operator's name; their parameters are named as in aten's schema, so that positional
and named arguments are bound by Python itself:

    @rule("aten.addmm.default")
    def addmm(t: Translation, self: Val, mat1: Val, mat2: Val, *, beta=1, alpha=1) -> Val: ...

A rule gives one `Val` per result. What the record says of dtype and size of a result holds; a rule
that gives another dtype is a bug and raises.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, Union

import numpy as np

from weft.torch.record import (
    Argument,
    Body,
    Dim,
    DType,
    Node,
    Record,
    Ref,
    Size,
    SizeType,
    TensorType,
    argument_refs,
)
from weft.torch.translate import sizes
from weft.torch.translate.builder import DTYPES, Array, Attribute, Builder, Entry


@dataclass(slots=True)
class Val:
    """A value of the graph, with its type."""

    entry: Entry
    dtype: str
    dims: tuple[Dim, ...]

    @property
    def rank(self) -> int:
        return len(self.dims)


Number = Union[bool, int, float, Size]
Operand = Union[Val, Number]
Rule = Callable[..., Any]

RULES: dict[str, Rule] = {}
Function = TypeVar("Function", bound=Rule)


class Untranslatable(Exception):
    """An operator without a rule, or one outside of what its rule covers."""


def rule(*ops: str) -> Callable[[Function], Function]:
    """Registers a rule for operators by their full names (`aten.add.Tensor`)."""

    def register(function: Function) -> Function:
        for op in ops:
            RULES[op] = function
        return function

    return register


FLOATS = ("float16", "bfloat16", "float32", "float64")
_INTS = ("uint8", "int8", "int16", "int32", "int64")


def category(dtype: str) -> int:
    """0 bool, 1 integer, 2 float."""
    return 0 if dtype == "bool" else 2 if dtype in FLOATS else 1


def promote(a: str, b: str) -> str:
    """The dtype of an operation on tensors of two dtypes, as torch promotes."""
    if a == b:
        return a
    ca, cb = category(a), category(b)
    if ca != cb:
        return a if ca > cb else b
    if ca == 2:
        order = {"float16": 0, "bfloat16": 0, "float32": 1, "float64": 2}
        if order[a] == order[b]:
            return "float32"
        return a if order[a] > order[b] else b
    if "uint8" in (a, b):
        other = b if a == "uint8" else a
        return "int16" if other == "int8" else other
    return a if _INTS.index(a) > _INTS.index(b) else b


class Translation:
    """One record on its way into one graph; what rules call."""

    def __init__(
        self,
        record: Record,
        builder: Builder,
        rules: Mapping[str, Rule] | None = None,
        with_gradients: bool = False,
        signed: Collection[str] = (),
    ) -> None:
        self.record = record
        self.builder = builder
        self.rules: Mapping[str, Rule] = {**RULES, **(rules or {})}
        self._values: dict[int, Val] = {}
        # What has been written to a source so far: later reads see it.
        self._written: dict[int, Val] = {}
        self._source_names = {s.value: s.name for s in record.sources}
        self._constants: dict[tuple[Any, ...], Val] = {}
        self._symbols: dict[str, tuple[Val, int] | Val] = {}
        self._size_values: dict[str, Val] = {}
        # Symbols that are no sizes and may be negative.
        self._signed = frozenset(signed)
        self._node: Node | None = None
        # Gradients will be taken, so borders of them must show in the graph.
        self.with_gradients = with_gradients
        self._without_gradient: set[int] = set()
        self._bordered: dict[int, Val] = {}
        # Gradients of single calls as graphs, by what they are of (`gradient.py`).
        self.gradients: dict[str, Any] = {}
        self._live, self._needed = _find_live(record)

    # ---- the walk ----

    def sources(self, skip: Iterable[str] = ()) -> None:
        """Inputs, parameters, buffers and literals. Unused parameters are none of the graph."""
        used = self._needed
        left_out = set(skip)
        for source in self.record.sources:
            kind = self.record.tensor(source.value)
            if source.name in left_out:
                continue
            if source.kind == "input":
                entry = self.builder.input(
                    source.name,
                    kind.dtype,
                    [d if isinstance(d, int) else d.text for d in kind.dims],
                )
            elif source.value not in used:
                continue
            else:
                dims = [int(d) for d in kind.dims if isinstance(d, int)]
                entry = self.builder.weight(source.name, kind.dtype, dims, source.trainable)
            self.define(source.value, Val(entry, kind.dtype, kind.dims))

    def define(self, index: int, value: Val) -> None:
        self._values[index] = value
        for axis, dim in enumerate(value.dims):
            if isinstance(dim, Size) and dim.text.isidentifier():
                self._symbols.setdefault(dim.text, (value, axis))

    def bind_symbol(self, symbol: str, number: Val) -> None:
        """Where the value of a symbol comes from, if not from the size of a tensor."""
        self._symbols[symbol] = number

    def run(self) -> None:
        """All nodes, in order."""
        for node, live in zip(self.record.nodes, self._live):
            if live:
                self.node(node)
        self._node = None

    def obstacles(self) -> list[str]:
        """What cannot be translated, all of it."""
        found = [self.attempt(n) for n, live in zip(self.record.nodes, self._live) if live]
        self._node = None
        return [text for text in found if text is not None]

    def attempt(self, node: Node) -> str | None:
        """Translates a node, or says why not; its results are inputs for those behind it then."""
        try:
            self.node(node)
            return None
        except (Untranslatable, AssertionError) as error:
            for index in node.results:
                if index is None or isinstance(self.record.values[index], SizeType):
                    continue
                kind = self.record.tensor(index)
                dims = [d if isinstance(d, int) else d.text for d in kind.dims]
                entry = self.builder.input(f"missing_{index}", kind.dtype, dims)
                self.define(index, Val(entry, kind.dtype, kind.dims))
            return str(error)

    def node(self, node: Node) -> None:
        function = self.rules.get(node.op)
        if function is None:
            raise Untranslatable(f"{self.record.place(node)} has no rule")
        self._node = node
        try:
            args = [self._resolve(a) for a in node.args]
            kwargs = {k: self._resolve(v) for k, v in node.kwargs.items()}
            result = function(self, *args, **kwargs)
        except (Untranslatable, TypeError, ValueError, AssertionError, KeyError) as error:
            if isinstance(error, Untranslatable) and " at " in str(error):
                raise
            raise Untranslatable(f"{error} at {self.record.place(node)}") from error
        parts: Sequence[Val | None]
        parts = [result] if isinstance(result, Val) or result is None else list(result)
        for index, part in zip(node.results, parts):
            if index is None or part is None:
                continue
            kind = self.record.values[index]
            if isinstance(kind, SizeType):
                self._symbols[kind.symbol] = part
                self._values[index] = part
                continue
            if part.dtype != kind.dtype:
                raise AssertionError(
                    f"the rule gives {part.dtype}, torch {kind.dtype}: {self.record.place(node)}"
                )
            self.define(index, Val(part.entry, kind.dtype, kind.dims))
            if not node.differentiable:
                self._without_gradient.add(index)

    def outputs(self, skip_numbers: bool = False) -> None:
        """Results of the graph and what its sources hold after the run."""
        for output in self.record.outputs:
            if output.value is None or (skip_numbers and not isinstance(output.value, Ref)):
                continue
            value = self._resolve(output.value)
            if not isinstance(value, Val):
                value = self.scalar(value, "float32" if isinstance(value, float) else "int64")
            self.builder.output(output.name, value.entry)
        for index, value in self._written.items():
            self.builder.update(self._source_names[index], value.entry)
        for name, index in self.record.updates.items():
            self.builder.update(name, self.value(index).entry)

    # ---- what a rule asks about its node ----

    @property
    def results(self) -> list[TensorType | None]:
        """Types of the node's results; None for absent ones."""
        assert self._node is not None
        return [None if i is None else self.record.tensor(i) for i in self._node.results]

    @property
    def result(self) -> TensorType:
        kind = self.results[0]
        assert kind is not None
        return kind

    def wants(self, result: int) -> bool:
        """Something reads this result."""
        assert self._node is not None
        results = self._node.results
        return result < len(results) and results[result] in self._needed

    def border(self, x: Val) -> Val:
        """The same value, through which no gradient goes."""
        if not self.with_gradients or x.dtype not in FLOATS:
            return x
        dims = [d if isinstance(d, int) else d.text for d in x.dims]
        return Val(self.builder.border(x.entry, x.dtype, dims), x.dtype, x.dims)

    @property
    def origin(self) -> str:
        return "" if self._node is None else self.record.place(self._node)

    def value(self, index: int) -> Val:
        written = self._written.get(index)
        return self._values[index] if written is None else written

    def _read(self, index: int) -> Val:
        """A value as the current node sees it: what a region under no_grad has made is behind a
        border for those outside of it."""
        value = self.value(index)
        if (
            self.with_gradients
            and index in self._without_gradient
            and (self._node is None or self._node.differentiable)
        ):
            known = self._bordered.get(index)
            if known is None:
                known = self._bordered[index] = self.border(value)
            return known
        return value

    def write(self, argument: int, value: Val) -> None:
        """Operand number `argument` of this node holds `value` from now on."""
        assert self._node is not None
        ref = self._node.args[argument]
        assert isinstance(ref, Ref)
        if ref.index in self._source_names:
            self._written[ref.index] = value
        else:
            self._values[ref.index] = value

    def _resolve(self, a: Argument) -> Any:
        if isinstance(a, Ref):
            return self._read(a.index)
        if isinstance(a, tuple):
            return [self._resolve(part) for part in a]
        if isinstance(a, Body):
            return a.record
        return a

    # ---- nodes ----

    def op(
        self,
        name: str,
        *inputs: Val | None,
        dtype: str | None = None,
        dims: Sequence[Dim] | None = None,
        **attributes: Attribute,
    ) -> Val:
        """A node of one result; its type is that of the first operand unless told."""
        (entry,) = self.builder.node(
            name, [i and i.entry for i in inputs], _named(attributes), 1, self.origin
        )
        like = inputs[0] if inputs else None
        assert like is not None or (dtype is not None and dims is not None)
        return Val(
            entry,
            dtype if dtype is not None else like.dtype,  # type: ignore[union-attr]
            tuple(dims) if dims is not None else like.dims,  # type: ignore[union-attr]
        )

    def ops(
        self,
        name: str,
        inputs: Sequence[Val | None],
        types: Sequence[tuple[str, Sequence[Dim]]],
        **attributes: Attribute,
    ) -> list[Val]:
        """A node of several results."""
        entries = self.builder.node(
            name, [i and i.entry for i in inputs], _named(attributes), len(types), self.origin
        )
        return [Val(e, dtype, tuple(dims)) for e, (dtype, dims) in zip(entries, types)]

    # ---- bodies ----

    def inline(self, record: Record, operands: Sequence[Val]) -> list[Val]:
        """What a body gives for these operands, its nodes among ours."""
        inner = Translation(record, self.builder, self.rules, self.with_gradients)
        inputs = [s for s in record.sources if s.kind == "input"]
        if len(inputs) != len(record.sources) or len(inputs) != len(operands):
            raise Untranslatable("a body that holds tensors of its own")
        for source, operand in zip(inputs, operands):
            kind = record.tensor(source.value)
            inner.define(source.value, Val(operand.entry, kind.dtype, kind.dims))
        inner.run()
        return inner.returned()

    def returned(self) -> list[Val]:
        """Results of the record that are tensors."""
        return [self.value(o.value.index) for o in self.record.outputs if isinstance(o.value, Ref)]

    def built_body(
        self,
        inputs: Sequence[tuple[str, Sequence[Dim]]],
        build: Callable[[Translation, list[Val]], Sequence[Val]],
    ) -> Attribute:
        """A body of these inputs."""
        builder = self.builder.nested()
        inner = Translation(Record(), builder, self.rules, self.with_gradients)
        values = [
            Val(
                builder.input(
                    f"in_{i}", dtype, [d if isinstance(d, int) else d.text for d in dims]
                ),
                dtype,
                tuple(dims),
            )
            for i, (dtype, dims) in enumerate(inputs)
        ]
        for i, value in enumerate(build(inner, values)):
            builder.output(f"out_{i}", value.entry)
        return builder.finish()

    def body(self, record: Record) -> Attribute:
        """A record as a body: its inputs and results in their order."""
        kinds = [record.tensor(s.value) for s in record.sources]
        return self.built_body(
            [(k.dtype, k.dims) for k in kinds], lambda inner, values: inner.inline(record, values)
        )

    # ---- constants and sizes ----

    def tensor(self, array: Array) -> Val:
        array = np.asarray(array)
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size <= 64 else None
        if key is not None and key in self._constants:
            return self._constants[key]
        value = Val(self.builder.constant(array), array.dtype.name, array.shape)
        if key is not None:
            self._constants[key] = value
        return value

    def ints(self, values: Sequence[int]) -> Val:
        return self.tensor(np.array(values, np.int64).reshape(len(values)))

    def scalar(self, value: Number, dtype: str) -> Val:
        """A tensor of rank 0."""
        if isinstance(value, Size):
            return self.cast(self._scalar_size(value), dtype)
        if dtype == "bfloat16":
            return self.cast(self.scalar(value, "float32"), dtype)
        if dtype != "bool" and category(dtype) == 1:
            value = int(value)
        return self.tensor(np.array(value, DTYPES[dtype]))

    def _scalar_size(self, size: Size) -> Val:
        found = self.size(size)
        return self.reshape(found, []) if found.rank else found

    def size(self, size: Dim) -> Val:
        """A size as an int64 vector of one element."""
        if isinstance(size, int):
            return self.ints([size])
        known = self._size_values.get(size.text)
        if known is None:
            known = self._size_values[size.text] = sizes.fold(
                size, self._symbol, self._size_number, self._size_op
            )
            if known.dtype != "int64":
                return known
        return known

    def symbol(self, name: str) -> Val:
        """A symbol as an int64 vector of one element."""
        return self.size(Size(name))

    def _symbol(self, name: str) -> Val:
        bound = self._symbols.get(name)
        if bound is None:
            raise Untranslatable(f"no tensor here has the size '{name}'")
        if isinstance(bound, Val):
            return self.reshape(self.cast(bound, "int64"), [1])
        value, axis = bound
        return self.op("Shape", value, dtype="int64", dims=[1], start=axis, end=axis + 1)

    def _size_number(self, value: int | float) -> Val:
        if isinstance(value, float):
            return self.tensor(np.array([value], np.float64))
        return self.ints([value])

    def _size_op(self, op: str, args: list[Val]) -> Val:
        if op == "float":
            return self.cast(args[0], "float64")
        if op == "/":
            a, b = (self.cast(v, "float64") for v in args)
            return self.op("Div", a, b)
        if op in ("ceil", "floor"):
            return self.cast(self.op(op.capitalize(), args[0]), "int64")
        if op in ("neg", "abs"):
            return self.op(op.capitalize(), args[0])
        if op == "sqrt":
            return self.op("Sqrt", self.cast(args[0], "float64"))
        if op == "ceildiv":
            return self.op("Neg", self._floor_divide(self.op("Neg", args[0]), args[1]))
        if op == "**":
            return self.op("Pow", *args)
        if op == "//" and args[0].dtype == "int64":
            # Sizes are not negative, differences of them may be.
            return self._floor_divide(*args) if self._signed else self.op("Div", *args)
        if any(v.dtype == "float64" for v in args):
            args = [self.cast(v, "float64") for v in args]
        names = {"+": "Add", "-": "Sub", "*": "Mul", "%": "Mod", "max": "Max", "min": "Min"}
        return self.op(names[op], *args)

    def _floor_divide(self, a: Val, b: Val) -> Val:
        """ONNX's division of integers truncates."""
        return self.op("Div", self.op("Sub", a, self.op("Mod", a, b)), b)

    def shape(self, dims: Sequence[Dim]) -> Val:
        """An int64 vector of sizes."""
        if all(isinstance(d, int) for d in dims):
            return self.ints([int(d) for d in dims])  # type: ignore[arg-type]
        parts: list[Val] = []
        run: list[int] = []
        for d in dims:
            if isinstance(d, int):
                run.append(d)
                continue
            if run:
                parts.append(self.ints(run))
                run = []
            parts.append(self.size(d))
        if run:
            parts.append(self.ints(run))
        if len(parts) == 1:
            return parts[0]
        return self.op("Concat", *parts, dtype="int64", dims=[len(dims)], axis=0)

    # ---- what every family needs ----

    def cast(self, x: Val, dtype: str) -> Val:
        if x.dtype == dtype:
            return x
        return self.op("Cast", x, dtype=dtype, to=DType(dtype))

    def operand(self, x: Operand, dtype: str) -> Val:
        """A tensor or a number of Python as an operand of `dtype`."""
        return self.cast(x, dtype) if isinstance(x, Val) else self.scalar(x, dtype)

    def binary(self, name: str, a: Operand, b: Operand, dtype: str, result: str = "") -> Val:
        """Both in `dtype`, broadcast."""
        x, y = self.operand(a, dtype), self.operand(b, dtype)
        return self.op(name, x, y, dtype=result or dtype, dims=sizes.broadcast(x.dims, y.dims))

    def add(self, a: Val, b: Operand) -> Val:
        return self.binary("Add", a, b, a.dtype)

    def sub(self, a: Val, b: Operand) -> Val:
        return self.binary("Sub", a, b, a.dtype)

    def mul(self, a: Val, b: Operand) -> Val:
        return self.binary("Mul", a, b, a.dtype)

    def div(self, a: Val, b: Operand) -> Val:
        return self.binary("Div", a, b, a.dtype)

    def where(self, condition: Val, a: Operand, b: Operand, dtype: str) -> Val:
        x, y = self.operand(a, dtype), self.operand(b, dtype)
        dims = sizes.broadcast(sizes.broadcast(condition.dims, x.dims), y.dims)
        return self.op("Where", condition, x, y, dtype=dtype, dims=dims)

    def reshape(self, x: Val, dims: Sequence[Dim]) -> Val:
        """A Reshape whose target is a constant wherever 0 and -1 can say it."""
        dims = tuple(dims)
        if dims == x.dims:
            return x
        target: list[int] = []
        unknown = 0
        for i, d in enumerate(dims):
            if isinstance(d, int):
                target.append(d)
            elif i < x.rank and x.dims[i] == d:
                target.append(0)
            else:
                target.append(-1)
                unknown += 1
        if unknown > 1 or (unknown == 1 and 0 in dims):
            return self.op("Reshape", x, self.shape(dims), dims=dims)
        if 0 in dims:  # in ONNX 0 copies, unless told
            return self.op("Reshape", x, self.shape(dims), dims=dims, allowzero=1)
        return self.op("Reshape", x, self.ints(target), dims=dims)

    def transpose(self, x: Val, perm: Sequence[int]) -> Val:
        perm = [p % max(x.rank, 1) for p in perm]
        if perm == list(range(x.rank)):
            return x
        return self.op("Transpose", x, dims=[x.dims[p] for p in perm], perm=perm)

    def unsqueeze(self, x: Val, axes: Sequence[int]) -> Val:
        """Axes count in the result."""
        if not axes:
            return x
        rank = x.rank + len(axes)
        at = sorted(a % rank for a in axes)
        dims = list(x.dims)
        for a in at:
            dims.insert(a, 1)
        return self.op("Unsqueeze", x, self.ints(at), dims=dims)

    def squeeze(self, x: Val, axes: Sequence[int]) -> Val:
        if not axes:
            return x
        gone = {a % x.rank for a in axes}
        dims = [d for i, d in enumerate(x.dims) if i not in gone]
        return self.op("Squeeze", x, self.ints(sorted(gone)), dims=dims)

    def expand(self, x: Val, dims: Sequence[Dim]) -> Val:
        dims = tuple(dims)
        if dims == x.dims:
            return x
        lead = len(dims) - x.rank
        # 1 keeps what is there, so sizes that x has need no value.
        target: list[Dim] = [
            1 if i >= lead and x.dims[i - lead] == d else d for i, d in enumerate(dims)
        ]
        return self.op("Expand", x, self.shape(target), dims=dims)

    def slice(self, x: Val, axis: int, start: Dim, end: Dim, dim: Dim, step: int = 1) -> Val:
        """[start, end) of one axis, in steps; `dim` is the size that comes out."""
        axis %= x.rank
        dims = (*x.dims[:axis], dim, *x.dims[axis + 1 :])
        inputs = [self.size(start), self.size(end), self.ints([axis])]
        if step != 1:
            inputs.append(self.ints([step]))
        return self.op("Slice", x, *inputs, dims=dims)

    def concat(self, parts: Sequence[Val], axis: int, dims: Sequence[Dim]) -> Val:
        if len(parts) == 1:
            return parts[0]
        return self.op("Concat", *parts, dims=dims, axis=axis % parts[0].rank)

    def reduce(
        self, name: str, x: Val, axes: Sequence[int] | None, keepdim: bool, dtype: str = ""
    ) -> Val:
        """A Reduce operator over axes; None or none: over all."""
        if x.rank == 0:
            return self.cast(x, dtype) if dtype else x
        at = sorted({a % x.rank for a in axes}) if axes else list(range(x.rank))
        dims = [1 if i in at else d for i, d in enumerate(x.dims) if keepdim or i not in at]
        return self.op(
            name, x, self.ints(at), dtype=dtype or x.dtype, dims=dims, keepdims=int(keepdim)
        )

    def full(self, value: Number, dims: Sequence[Dim], dtype: str) -> Val:
        """A tensor of one value."""
        if not dims:
            return self.scalar(value, dtype)
        if isinstance(value, Size) or dtype == "bfloat16":
            return self.expand(self.scalar(value, dtype), dims)
        if all(isinstance(d, int) for d in dims) and np.prod([int(d) for d in dims]) <= 16:  # type: ignore[arg-type]
            return self.tensor(np.full([int(d) for d in dims], value, DTYPES[dtype]))  # type: ignore[arg-type]
        filler = np.array([value], DTYPES[dtype])
        return self.op("ConstantOfShape", self.shape(dims), dtype=dtype, dims=dims, value=filler)


def _named(attributes: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
    """`dtype_` is the attribute `dtype`, a word that `Translation.op` has taken."""
    return {name.rstrip("_"): value for name, value in attributes.items()}


# What changes the world besides its results.
_EFFECTS = frozenset(
    {
        "aten.native_batch_norm.default",
        "aten._native_batch_norm_legit.default",
        "aten.batch_norm.default",
    }
)


def _find_live(record: Record) -> tuple[list[bool], set[int]]:
    """Which nodes something needs, and which values."""
    needed = set(record.updates.values())
    for output in record.outputs:
        needed.update(ref.index for ref in argument_refs(output.value))
    # Sizes that come from data are needed wherever their symbol stands: their nodes stay.
    live = [False] * len(record.nodes)
    for i in range(len(record.nodes) - 1, -1, -1):
        node = record.nodes[i]
        keep = node.op in _EFFECTS and any(a is True for a in node.args)
        for result in node.results:
            if result is None:
                continue
            keep = keep or result in needed or isinstance(record.values[result], SizeType)
        if not keep:
            continue
        live[i] = True
        for argument in (*node.args, *node.kwargs.values()):
            needed.update(ref.index for ref in argument_refs(argument))
    return live, needed


def translate(record: Record, builder: Builder, rules: Mapping[str, Rule] | None = None) -> None:
    """Builds the record's graph; `rules` go before the registered ones."""
    from weft.torch.translate import families  # noqa: F401 (registers the rules)

    translation = Translation(record, builder, rules)
    translation.sources()
    translation.run()
    translation.outputs()


def missing_rules(record: Record, rules: Mapping[str, Rule] | None = None) -> list[str]:
    """Places of all nodes without a rule."""
    from weft.torch.translate import families  # noqa: F401

    known = RULES if rules is None else {**RULES, **rules}
    return [record.place(n) for n in record.nodes if n.op not in known]
