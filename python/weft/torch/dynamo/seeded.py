"""Random operators of compiled graphs: streams of one state, which torch's generator gives anew in
each call, so that `torch.manual_seed` decides what is drawn.

    u = weft::RandomUniform(like, state) {stream = k}        state: int64[2]

Two operators of a graph differ by their stream. The laws are torch's, the numbers are not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.torch.record import Dim, DType
from weft.torch.translate.builder import Attribute
from weft.torch.translate.core import FLOATS, Rule, Translation, Untranslatable, Val

STATE = "random_state"


class Streams:
    """The state's input of one graph, made when something draws."""

    def __init__(self) -> None:
        self._state: Val | None = None
        self._count = 0

    @property
    def used(self) -> bool:
        return self._state is not None

    def uniform(self, t: Translation, like: Val, low: float, high: float) -> Val:
        return self._draw(t, "weft::RandomUniform", like, low=low, high=high)

    def normal(self, t: Translation, like: Val, mean: float, scale: float) -> Val:
        return self._draw(t, "weft::RandomNormal", like, mean=mean, scale=scale)

    def _draw(self, t: Translation, op: str, like: Val, **law: Attribute) -> Val:
        if self._state is None:
            self._state = Val(t.builder.input(STATE, "int64", (2,)), "int64", (2,))
        self._count += 1
        if like.dtype not in FLOATS:
            raise Untranslatable(f"random numbers of dtype {like.dtype}")
        law.update(stream=self._count, dtype=DType(like.dtype))
        (result,) = t.ops(op, [like, self._state], [(like.dtype, like.dims)], **law)
        return result

    def rules(self) -> dict[str, Rule]:
        table: dict[str, Callable[..., Any]] = {}

        def like_result(t: Translation) -> Val:
            dims: tuple[Dim, ...] = t.result.dims
            return t.full(0.0, dims, t.result.dtype)

        def rand(t: Translation, *_: Any, **__: Any) -> Val:
            return self.uniform(t, like_result(t), 0.0, 1.0)

        def randn(t: Translation, *_: Any, **__: Any) -> Val:
            return self.normal(t, like_result(t), 0.0, 1.0)

        def uniform(t: Translation, self_: Val, *bounds: float, **given: Any) -> Val:
            low, high = (*bounds, *(0.0, 1.0)[len(bounds) :])
            low, high = given.get("from", low), given.get("to", high)
            return self.uniform(t, self_, float(low), float(high))

        def normal(t: Translation, self_: Val, *law: float, **given: Any) -> Val:
            mean, std = (*law, *(0.0, 1.0)[len(law) :])
            mean, std = given.get("mean", mean), given.get("std", std)
            return self.normal(t, self_, float(mean), float(std))

        def bernoulli_p(t: Translation, self_: Val, p: float = 0.5, **_: Any) -> Val:
            like = self_ if self_.dtype in FLOATS else t.cast(self_, "float32")
            drawn = self.uniform(t, like, 0.0, 1.0)
            return t.cast(t.binary("Less", drawn, float(p), drawn.dtype, "bool"), t.result.dtype)

        def bernoulli(t: Translation, self_: Val, **_: Any) -> Val:
            drawn = self.uniform(t, self_, 0.0, 1.0)
            return t.cast(t.op("Less", drawn, self_, dtype="bool"), t.result.dtype)

        def native_dropout(
            t: Translation, input: Val, p: float, train: bool | None = None
        ) -> list[Val]:
            if train is False or p == 0:
                return [input, t.full(True, input.dims, "bool")]
            drawn = self.uniform(t, input, 0.0, 1.0)
            kept = t.binary("GreaterOrEqual", drawn, float(p), drawn.dtype, "bool")
            if p >= 1:
                return [t.mul(input, 0.0), kept]
            return [t.where(kept, t.mul(input, 1.0 / (1.0 - p)), 0.0, input.dtype), kept]

        table["aten.rand.default"] = rand
        table["aten.randn.default"] = randn
        table["aten.rand_like.default"] = lambda t, self, **_: uniform(t, self)
        table["aten.randn_like.default"] = lambda t, self, **_: normal(t, self)
        table["aten.uniform.default"] = lambda t, self, *b, **k: uniform(t, self, *b, **k)
        table["aten.normal_functional.default"] = lambda t, self, *b, **k: normal(t, self, *b, **k)
        table["aten.bernoulli.p"] = lambda t, self, p=0.5, **k: bernoulli_p(t, self, p, **k)
        table["aten.bernoulli.default"] = lambda t, self, **k: bernoulli(t, self, **k)
        table["aten.native_dropout.default"] = native_dropout
        return table
