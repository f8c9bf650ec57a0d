"""`TrainStep`: forward, backward and update of a model as one program on torch's own memory.

Parameters, buffers and what the optimizer remembers stay torch's tensors; the program has adopted
their memory (`VariableStore.adopt`), so `state_dict` shows what the steps have done, and eager code
may do steps of its own in between. Before each step the places that hold these tensors are looked
at: where another tensor is, or other memory, that is adopted instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import weft
from weft._weft import _Watch
from weft.torch import optimizers
from weft.torch.capture import private
from weft.torch.capture.losses import strip_prefix, with_loss
from weft.torch.exporting import ExportError, SpecializationWarning, build, capture
from weft.torch.graph import GraphBuilder
from weft.torch.held import (
    Constants,
    ParameterState,
    Steps,
    check,
    refuse_hooks,
    tensors_of,
)
from weft.torch.record import Dim
from weft.torch.seeding import seed_from
from weft.torch.translate.core import Rule

_RANDOM = "random.state"


@dataclass(slots=True)
class _Class:
    """Parameters of one group that have taken equally many steps: they share coefficients."""

    group: int
    members: list[ParameterState]
    # What the program reads: coefficients by dtype, each in its place.
    values: dict[str, Any]
    keys: tuple[str, ...]
    last: tuple[Any, ...] = ()

    def uniform(self) -> bool:
        steps = self.members[0].steps
        if steps is None:
            first = self.members[0].fresh
            return all([m.fresh is first for m in self.members])
        values = steps.values()
        held = [values[m.position] for m in self.members]
        return held.count(held[0]) == len(held)

    def count(self) -> bool:
        """One more step was taken. Whether it was the first that the optimizer knows of."""
        steps = self.members[0].steps
        if steps is not None:
            steps.count([m.position for m in self.members])
        first = self.members[0].fresh
        if first:
            for member in self.members:
                member.install()
        return first


@dataclass(slots=True)
class _Program:
    session: weft.Session
    # Which of the tensors of a call are inputs, and the classes of parameters that it updates.
    inputs: list[int]
    classes: list[_Class]
    random: bool
    written: list[torch.Tensor]
    # Sizes of the tensors of a call; symbols stand for any.
    sizes: list[tuple[Dim, ...]]
    constants: Constants

    def takes(self, shapes: Sequence[torch.Size]) -> bool:
        return len(shapes) == len(self.sizes) and all(
            len(shape) == len(dims)
            and all(n == d or not isinstance(d, int) for n, d in zip(shape, dims))
            for shape, dims in zip(shapes, self.sizes)
        )


class TrainStep:
    """One call is one step, and gives the loss.

        step = weft.torch.TrainStep(model, torch.nn.functional.cross_entropy, optimizer)
        for x, y in batches:
            loss = step(x, y)

    `loss` is a function of the model's result and of the last `targets` arguments of a call; the
    others are the model's. Each combination of sizes is another program, made when it is first met,
    unless `dynamic_shapes` (torch.export's, targets by `target` or `target_0` ...) says which sizes
    are symbols. `optimizer` is torch's SGD, Adam or AdamW; its `grad` fields are left alone.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Callable[..., Any],
        optimizer: torch.optim.Optimizer,
        *,
        targets: int = 1,
        dynamic_shapes: Any = None,
        rules: Mapping[str, Rule] | None = None,
        threads: int = 0,
    ) -> None:
        private.check_version()
        self._kind = optimizers.kind_of(optimizer)
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self._targets, self._shapes, self._rules = targets, dynamic_shapes, rules
        self._threads = threads
        self._store = weft.VariableStore()
        self._programs: dict[Any, _Program] = {}
        self._states: dict[str, ParameterState] = {}
        self._steps: dict[int, Steps] = {}
        self._tensors: dict[str, torch.Tensor] = {}
        self._watch = _Watch()
        self._signature: Any = None
        self._groups: list[list[torch.Tensor]] = []
        self._random = torch.zeros(2, dtype=torch.int64)
        self._store.adopt(_RANDOM, self._random)
        self._count = 0
        parts = [model, *([loss] if isinstance(loss, torch.nn.Module) else [])]
        self._whole = torch.nn.ModuleList(parts)
        self._bind()

    def __call__(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Takes a step. The result is the loss, a tensor without gradient."""
        if not self._unchanged():
            self._bind()
        leaves = list(args) if not kwargs else private.pytree.tree_leaves((args, kwargs))
        if any(isinstance(a, (tuple, list, dict)) for a in leaves):
            leaves = private.pytree.tree_leaves((args, kwargs))
        key = self._key(args, kwargs, leaves)
        program = self._programs.get(key) or self._fitting(key)
        if program is not None and not program.constants.unchanged():
            self._programs = {
                k: p for k, p in self._programs.items() if p.constants.unchanged()
            }
            program = None
        if program is None or not all([c.uniform() for c in program.classes]):
            program = self._programs[key] = self._make(args, kwargs, leaves)
        for part in program.classes:
            self._feed(part)
        if program.random:
            self._random.random_()
        tensors = [a.detach() if a.requires_grad else a for a in leaves if _is_tensor(a)]
        try:
            (result,) = program.session.run(
                *[tensors[i] for i in program.inputs], results="torch"
            )
        except BaseException:
            # What was never a step is forgotten: the next one begins anew.
            self._states = {n: s for n, s in self._states.items() if not s.fresh}
            self._programs.clear()
            raise
        self._counted(program)
        value: torch.Tensor = result
        return value

    @property
    def num_programs(self) -> int:
        """How many programs there are: one for each combination of sizes, modes and terms."""
        return len({id(p) for p in self._programs.values()})

    # ---- what a step does besides running ----

    def _feed(self, part: _Class) -> None:
        """Coefficients of this step, where they are others than those of the last."""
        group = self.optimizer.param_groups[part.group]
        past = part.members[0].past()
        if self._kind == "SGD":
            past = min(past, 1)
        now = (past, *[group[k] for k in _NUMBERS[self._kind]])
        if now != part.last or any(isinstance(v, torch.Tensor) for v in now):
            values = optimizers.coefficients(self._kind, group, past)
            for array in part.values.values():
                array[:] = [values[k] for k in part.keys]
            part.last = now

    def _counted(self, program: _Program) -> None:
        first = [part.count() for part in program.classes]
        if any(first):
            self._look()
        # Autograd and others see that the content is another.
        torch.autograd.graph.increment_version(program.written)
        for part in program.classes:
            if part.members[0].steps is not None:
                part.members[0].steps.told()
        private.mark_stepped(self.optimizer)

    # ---- what programs depend on ----

    def _key(self, args: Any, kwargs: Any, leaves: Sequence[Any]) -> Any:
        given = tuple([(a.shape, a.dtype) if _is_tensor(a) else a for a in leaves])
        spec = None
        if kwargs or len(leaves) != len(args):
            spec = private.pytree.tree_structure((args, kwargs))
        terms = [optimizers.structure(self._kind, g) for g in self.optimizer.param_groups]
        return (
            given,
            spec,
            tuple(terms),
            tuple([m.training for m in self._modules]),
            tuple([p.requires_grad for p in self._parameters]),
            torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"),
        )

    def _fitting(self, key: Any) -> _Program | None:
        """A program of symbolic sizes that serves these too."""
        shapes = [g[0] for g in key[0] if isinstance(g, tuple)]
        for other, program in self._programs.items():
            same = [g[1] if isinstance(g, tuple) else g for g in other[0]] == [
                g[1] if isinstance(g, tuple) else g for g in key[0]
            ]
            if same and other[1:] == key[1:] and program.takes(shapes):
                self._programs[key] = program
                return program
        return None

    def _unchanged(self) -> bool:
        groups = self.optimizer.param_groups
        if len(groups) != len(self._groups):
            return False
        for group, seen in zip(groups, self._groups):
            held = group["params"]
            if len(held) != len(seen) or not all(a is b for a, b in zip(held, seen)):
                return False
        if any(map(private.has_gradient_hooks, self._parameters)):
            return False
        return self.optimizer.state is self._memory and self._watch.unchanged()

    def _look(self) -> None:
        """What is held now is what will be looked for."""
        self._watch = watch = _Watch()
        self._memory = self.optimizer.state
        tensors_of(self._whole, watch)
        for tensor in self._tensors.values():
            watch.remember(tensor)
        watch.hold(self._memory)
        for state in self._states.values():
            if not state.fresh:
                watch.hold(state.entries)
            for key in state.keys:
                watch.remember(state.entries[key])

    def _bind(self) -> None:
        """Adopts what the model and the optimizer hold now."""
        self._modules = list(self._whole.modules())
        self._groups = [list(g["params"]) for g in self.optimizer.param_groups]
        self._tensors = {}
        for name, tensor in tensors_of(self._whole, _Watch()).items():
            part, _, rest = name.partition(".")
            self._tensors[rest if part == "0" else f"loss.{rest}"] = tensor
        self._parameters = list(self._whole.parameters())
        for name, tensor in self._tensors.items():
            check(name, tensor)
        refuse_hooks(self._tensors.items(), self.optimizer)
        names = {id(t): n for n, t in self._tensors.items()}
        known = [[names.get(id(p)) for p in group] for group in self._groups]
        if not any(n is not None for group in known for n in group):
            raise weft.UsageError("the optimizer holds no parameter of the model")
        ties = [
            (n, id(t))
            for n, t in self._whole.named_parameters(remove_duplicate=False)
        ]
        first = {i: n for n, i in reversed(ties)}
        signature = (
            [(n, t.dtype, t.shape) for n, t in self._tensors.items()],
            known,
            [(n, first[i]) for n, i in ties],
        )
        if signature != self._signature:
            self._programs.clear()
            self._signature = signature
            self._store = weft.VariableStore()
            self._store.adopt(_RANDOM, self._random)
        before, self._states, self._steps = self._states, {}, {}
        for name, tensor in self._tensors.items():
            self._store.adopt(name, tensor.detach())
        self._programs = {
            key: program
            for key, program in self._programs.items()
            if self._rebound(program, before)
        }
        self._look()

    def _rebound(self, program: _Program, before: Mapping[str, ParameterState]) -> bool:
        """Whether a program can go on with what is held now."""
        names = {id(state): name for name, state in before.items()}
        for part in program.classes:
            held = [names.get(id(member)) for member in part.members]
            if any(n is None for n in held):
                return False
            terms = optimizers.structure(self._kind, self.optimizer.param_groups[part.group])
            part.members = [self._state(n, part.group, terms) for n in held if n is not None]
            part.last = ()
        program.written = self._written(program.classes)
        return True

    def _state(self, name: str, number: int, terms: tuple[str, ...]) -> ParameterState:
        """What the optimizer remembers of a parameter of a group, adopted."""
        keys = optimizers.slots(self._kind, terms)
        state = self._states.get(name)
        if state is None or state.keys != keys:
            parameter, group = self._tensors[name], self._groups[number]
            steps = None
            if self._kind != "SGD":
                steps = self._steps.setdefault(number, Steps(len(group)))
            position = next(i for i, p in enumerate(group) if p is parameter)
            state = ParameterState(self.optimizer, parameter, keys, steps, position)
            for key in keys:
                label = f"optimizer.{name}.{key}"
                check(label, state.entries[key])
                self._store.adopt(label, state.entries[key])
            self._states[name] = state
        return state

    def _written(self, classes: Sequence[_Class]) -> list[torch.Tensor]:
        buffers = [b for m in self._modules for b in m.buffers(recurse=False)]
        parameters = [m.parameter for part in classes for m in part.members]
        counts = [s.vector for s in dict.fromkeys(m.steps for part in classes for m in part.members) if s]
        return [*parameters, *buffers, *counts]

    # ---- making a program ----

    def _make(self, args: Any, kwargs: Any, leaves: Sequence[Any]) -> _Program:
        count = len(args) - self._targets
        if count < 0:
            raise weft.UsageError(
                f"a step takes the model's arguments and {self._targets} of the loss; "
                f"{len(args)} given"
            )
        module, given, shapes = with_loss(
            self.model, self.loss, args[:count], args[count:], self._shapes
        )
        captured = strip_prefix(capture(module, given, kwargs, shapes, gradients=True))
        record = captured.record
        for found in record.specializations:
            if found.symbol is not None:
                where = f" at {found.place}" if found.place else ""
                warnings.warn(
                    f"'{found.symbol}' is fixed: {found.fact}{where}", SpecializationWarning, 3
                )
        record.outputs = [o for o in record.outputs if o.name == "loss"]
        held = Constants(captured.held)
        constants = {s.name for s in record.sources if s.kind == "constant"}
        classes: list[_Class] = []

        def updates(builder: GraphBuilder, gradients: Mapping[str, weft.Entry]) -> None:
            classes.extend(self._add_steps(builder, gradients))

        exported = build(
            record,
            {n: t for n, t in captured.tensors.items() if n in constants},
            rules=self._rules,
            loss="loss",
            variables=tuple(s.name for s in record.sources if s.kind != "constant"),
            updates=updates,
        )
        graph = exported.graph
        random = seed_from(graph, lambda: graph.state(_RANDOM, None, "int64", (2,)))
        inputs = [s for s in record.sources if s.kind == "input"]
        names, order = [s.name for s in inputs], [e.name for e in graph.inputs]
        self._look()
        session = weft.Session(exported.compile(threads=self._threads), self._store)
        return _Program(
            session,
            [names.index(n) for n in order],
            classes,
            random,
            self._written(classes),
            [record.tensor(s.value).dims for s in inputs],
            held,
        )

    def _add_steps(
        self, builder: GraphBuilder, gradients: Mapping[str, weft.Entry]
    ) -> list[_Class]:
        """Nodes of the optimizer's step, and the parameters that it is of."""
        writer = optimizers.Writer(builder)
        depends = optimizers.reached(gradients)
        names = {id(t): n for n, t in self._tensors.items()}
        classes: list[_Class] = []
        for number, group in enumerate(self.optimizer.param_groups):
            terms = optimizers.structure(self._kind, group)
            members = [names[id(p)] for p in group["params"] if id(p) in names]
            apart: dict[int, list[str]] = {}
            for name in members:
                if name in depends:
                    apart.setdefault(self._state(name, number, terms).past(), []).append(name)
            for held in apart.values():
                classes.append(self._add_class(writer, number, terms, held, gradients))
        if not classes:
            raise ExportError("the loss depends on no parameter that the optimizer holds")
        return classes

    def _add_class(
        self,
        writer: optimizers.Writer,
        number: int,
        terms: tuple[str, ...],
        held: list[str],
        gradients: Mapping[str, weft.Entry],
    ) -> _Class:
        states = [self._states[n] for n in held]
        group = self.optimizer.param_groups[number]
        keys = tuple(optimizers.coefficients(self._kind, group, 0))
        part = _Class(number, states, {}, keys)
        self._count += 1
        prefix = f"optimizer.{self._count}"
        read: dict[tuple[str, str], weft.Entry] = {}

        def at(key: str, dtype: str) -> weft.Entry:
            if dtype not in part.values:
                part.values[dtype] = np.zeros(len(keys), dtype)
            if (key, dtype) not in read:
                label, i = f"{prefix}.{key}.{dtype}", keys.index(key)
                self._store.adopt(label, part.values[dtype][i : i + 1].reshape(()))
                read[key, dtype] = writer.graph.state(label, None, dtype, ())
            return read[key, dtype]

        for name in held:
            dtype = optimizers.dtype_of(self._tensors[name])

            def slot(key: str, n: str = name, d: str = dtype) -> weft.Entry:
                shape = tuple(self._tensors[n].shape)
                return writer.graph.state(f"optimizer.{n}.{key}", None, d, shape)

            optimizers.write_step(
                writer, self._kind, terms, name, dtype, gradients[name], at, slot
            )
        return part


_NUMBERS = {
    "SGD": ("lr", "weight_decay", "momentum", "dampening"),
    "Adam": ("lr", "weight_decay", "betas", "eps"),
    "AdamW": ("lr", "weight_decay", "betas", "eps"),
}


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)
