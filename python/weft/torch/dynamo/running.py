"""What runs in place of an fx graph: one program, or programs and parts left to torch in turn.

All of it is plain data beside the programs, so that it pickles: AOTAutograd's cache keeps it for
the next process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

import weft
from weft._weft import _Caller
from weft.torch.capture import private
from weft.torch.dynamo.layout import Order, relaid
from weft.torch.dynamo.noting import Noted
from weft.torch.record import Size
from weft.torch.translate import sizes

# Where the value of a symbol is found: an argument that is the number, or a dim of one.
Symbols = Mapping[str, tuple[int, int | None]]


@dataclass(slots=True)
class Born:
    """A result in memory of its own. `strides` None: dense in that order of dims, at the sizes of
    the run; `relaid`: with those strides, which are not dense."""

    dtype: torch.dtype
    order: Order
    sizes: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    relaid: tuple[int | Size, ...] | None = None


@dataclass(slots=True)
class Computed:
    """What is made of the arguments alone: a size, or a view by operators in turn, each of the one
    before (`args` behind the first)."""

    size: Size | None = None
    argument: int = 0
    views: tuple[tuple[str, tuple[Any, ...], Mapping[str, Any]], ...] = ()


@dataclass(slots=True)
class Part:
    """A part that a program runs. `program` and `derive` are Weft's."""

    program: weft.Program
    inputs: list[tuple[str, int, Order | None]]
    outputs: list[Born | tuple[int, Order]]
    results: list[tuple[str, Any]]  # as _Caller's
    derive: weft.Program | None = None
    derived_from: list[int] = field(default_factory=list)
    computed: list[Computed] = field(default_factory=list)
    symbols: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    nodes: int = 0  # of aten operators

    def runner(self) -> Callable[[list[Any]], list[Any]]:
        outputs: list[tuple[Any, ...]] = []
        relaying: list[tuple[int, tuple[int | Size, ...]]] = []
        for i, out in enumerate(self.outputs):
            if isinstance(out, Born):
                outputs.append((None, out.dtype, out.order or None, out.sizes, out.strides))
                if out.relaid is not None:
                    relaying += [
                        (at, out.relaid)
                        for at, (kind, index) in enumerate(self.results)
                        if kind == "output" and index == i
                    ]
            else:
                outputs.append((out[0], out[1] or None))
        caller = _Caller(
            self.program,
            [(kind, index, order or None) for kind, index, order in self.inputs],
            outputs,
            self.results,
            make=private.empty_strided,
            derive=None if self.derive is None else Deriving(self.derive),
            derived_from=self.derived_from,
            extra=draw_state if any(kind == "extra" for kind, _, _ in self.inputs) else None,
            compute=Computing(self.computed, self.symbols) if self.computed else None,
            written=torch.autograd.graph.increment_version,
        )
        return Relaying(caller, relaying, self.symbols) if relaying else caller


def relaid_by(part: Part) -> set[str]:
    """Symbols that strides of its results are made of."""
    found: set[str] = set()
    for out in part.outputs:
        if isinstance(out, Born):
            for stride in out.relaid or ():
                if isinstance(stride, Size):
                    found |= sizes.symbols_in(stride)
    return found


class Deriving:
    """Runs what follows from steady arguments."""

    def __init__(self, program: weft.Program) -> None:
        self._session = weft.Session(program)

    def __call__(self, arguments: list[Any]) -> list[Any]:
        return self._session.run(*[a.detach() for a in arguments], results="weft")


def draw_state() -> torch.Tensor:
    """A state for random operators, of torch's generator."""
    state = torch.empty(2, dtype=torch.int64)
    return state.random_()


def _values(symbols: Symbols, arguments: Sequence[Any]) -> dict[str, int]:
    return {
        name: arguments[at] if axis is None else arguments[at].shape[axis]
        for name, (at, axis) in symbols.items()
    }


def _filled(a: Any, values: Mapping[str, int]) -> Any:
    if isinstance(a, Size):
        return sizes.evaluate(a, dict(values))
    if isinstance(a, (list, tuple)):
        return [_filled(part, values) for part in a]
    return a


class Computing:
    def __init__(self, computed: Sequence[Computed], symbols: Symbols) -> None:
        self._symbols = symbols
        self._items = [
            (c, [(private.overload(name), args, kwargs) for name, args, kwargs in c.views])
            for c in computed
        ]
        self._symbolic = any(
            c.size is not None or "Size(" in repr([(a, k) for _, a, k in c.views])
            for c in computed
        )

    def __call__(self, arguments: list[Any]) -> list[Any]:
        values = _values(self._symbols, arguments) if self._symbolic else {}
        found: list[Any] = []
        for item, views in self._items:
            if item.size is not None:
                found.append(sizes.evaluate(item.size, values))
                continue
            value = arguments[item.argument]
            for op, args, kwargs in views:
                value = op(value, *(_filled(a, values) for a in args), **kwargs)
            found.append(value)
        return found


class Relaying:
    """Gives some results the strides that tracing has seen."""

    def __init__(
        self,
        run: Callable[[list[Any]], list[Any]],
        places: Sequence[tuple[int, tuple[int | Size, ...]]],
        symbols: Symbols,
    ) -> None:
        self._run, self._places, self._symbols = run, places, symbols

    def __call__(self, arguments: list[Any]) -> list[Any]:
        values = _values(self._symbols, arguments)
        results = self._run(arguments)
        for at, strides in self._places:
            results[at] = relaid(results[at], _filled(strides, values))
        return results


@dataclass(slots=True)
class Step:
    """A part in the middle of others. Values have numbers: arguments first."""

    part: Part | torch.fx.GraphModule
    takes: list[int]
    gives: list[int]
    drops: list[int]


@dataclass(slots=True)
class Mixed:
    """Parts one after another; between them values that later ones read."""

    steps: list[Step]
    values: int
    results: list[tuple[str, Any]]  # ("value", number), ("object", it), ("computed", i)
    computed: list[Computed]
    # Sizes that parts of torch take: (value number, expression).
    sizes: list[tuple[int, Size]]
    symbols: dict[str, tuple[int, int | None]]

    def runner(self) -> Callable[[list[Any]], list[Any]]:
        steps: list[tuple[Callable[[list[Any]], Any], list[int], list[int], list[int]]] = []
        for s in self.steps:
            if isinstance(s.part, Part):
                steps.append((s.part.runner(), s.takes, s.gives, s.drops))
            else:
                steps.append((_Unboxed(s.part), s.takes, s.gives, s.drops))
        compute = Computing(self.computed, self.symbols) if self.computed else None
        count, results, asked, symbols = self.values, self.results, self.sizes, self.symbols

        def run(arguments: list[Any]) -> list[Any]:
            made = compute(arguments) if compute is not None else []
            values: list[Any] = [*arguments, *([None] * (count - len(arguments)))]
            if asked:
                known = _values(symbols, arguments)
                for number, size in asked:
                    values[number] = sizes.evaluate(size, known)
            arguments.clear()
            for part, takes, gives, drops in steps:
                given = [values[i] for i in takes]
                for number, value in zip(gives, part(given)):
                    values[number] = value
                for number in drops:
                    values[number] = None
            return [
                values[v] if kind == "value" else made[v] if kind == "computed" else v
                for kind, v in results
            ]

        return run


class _Unboxed:
    def __init__(self, module: torch.fx.GraphModule) -> None:
        self._forward = module.forward

    def __call__(self, arguments: list[Any]) -> Any:
        return self._forward(*arguments)


_OutputCode: Any = private.output_code()


class Compiled(_OutputCode):  # type: ignore[misc]
    """The compiled function of one graph: takes a list, which it empties, and gives a list. `alone`:
    nothing of AOTAutograd is needed around it."""

    def __init__(self, body: Part | Mixed) -> None:
        self.body = body
        self.alone = False
        self._boxed_call = True
        self.run = body.runner()

    def __call__(self, inputs: Any) -> Any:
        return self.run(inputs)

    def direct(self) -> Callable[..., Any] | None:
        """As a function of single arguments, without what AOTAutograd puts around; None where it
        needs that."""
        return self.run.direct if self.alone and isinstance(self.run, _Caller) else None

    def prepare_for_serialization(self) -> None: ...

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """AOTAutograd's cache had it."""
        noted.add(self)

    def set_triton_bundle(self, triton_bundle: Any) -> None: ...

    def __getstate__(self) -> dict[str, Any]:
        return {"body": self.body, "alone": self.alone}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["body"])  # type: ignore[misc]
        self.alone = state["alone"]


# What the backend that a thread is in has made, or found in the cache.
noted = Noted[Compiled]()
