"""Random tensors and dropout: torch's laws, and streams of Weft's."""

from __future__ import annotations

from typing import Any

from weft.torch.record import DType
from weft.torch.translate.core import Translation, Untranslatable, Val, rule


def _static(t: Translation) -> list[int]:
    dims = [d for d in t.result.dims if isinstance(d, int)]
    if len(dims) != t.result.rank:
        raise Untranslatable("random tensor of symbolic size that is like no other")
    return dims


@rule("aten.rand.default")
def rand(t: Translation, *_: Any, **__: Any) -> Val:
    kind = t.result
    return t.op(
        "RandomUniform", dtype=kind.dtype, dims=kind.dims, shape=_static(t), low=0.0, high=1.0,
        **{"dtype_": DType(kind.dtype)},
    )  # fmt: skip


@rule("aten.randn.default")
def randn(t: Translation, *_: Any, **__: Any) -> Val:
    kind = t.result
    return t.op(
        "RandomNormal", dtype=kind.dtype, dims=kind.dims, shape=_static(t), mean=0.0, scale=1.0,
        **{"dtype_": DType(kind.dtype)},
    )  # fmt: skip


@rule("aten.rand_like.default", "aten.uniform.default")
def rand_like(t: Translation, self: Val, *bounds: float, **_: Any) -> Val:
    low, high = (*bounds, *(0.0, 1.0)[len(bounds) :])
    return t.op("RandomUniformLike", self, dtype=t.result.dtype, low=float(low), high=float(high))


@rule("aten.randn_like.default", "aten.normal_functional.default")
def randn_like(t: Translation, self: Val, *law: float, **_: Any) -> Val:
    mean, scale = (*law, *(0.0, 1.0)[len(law) :])
    return t.op(
        "RandomNormalLike", self, dtype=t.result.dtype, mean=float(mean), scale=float(scale)
    )


@rule("aten.bernoulli.p")
def bernoulli_p(t: Translation, self: Val, p: float = 0.5, **_: Any) -> Val:
    drawn = t.op("RandomUniformLike", self, low=0.0, high=1.0)
    return t.cast(t.binary("Less", drawn, p, drawn.dtype, "bool"), t.result.dtype)


@rule("aten.bernoulli.default")
def bernoulli(t: Translation, self: Val, **_: Any) -> Val:
    drawn = t.op("RandomUniformLike", self, low=0.0, high=1.0)
    return t.cast(t.binary("Less", drawn, self, self.dtype, "bool"), t.result.dtype)


@rule("aten.native_dropout.default")
def native_dropout(
    t: Translation, input: Val, p: float, train: bool | None = None
) -> list[Val | None]:
    if train is False or p == 0:
        return [input, t.full(True, input.dims, "bool") if t.wants(1) else None]
    types: list[tuple[str, Any]] = [(input.dtype, input.dims)]
    if t.wants(1):
        types.append(("bool", input.dims))
    ratio = t.scalar(float(p), "float32")
    return list(t.ops("Dropout", [input, ratio, t.scalar(True, "bool")], types))


@rule("aten.dropout.default")
def dropout(t: Translation, input: Val, p: float, train: bool) -> Val | None:
    return native_dropout(t, input, p, train)[0]
