"""What the translator builds into: the graph of whoever uses it.

`weft.torch.graph` builds Weft's graphs. The protocol is small, so that another target is a class
of forty lines. Operators are ONNX's newest under their own names, and `weft::` ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Union

import numpy as np
import numpy.typing as npt

from weft.torch.record import DType

Array = npt.NDArray[Any]
# A value of the graph under construction; the translator never looks inside.
Entry = Any
Graph = Any
Attribute = Union[int, float, str, DType, Array, Sequence[int], Sequence[float], Graph]


class Builder(Protocol):
    def input(self, name: str, dtype: str, dims: Sequence[int | str]) -> Entry:
        """An input of the graph; dims that are no numbers are names of symbols or expressions."""

    def weight(self, name: str, dtype: str, dims: Sequence[int], trainable: bool) -> Entry:
        """A parameter or buffer, whose content the builder has."""

    def constant(self, array: Array) -> Entry:
        """A tensor that is part of the model's code."""

    def node(
        self,
        op: str,
        inputs: Sequence[Entry | None],
        attributes: Mapping[str, Attribute],
        outputs: int,
        origin: str,
    ) -> Sequence[Entry]:
        """A node; `origin` is what it stands for, for errors and profiles."""

    def nested(self) -> Builder:
        """A builder of the body of a node, whose inputs are all that it reads."""

    def finish(self) -> Graph:
        """The graph, when all is there."""

    def border(self, value: Entry, dtype: str, dims: Sequence[int | str]) -> Entry:
        """The same value, through which no gradient goes."""

    def gradients(
        self, ys: Sequence[Entry], xs: Sequence[Entry], dys: Sequence[Entry]
    ) -> Sequence[Entry]:
        """Gradients of `ys`, whose own are `dys`, by each of `xs`."""

    def replace(self, old: Entry, new: Entry) -> None:
        """All that reads `old` reads `new`."""

    def reads(self, source: Entry) -> bool:
        """A result depends on the content of an input, and not on its type alone."""

    def is_used(self, source: Entry) -> bool:
        """Some node has this input."""

    def inline(self, graph: Graph, operands: Sequence[Entry], origin: str) -> Sequence[Entry]:
        """The nodes of another graph among these; `operands` are its inputs."""

    def output(self, name: str, value: Entry) -> None:
        """A result of the graph, in order."""

    def update(self, name: str, value: Entry) -> None:
        """The content of an input, parameter or buffer after the run."""


DTYPES: Mapping[str, np.dtype[Any]] = {
    name: np.dtype(name)
    for name in (
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
    ).split()
}
