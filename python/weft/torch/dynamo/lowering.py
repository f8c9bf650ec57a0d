"""From an fx graph of AOTAutograd to what runs in its place.

All of it becomes one program where every operator has a rule. Else what has none is left to torch,
and the rest becomes as few programs as its order allows: nodes are taken in turn of one kind, as
long as one is ready, then of the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

import weft
from weft.torch.capture import private
from weft.torch.dynamo import programs
from weft.torch.dynamo.layout import Order, numbers, order_of
from weft.torch.dynamo.reading import FxNode, PartReader, is_size, symbols_of, value_of, view_of
from weft.torch.dynamo.running import Born, Compiled, Computed, Part
from weft.torch.record import Record, Size
from weft.torch.translate.builder import DTYPES
from weft.torch.translate.core import Untranslatable
from weft.torch.translate import sizes


@dataclass(slots=True)
class Lowered:
    """What became of one graph."""

    compiled: Compiled
    kind: str  # "forward", "backward", "inference"
    nodes: int  # aten operators in all
    programs: int
    # Operators that torch runs: name, why, place in the user's code.
    left: list[tuple[str, str, str]] = field(default_factory=list)


@dataclass(slots=True)
class Options:
    steady: bool = True
    compile: dict[str, Any] = field(default_factory=dict)


class Lowering:
    def __init__(
        self, module: torch.fx.GraphModule, kind: str, steady: Sequence[int], options: Options
    ) -> None:
        self.module = module
        self.kind = kind
        self.options = options
        nodes = list(module.graph.nodes)
        self.arguments = [n for n in nodes if n.op == "placeholder"]
        self.calls = [n for n in nodes if n.op == "call_function"]
        self.attributes = [n for n in nodes if n.op == "get_attr"]
        self.number = {n: i for i, n in enumerate(self.arguments)}
        self.steady = {self.arguments[i] for i in steady if i < len(self.arguments)}
        output = next(n for n in nodes if n.op == "output")
        self.returned: list[Any] = list(output.args[0])
        self.sources: dict[str, tuple[int, int | None]] = {}
        # Numbers among the arguments that may be negative.
        self.signed: set[str] = set()
        self.left: list[tuple[str, str, str]] = []
        self.reader = PartReader(module)
        self._find_symbols()

    # ---- sizes ----

    def _find_symbols(self) -> None:
        for i, node in enumerate(self.arguments):
            value = value_of(node)
            if isinstance(value, torch.SymInt):
                text = self.size_of(value)
                if isinstance(text, Size) and text.text.isidentifier():
                    self.sources.setdefault(text.text, (i, None))
                    if private.may_be_negative(value):
                        self.signed.add(text.text)
        for i, node in enumerate(self.arguments):
            value = value_of(node)
            if isinstance(value, torch.Tensor):
                for axis, dim in enumerate(value.shape):
                    text = self.size_of(dim)
                    if isinstance(text, Size) and text.text.isidentifier():
                        self.sources.setdefault(text.text, (i, axis))

    def size_of(self, value: Any) -> int | Size:
        return self.reader._size(value)

    def asked(self, size: Size) -> Size:
        """A size that the arguments decide."""
        for symbol in sizes.symbols_in(size):
            if symbol not in self.sources:
                raise Untranslatable(f"no argument gives the size '{symbol}'")
        return size

    # ---- outputs that need no program ----

    def computed(self, node: FxNode) -> Computed | None:
        """A size, or a view of an argument."""
        value = value_of(node)
        if is_size(node):
            size = value if isinstance(value, (int, float, bool)) else self.size_of(value)
            if isinstance(size, Size):
                return Computed(size=self.asked(size))
            return None
        chain: list[FxNode] = []
        at = node
        while at not in self.number:
            parent = view_of(at)
            if parent is None:
                return None
            chain.append(at)
            at = parent
        views = []
        for step in reversed(chain):
            args = tuple(self._plain(a) for a in step.args[1:])
            kwargs = {k: self._plain(a) for k, a in step.kwargs.items()}
            views.append((str(step.target), args, kwargs))
        return Computed(argument=self.number[at], views=tuple(views))

    def _plain(self, a: Any) -> Any:
        if isinstance(a, torch.fx.Node):
            value = value_of(a)
            if isinstance(value, torch.SymInt):
                size = self.size_of(value)
                return self.asked(size) if isinstance(size, Size) else size
            if isinstance(value, (int, float, bool)):
                return value
            raise Untranslatable("a view that reads another tensor")
        if isinstance(a, (list, tuple)):
            return tuple(self._plain(part) for part in a)
        return a

    # ---- one program of some nodes ----

    def part(
        self,
        inputs: Sequence[FxNode],
        nodes: Sequence[FxNode],
        outputs: Sequence[tuple[FxNode, FxNode | None]],
        place: Mapping[FxNode, int],
        derives: bool = True,
    ) -> Part:
        """`outputs`: with the argument whose content a result becomes, or None. `place`: where in
        the list of arguments an input or the source of a symbol stands. Without `derives` nothing is computed of steady
        inputs ahead."""
        reader = PartReader(self.module)
        record = reader.part(inputs, nodes, [n for n, _ in outputs])
        self._check(record, inputs)
        missing = [s for s in symbols_of(record) if s not in self.sources]
        if missing:
            raise Untranslatable(f"no argument gives the size '{missing[0]}'")
        input_orders = [order_of(value_of(n)) for n in inputs]
        output_orders = [order_of(value_of(target or n)) for n, target in outputs]
        derives = derives and self.options.steady
        steady = [i for i, n in enumerate(inputs) if derives and n in self.steady]
        made = programs.make(
            record,
            {n: t for n, t in reader.attributes.items()},
            [o or () for o in input_orders],
            [o or () for o in output_orders],
            steady,
            self.options.compile,
            self._signed_of(record),
        )
        ins: list[tuple[str, int, Order | None]] = []
        for (kind, which), spec in zip(made.inputs, made.program.inputs):
            if kind == "source":
                node = inputs[which]
                name = "steady" if which in steady else self.form(node)
                ins.append((name, place[node], input_orders[which] or None))
            elif kind == "number":
                symbol = symbols_of(record)[which]
                ins.append(("number", self._number_place(symbol, place), None))
            elif kind == "derived":
                ins.append(("derived", which, None))
            else:
                ins.append(("extra", 0, None))
        outs: list[Born | tuple[int, Order]] = []
        for (node, target), order in zip(outputs, output_orders):
            if target is not None:
                outs.append((place[target], order or ()))
                continue
            value = value_of(node)
            shape = numbers(value.shape)
            if order is None:
                strides = tuple(self.size_of(s) for s in value.stride())
                outs.append(Born(value.dtype, (), shape, _row_major(shape), strides))
            else:
                dense = None if shape is None else _strides(shape, order)
                outs.append(Born(value.dtype, order, shape, dense))
        return Part(
            made.program,
            ins,
            outs,
            [],
            made.derive,
            [place[inputs[i]] for i in made.derived_from],
            nodes=sum(1 for n in nodes if counts(n)),
        )

    def signed_in(self, node: FxNode) -> list[str]:
        """Symbols that may be negative where a size of this node's results has them."""
        value = value_of(node)
        kinds = value if isinstance(value, (list, tuple)) else [value]
        dims = [self.size_of(d) for v in kinds for d in getattr(v, "shape", ())]
        found = {s for d in dims if isinstance(d, Size) for s in sizes.symbols_in(d)}
        return sorted(found & self.signed)

    def _signed_of(self, record: Record) -> list[str]:
        """Symbols of a record that are numbers alone and may be negative."""
        dims = {s for kind in record.values for d in getattr(kind, "dims", ())
                if isinstance(d, Size) for s in sizes.symbols_in(d)}  # fmt: skip
        found = [s for s in symbols_of(record) if s in self.signed]
        for symbol in found:
            if symbol in dims:
                raise Untranslatable(f"a size of '{symbol}', which may be negative")
        return found

    def form(self, node: FxNode) -> str:
        """Whether an argument may be a negated view when it comes: dynamo guards those of the
        forward part, and what others give is anything."""
        known = node in self.number and not node.name.startswith("tangents")
        return "tensor" if known else "any"

    def _number_place(self, symbol: str, place: Mapping[FxNode, int]) -> int:
        at, axis = self.sources[symbol]
        if axis is not None:
            raise Untranslatable(f"the size '{symbol}' is given by no number")
        return place[self.arguments[at]]

    def _check(self, record: Record, inputs: Sequence[FxNode]) -> None:
        for node in inputs:
            value = value_of(node)
            if value.device.type != "cpu":
                raise Untranslatable(f"a tensor on {value.device}")
            if value.is_neg() or value.is_conj():
                raise Untranslatable("a negated or conjugated view")
        for kind in record.values:
            dtype = getattr(kind, "dtype", "bool")
            if dtype not in DTYPES and dtype != "bfloat16":
                raise Untranslatable(f"a tensor of dtype {dtype}")


def _row_major(sizes: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return None if sizes is None else _strides(sizes, ())


def _strides(sizes: tuple[int, ...], order: Order) -> tuple[int, ...]:
    strides = [0] * len(sizes)
    step = 1
    for d in reversed(order or range(len(sizes))):
        strides[d] = step
        step *= max(sizes[d], 1)
    return tuple(strides)


# What says that nodes are for torch: no rule, a program that cannot be made, an argument that no
# record holds, a rule that gives another dtype than torch.
UNFIT = (Untranslatable, weft.Error, ValueError, AssertionError)


def lower(
    module: torch.fx.GraphModule, kind: str, steady: Sequence[int], options: Options
) -> Lowered:
    lowering = Lowering(module, kind, steady, options)
    try:
        return _whole(lowering)
    except UNFIT:
        from weft.torch.dynamo.splitting import split

        return split(lowering)


def counts(node: FxNode) -> bool:
    """An operator on tensors, not arithmetic of sizes or a choice of one of several results."""
    return isinstance(node.target, torch._ops.OpOverload) and not is_size(node)


def into_arguments(lowering: Lowering) -> dict[FxNode, FxNode]:
    """Arguments whose content is another at the end: argument -> value."""
    found: dict[FxNode, FxNode] = {}
    for call in lowering.calls:
        if call.target is not torch.ops.aten.copy_.default:
            if any(n in found for n in call.all_input_nodes):
                raise Untranslatable("an argument is read after it has been written")
            continue
        target, value = call.args[0], call.args[1]
        if not isinstance(target, torch.fx.Node) or not isinstance(value, torch.fx.Node):
            raise Untranslatable("a copy of something else than a tensor")
        a, b = value_of(target), value_of(value)
        same = a.dtype == b.dtype and tuple(a.shape) == tuple(b.shape)
        if target not in lowering.number or not same or call.users or order_of(a) is None:
            raise Untranslatable("a copy into a part of an argument, or of another dtype")
        found[target] = value
    return found


EFFECTS = ("aten._assert", "aten.sym_constrain", "aten._print")


def live_nodes(calls: Sequence[FxNode], outputs: Sequence[FxNode]) -> list[FxNode]:
    """What the outputs need, in order."""
    needed = set(outputs)
    for node in reversed(calls):
        if node in needed:
            needed.update(node.all_input_nodes)
    return [n for n in calls if n in needed]


def results_of(
    lowering: Lowering,
) -> tuple[list[tuple[str, Any]], list[Computed], list[FxNode]]:
    """What is returned: ("argument", i), ("computed", i), ("object", it), ("node", node); and the
    nodes of the last kind, each once."""
    results: list[tuple[str, Any]] = []
    computed: list[Computed] = []
    own: dict[FxNode, None] = {}
    for node in lowering.returned:
        if not isinstance(node, torch.fx.Node):
            results.append(("object", node))
        elif node in lowering.number:
            results.append(("argument", lowering.number[node]))
        elif (found := lowering.computed(node)) is not None:
            results.append(("computed", len(computed)))
            computed.append(found)
        elif is_size(node):
            results.append(("object", value_of(node)))
        else:
            results.append(("node", node))
            own.setdefault(node)
    return results, computed, list(own)


def _whole(lowering: Lowering) -> Lowered:
    """One program."""
    for call in lowering.calls:
        if str(call.target).startswith(EFFECTS):
            raise Untranslatable("an assertion")
    into = into_arguments(lowering)
    results, computed, own = results_of(lowering)
    outputs: list[tuple[FxNode, FxNode | None]] = [(v, target) for target, v in into.items()]
    outputs += [(node, None) for node in own]
    if not outputs:
        raise Untranslatable("nothing is computed")
    nodes = live_nodes(lowering.calls, [n for n, _ in outputs])
    wanted = {n for call in nodes for n in call.all_input_nodes} | {n for n, _ in outputs}
    inputs = [
        n for n in lowering.arguments if n in wanted and isinstance(value_of(n), torch.Tensor)
    ]
    part = lowering.part(inputs, nodes, outputs, lowering.number)
    where = {node: len(into) + i for i, node in enumerate(own)}
    part.results = [("output", where[v]) if k == "node" else (k, v) for k, v in results]
    part.computed = computed
    part.symbols = lowering.sources
    return Lowered(Compiled(part), lowering.kind, part.nodes, 1)
