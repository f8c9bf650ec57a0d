"""Graphs of which some operators are left to torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from weft.torch.dynamo import programs
from weft.torch.dynamo.lowering import (
    EFFECTS,
    UNFIT,
    Lowered,
    Lowering,
    counts,
    live_nodes,
    results_of,
)
from weft.torch.dynamo.reading import FxNode, PartReader, is_size, symbols_of, value_of
from weft.torch.dynamo.running import Compiled, Computed, Mixed, Part, Step, relaid_by
from weft.torch.dynamo.seeded import Streams
from weft.torch.record import Output, Record, Ref, Size
from weft.torch.translate.builder import DTYPES
from weft.torch.translate.core import Translation, Val

_COPY = torch.ops.aten.copy_.default


def split(lowering: Lowering) -> Lowered:
    effects = [c for c in lowering.calls if c.target is _COPY or _is_effect(c)]
    try:
        results, computed, own = results_of(lowering)
        calls = [
            n for n in live_nodes(lowering.calls, [*own, *effects]) if not is_size(n)
        ]
        _check_sizes(lowering, calls)
    except UNFIT as error:
        return _all_torch(lowering, str(error))
    reasons = _reasons(lowering, calls)
    while True:
        parts = _parts(calls, reasons)
        try:
            return _assemble(lowering, parts, reasons, results, computed, own)
        except _Refused as refused:
            reasons.update(dict.fromkeys(refused.nodes, refused.reason))


class _Refused(Exception):
    """A part that no program can be made of."""

    def __init__(self, nodes: Sequence[FxNode], reason: str) -> None:
        super().__init__(reason)
        self.nodes, self.reason = nodes, reason


def _is_effect(node: FxNode) -> bool:
    return str(node.target).startswith(EFFECTS)


def _check_sizes(lowering: Lowering, calls: Sequence[FxNode]) -> None:
    """All sizes follow from the arguments."""
    for call in calls:
        for node in (call, *call.all_input_nodes):
            value = value_of(node)
            sizes = [value] if is_size(node) else getattr(value, "shape", ())
            for size in sizes:
                text = lowering.size_of(size) if isinstance(size, torch.SymInt) else 0
                if isinstance(text, Size):
                    lowering.asked(text)


def _all_torch(lowering: Lowering, reason: str) -> Lowered:
    arguments = list(range(len(lowering.arguments)))
    count = len(arguments)
    gives = list(range(count, count + len(lowering.returned)))
    step = Step(lowering.module, arguments, gives, arguments)
    body = Mixed([step], count + len(gives), [("value", g) for g in gives], [], [], {})
    left = [_left(n, reason) for n in lowering.calls if counts(n)]
    return Lowered(Compiled(body), lowering.kind, len(left), 0, left)


def _left(node: FxNode, reason: str) -> tuple[str, str, str]:
    from weft.torch.pt2 import FRAME_PATTERN, user_frames

    frames = user_frames(FRAME_PATTERN.findall(node.meta.get("stack_trace") or ""))
    return str(node.target), reason, str(frames[0]) if frames else ""


# ---- which nodes have a rule ----


def _reasons(lowering: Lowering, calls: Sequence[FxNode]) -> dict[FxNode, str]:
    """Nodes that are left to torch, and why."""
    from weft.torch.translate import families  # noqa: F401 (registers the rules)

    reasons: dict[FxNode, str] = {}
    reader = PartReader(lowering.module)
    record = reader.part([n for n in lowering.arguments if _is_tensor(n)], [], [])
    made: list[tuple[FxNode, int]] = []
    for node in calls:
        reason = _unfit(node)
        if reason is None and (signed := lowering.signed_in(node)):
            reason = f"a size of '{signed[0]}', which may be negative"
        if reason is None:
            before = len(record.nodes)
            try:
                reader.part([], [node], [])
            except ValueError as error:
                reason = str(error)
            else:
                made += [(node, i) for i in range(before, len(record.nodes))]
        if reason is not None and not _follows(node):
            reasons[node] = reason
            _stand_in(reader, record, node)
    # What others read is wanted, whoever they are.
    record.outputs = [Output(n.name, Ref(i)) for n, i in reader.numbers().items() if n.users]
    builder = programs.OrderedBuilder(reader.attributes, {}, {})
    translation = Translation(record, builder, Streams().rules())
    for symbol in symbols_of(record):
        entry = builder.number(f"number_{symbol}", symbol, symbol in lowering.signed)
        translation.bind_symbol(symbol, Val(entry, "int64", ()))
    translation.sources()
    for node, i in made:
        reason = translation.attempt(record.nodes[i])
        if reason is not None:
            reasons[node] = reason
    return reasons


def _stand_in(reader: PartReader, record: Record, node: FxNode) -> None:
    value = value_of(node)
    if isinstance(value, (list, tuple)):
        reader.stand_in(node, value)
    elif isinstance(value, torch.Tensor):
        reader.part([node], [], [])


def _is_tensor(node: FxNode) -> bool:
    return isinstance(value_of(node), torch.Tensor)


def _follows(node: FxNode) -> bool:
    """A choice of one of several results."""
    return not counts(node) and "getitem" in str(node.target)


def _unfit(node: FxNode) -> str | None:
    if _follows(node):
        return None
    if node.target is _COPY:
        return "writes an argument"
    if not counts(node):
        return "not an operator of aten"
    values = [value_of(node), *(value_of(n) for n in node.all_input_nodes)]
    flat = [v for x in values for v in (x if isinstance(x, (list, tuple)) else (x,))]
    for value in flat:
        if not isinstance(value, torch.Tensor):
            continue
        dtype = str(value.dtype).removeprefix("torch.")
        if dtype not in DTYPES and dtype != "bfloat16":
            return f"a tensor of dtype {dtype}"
        if value.device.type != "cpu":
            return f"a tensor on {value.device}"
        if value.is_neg() or value.is_conj():
            return "a negated or conjugated view"
    return None


# ---- parts ----


def _parts(calls: Sequence[FxNode], reasons: Mapping[FxNode, str]) -> list[tuple[bool, list[FxNode]]]:
    """(runs in torch, its nodes), in an order in which all can run."""

    def in_torch(node: FxNode) -> bool:
        at = node
        while _follows(at):
            at = at.args[0]
        return at in reasons

    inside = set(calls)
    waits: dict[FxNode, int] = {}
    readers: dict[FxNode, list[FxNode]] = {n: [] for n in calls}
    needs: dict[FxNode, set[FxNode]] = {}
    for i, node in enumerate(calls):
        before = {n for n in node.all_input_nodes if n in inside}
        if node.target is _COPY:  # behind all that read what it writes
            target = node.args[0]
            before |= {n for n in calls[:i] if target in n.all_input_nodes}
        needs[node] = before
        waits[node] = len(before)
        for n in before:
            readers[n].append(node)
    ready = {True: [n for n in calls if not waits[n] and in_torch(n)],
             False: [n for n in calls if not waits[n] and not in_torch(n)]}  # fmt: skip
    order = {n: i for i, n in enumerate(calls)}
    parts: list[tuple[bool, list[FxNode]]] = []
    kind = not ready[False]
    while ready[True] or ready[False]:
        taken: list[FxNode] = []
        while ready[kind]:
            node = ready[kind].pop()
            taken.append(node)
            for reader in readers[node]:
                waits[reader] -= 1
                if not waits[reader]:
                    ready[in_torch(reader)].append(reader)
        if taken:
            parts.append((kind, sorted(taken, key=order.__getitem__)))
        kind = not kind
    return parts


def _assemble(
    lowering: Lowering,
    parts: Sequence[tuple[bool, list[FxNode]]],
    reasons: Mapping[FxNode, str],
    results: Sequence[tuple[str, Any]],
    computed: list[Computed],
    own: Sequence[FxNode],
) -> Lowered:
    number: dict[FxNode, int] = dict(lowering.number)
    count = len(number)
    asked: list[tuple[int, Size]] = []
    steps: list[Step] = []
    symbols = [n for n in lowering.arguments if isinstance(value_of(n), torch.SymInt)]
    for at, (in_torch, nodes) in enumerate(parts):
        mine = set(nodes)
        later = {n for _, others in parts[at + 1 :] for c in others for n in c.all_input_nodes}
        later.update(own)
        gives = [n for n in nodes if n in later and _is_tensor(n)]
        takes = list(dict.fromkeys(n for c in nodes for n in c.all_input_nodes if n not in mine))
        if in_torch:
            takes = [n for n in takes if n.op != "get_attr"]
            for n in takes:
                if n not in number:
                    number[n] = count
                    count += 1
                    asked.append((number[n], Size(str(lowering.size_of(value_of(n))))))
            part: Part | torch.fx.GraphModule = _module(lowering.module, nodes, takes, gives)
        else:
            takes = [n for n in takes if _is_tensor(n) and n.op != "get_attr"]
            inputs = list(takes)
            takes += symbols
            place = {n: i for i, n in enumerate(takes)}
            outputs = [(n, None) for n in gives]
            try:
                part = _part(lowering, inputs, nodes, outputs, place)
            except UNFIT as error:
                raise _Refused([n for n in nodes if counts(n)], str(error)) from error
            part.results = [("output", i) for i in range(len(gives))]
            part.symbols = {
                symbol: (place[argument], axis)
                for symbol, (i, axis) in lowering.sources.items()
                if (argument := lowering.arguments[i]) in place
            }
            missing = sorted(relaid_by(part) - part.symbols.keys())
            if missing:
                reason = f"no argument of the part gives the size '{missing[0]}'"
                raise _Refused([n for n in nodes if counts(n)], reason)
        for n in gives:
            number[n] = count
            count += 1
        steps.append(Step(part, [number[n] for n in takes], [number[n] for n in gives], []))
    kept = {number[n] for n in own}
    for step in reversed(steps):
        step.drops = [i for i in (*step.takes, *step.gives) if i not in kept]
        kept.update(step.drops)
    body = Mixed(
        steps,
        count,
        [
            ("value", number[v]) if k == "node" else ("value", v) if k == "argument" else (k, v)
            for k, v in results
        ],
        computed,
        asked,
        lowering.sources,
    )
    for kind, v in results:
        if kind == "argument":
            for step in steps:
                step.drops = [i for i in step.drops if i != v]
    left = [_left(n, reasons[n]) for _, nodes in parts for n in nodes if n in reasons and counts(n)]
    total = sum(1 for _, nodes in parts for n in nodes if counts(n))
    made = sum(1 for in_torch, _ in parts if not in_torch)
    return Lowered(Compiled(body), lowering.kind, total, made, left)


def _part(
    lowering: Lowering,
    inputs: Sequence[FxNode],
    nodes: Sequence[FxNode],
    outputs: Sequence[tuple[FxNode, None]],
    place: Mapping[FxNode, int],
) -> Part:
    """If need be, without what would be computed of steady inputs ahead."""
    try:
        return lowering.part(inputs, nodes, outputs, place)
    except UNFIT:
        if not any(n in lowering.steady for n in inputs):
            raise
        return lowering.part(inputs, nodes, outputs, place, derives=False)


def _module(
    root: torch.fx.GraphModule,
    nodes: Sequence[FxNode],
    takes: Sequence[FxNode],
    gives: Sequence[FxNode],
) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    made: dict[FxNode, FxNode] = {n: graph.placeholder(n.name) for n in takes}

    def twin(node: FxNode) -> FxNode:
        if node not in made and node.op == "get_attr":
            made[node] = graph.node_copy(node)
        return made[node]

    for node in nodes:
        made[node] = graph.node_copy(node, twin)
    graph.output(tuple(made[n] for n in gives))
    return torch.fx.GraphModule(root, graph)
