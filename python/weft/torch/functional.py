"""Records without in-place calls: writes become values.

`torch.export` keeps `relu_`, `add_`, `copy_` and writes through views. Here each becomes its
functional form; what shares memory with the written tensor is read anew behind it. A tensor is a
base or a view of one, by a chain of view calls. A write to a view goes up the chain, by the inverse
of each call, to the base; other views are made of the new base again when something reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from weft.torch.record import (
    Argument,
    Dim,
    Node,
    Output,
    Record,
    Ref,
    TensorType,
)

# Operators whose result shares memory with their first argument.
_VIEWS = frozenset(
    "alias as_strided detach diagonal expand expand_as narrow permute select slice squeeze t "
    "transpose unsqueeze view view_as movedim swapaxes unfold mT numpy_T lift_fresh "
    "_reshape_alias positive".split()
)
_MAYBE_VIEWS = frozenset(["reshape", "flatten", "contiguous", "unflatten", "to", "dropout"])
_MANY_VIEWS = frozenset(["split", "split_with_sizes", "chunk", "unbind", "tensor_split"])

# In-place calls whose functional form has another name or overload.
_FORMS = {
    "aten.copy_.default": "aten.copy.default",
    "aten.fill_.Scalar": "aten.fill.Scalar",
    "aten.fill_.Tensor": "aten.fill.Tensor",
    "aten.zero_.default": "aten.zero.default",
    "aten.uniform_.default": "aten.uniform.default",
    "aten.normal_.default": "aten.normal_functional.default",
    "aten.bernoulli_.float": "aten.bernoulli.p",
}


class NotFunctional(ValueError):
    """A write whose effect on other tensors is not known here."""


@dataclass(slots=True)
class _View:
    base: int  # a value that is no view
    parent: int
    node: Node
    result: int  # which result of the node


@dataclass(slots=True)
class _State:
    record: Record
    out: list[Node] = field(default_factory=list)
    views: dict[int, _View] = field(default_factory=dict)
    # Base -> its number of writes; value -> the writes of its base that its current form has seen.
    version: dict[int, int] = field(default_factory=dict)
    seen: dict[int, int] = field(default_factory=dict)
    # Value -> what holds its content now.
    current: dict[int, int] = field(default_factory=dict)


def _family(op: str) -> str:
    parts = op.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "aten" else ""


def _is_write(op: str) -> bool:
    family = _family(op)
    return family.endswith("_") and not family.startswith("_") and not family.endswith("__")


def make_functional(record: Record) -> Record:
    """The same record without in-place calls; itself where it has none."""
    if not any(_is_write(n.op) for n in record.nodes):
        return record
    state = _State(record)
    for node in record.nodes:
        args = tuple(_renew(state, a) for a in node.args)
        kwargs = {k: _renew(state, a) for k, a in node.kwargs.items()}
        fresh = Node(node.op, args, kwargs, node.results, node.stack, node.differentiable)
        if _is_write(node.op):
            _write(state, node, fresh)
            continue
        state.out.append(fresh)
        _note_views(state, node)
    for name, index in list(record.updates.items()):
        record.updates[name] = _now(state, index)
    for source in record.sources:
        if source.value in state.version and source.name not in record.updates:
            record.updates[source.name] = state.current[source.value]
    record.outputs = [Output(o.name, _renew(state, o.value)) for o in record.outputs]
    record.nodes = state.out
    return record


def _note_views(state: _State, node: Node) -> None:
    family = _family(node.op)
    first = node.args[0] if node.args else node.kwargs.get("self")
    if not isinstance(first, Ref):
        return
    if family in _VIEWS or family in _MAYBE_VIEWS or family in _MANY_VIEWS:
        if family == "to" and node.results[0] is not None:
            old, new = state.record.values[first.index], state.record.values[node.results[0]]
            if old != new:
                return
        parent = first.index
        base = state.views[parent].base if parent in state.views else parent
        for position, result in enumerate(node.results):
            if result is not None:
                state.views[result] = _View(base, parent, node, position)
                state.seen[result] = state.version.get(base, 0)


def _now(state: _State, index: int) -> int:
    """The value that holds the content of `index` after all writes so far."""
    view = state.views.get(index)
    if view is None:
        return state.current.get(index, index)
    version = state.version.get(view.base, 0)
    if state.seen[index] == version:
        return state.current.get(index, index)
    # Made again, of the parent as it is now.
    parent = _now(state, view.parent)
    node = view.node
    results: list[int | None] = [None] * len(node.results)
    fresh = _copy_type(state, index)
    results[view.result] = fresh
    if len(results) > 1:  # all of them, since rules count results by their types
        results = [
            fresh if i == view.result or r is None else _copy_type(state, r)
            for i, r in enumerate(node.results)
        ]
    args = (Ref(parent), *(_renew(state, a) for a in node.args[1:]))
    state.out.append(
        Node(node.op, args, node.kwargs, tuple(results), node.stack, node.differentiable)
    )
    state.current[index] = fresh
    state.seen[index] = version
    return fresh


def _copy_type(state: _State, index: int) -> int:
    state.record.values.append(state.record.values[index])
    return len(state.record.values) - 1


def _renew(state: _State, a: Argument) -> Argument:
    if isinstance(a, Ref):
        return Ref(_now(state, a.index))
    if isinstance(a, tuple):
        return tuple(_renew(state, part) for part in a)
    return a


def _write(state: _State, node: Node, fresh: Node) -> None:
    target = node.args[0] if node.args else node.kwargs["self"]
    if not isinstance(target, Ref):
        raise NotFunctional(f"{state.record.place(node)} writes to several tensors")
    namespace, family, overload = node.op.split(".")
    op = _FORMS.get(node.op, f"{namespace}.{family[:-1]}.{overload}")
    value = _copy_type(state, target.index)
    state.out.append(Node(op, fresh.args, fresh.kwargs, (value,), node.stack, node.differentiable))
    _store(state, target.index, value, node)
    # The call gives its target, as an alias.
    for result in node.results:
        if result is not None and result != target.index:
            alias = Node("aten.alias.default", (target,), {}, (result,), node.stack)
            base = state.views[target.index].base if target.index in state.views else target.index
            state.views[result] = _View(base, target.index, alias, 0)
            state.seen[result] = state.version.get(base, 0)
            state.current[result] = _now(state, target.index)


def _store(state: _State, index: int, value: int, node: Node) -> None:
    """`value` is the content of `index` from now on, and of its base and all views of that."""
    chain: list[tuple[int, int]] = [(index, value)]
    at = index
    while at in state.views:
        view = state.views[at]
        parent_now = _now(state, view.parent)
        value = _put_back(state, view, parent_now, value, node)
        at = view.parent
        chain.append((at, value))
    base = at
    state.version[base] = state.version.get(base, 0) + 1
    for held, content in chain:
        state.current[held] = content
        state.seen[held] = state.version[base]


def _put_back(state: _State, view: _View, parent: int, value: int, write: Node) -> int:
    """The parent with what its view holds now written into it."""
    node = view.node
    family = _family(node.op)
    invert = _INVERSES.get(family)
    if invert is None:
        raise NotFunctional(
            f"{state.record.place(write)} writes through {node.op}, which is not undone here"
        )
    kind = state.record.tensor(view.parent)
    op, args, kwargs = invert(view, kind, parent, value)
    if op == "":
        return value
    result = _copy_type(state, view.parent)
    state.out.append(Node(op, args, kwargs, (result,), write.stack, write.differentiable))
    return result


Inverse = tuple[str, tuple[Argument, ...], Mapping[str, Argument]]


def _arguments(
    view: _View, names: tuple[str, ...], defaults: tuple[Argument, ...]
) -> list[Argument]:
    """Arguments behind the first, given by position or by name."""
    node = view.node
    given = list(node.args[1:])
    return [
        given[i] if i < len(given) else node.kwargs.get(name, default)
        for i, (name, default) in enumerate(zip(names, defaults))
    ]


def _same(view: _View, kind: TensorType, parent: int, value: int) -> Inverse:
    return "", (), {}


def _reshaped(view: _View, kind: TensorType, parent: int, value: int) -> Inverse:
    return "aten.reshape.default", (Ref(value), tuple(kind.dims)), {}


def _transposed(view: _View, kind: TensorType, parent: int, value: int) -> Inverse:
    return view.node.op, (Ref(value), *view.node.args[1:]), view.node.kwargs


def _permuted(view: _View, kind: TensorType, parent: int, value: int) -> Inverse:
    (order,) = _arguments(view, ("dims",), ((),))
    assert isinstance(order, tuple)
    forward = [int(d) % kind.rank for d in order if isinstance(d, int)]
    back = tuple(forward.index(i) for i in range(kind.rank))
    return "aten.permute.default", (Ref(value), back), {}


def _sliced(view: _View, kind: TensorType, parent: int, value: int) -> Inverse:
    rest = _arguments(view, ("dim", "start", "end", "step"), (0, None, None, 1))
    return "aten.slice_scatter.default", (Ref(parent), Ref(value), *rest), {}


def _narrowed(view: _View, kind: TensorType, parent: int, value: int) -> Inverse:
    from weft.torch.translate.sizes import combine

    dim, start, length = _arguments(view, ("dim", "start", "length"), (0, 0, 0))
    end: Dim = combine("+", start, length)  # type: ignore[arg-type]
    return "aten.slice_scatter.default", (Ref(parent), Ref(value), dim, start, end, 1), {}


def _selected(view: _View, kind: TensorType, parent: int, value: int) -> Inverse:
    dim, index = _arguments(view, ("dim", "index"), (0, 0))
    return "aten.select_scatter.default", (Ref(parent), Ref(value), dim, index), {}


_INVERSES: Mapping[str, Callable[[_View, TensorType, int, int], Inverse]] = {
    **dict.fromkeys(
        ["alias", "detach", "lift_fresh", "contiguous", "to", "positive", "dropout"], _same
    ),
    **dict.fromkeys(
        ["view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "_reshape_alias",
         "view_as"],
        _reshaped,
    ),
    **dict.fromkeys(["transpose", "t", "swapaxes", "mT"], _transposed),
    "permute": _permuted,
    "slice": _sliced,
    "narrow": _narrowed,
    "select": _selected,
}  # fmt: skip
