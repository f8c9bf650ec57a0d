"""Resizing of images: nearest, bilinear, bicubic; grid_sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.torch.record import Dim, Size
from weft.torch.translate.core import Translation, Val, rule

_PADDING = ("zeros", "border", "reflection")


def _resize(
    t: Translation,
    x: Val,
    mode: str,
    align_corners: bool,
    scales: Sequence[float | None],
    **extra: Any,
) -> Val:
    """torch computes with the factor it was given; without one, with the quotient of the sizes."""
    n = len(scales)
    where = "align_corners" if align_corners else "pytorch_half_pixel"
    if mode == "nearest":
        where, extra = "asymmetric", {**extra, "nearest_mode": "floor"}
    elif all(isinstance(d, int) and d > 1 for d in t.result.dims[-n:]):
        where = "align_corners" if align_corners else "half_pixel"
    given = [s for s in scales if isinstance(s, (int, float))]
    sizes_known = x.dims[-n:]
    exact = len(given) == n and not (align_corners and mode != "nearest")
    if exact and not any(isinstance(s, Size) for s in scales):
        factors = t.tensor(np.array([1, 1, *given], np.float32))
        floor = [
            isinstance(d, int) and isinstance(o, int) and int(np.floor(np.float32(s) * d)) == o
            for s, d, o in zip(given, sizes_known, t.result.dims[-n:])
        ]
        if all(floor) or any(isinstance(d, Size) for d in sizes_known):
            return t.op(
                "Resize", x, None, factors, dims=t.result.dims, mode=mode,
                coordinate_transformation_mode=where, **extra,
            )  # fmt: skip
    target = t.shape(t.result.dims)
    return t.op(
        "Resize", x, None, None, target, dims=t.result.dims, mode=mode,
        coordinate_transformation_mode=where, **extra,
    )  # fmt: skip


def _factors(n: int, scales: Sequence[Any]) -> list[float | None]:
    if len(scales) == 1 and isinstance(scales[0], (list, tuple)):
        scales = scales[0]
    return [*scales, *([None] * (n - len(scales)))][:n]


def _nearest(n: int) -> Callable[..., Val]:
    def function(t: Translation, self: Val, output_size: Sequence[Dim] | None, *scales: Any,
                 **named: Any) -> Val:  # fmt: skip
        given = scales or tuple(named.values())
        return _resize(t, self, "nearest", False, _factors(n, given))

    return function


for _n in (1, 2, 3):
    rule(f"aten.upsample_nearest{_n}d.default", f"aten.upsample_nearest{_n}d.vec")(_nearest(_n))


def _smooth(n: int, mode: str, **extra: Any) -> Callable[..., Val]:
    def function(t: Translation, self: Val, output_size: Sequence[Dim] | None,
                 align_corners: bool, *scales: Any, **named: Any) -> Val:  # fmt: skip
        given = scales or tuple(named.values())
        return _resize(t, self, mode, align_corners, _factors(n, given), **extra)

    return function


for _n, _op, _mode, _extra in (
    (1, "linear1d", "linear", {}),
    (2, "bilinear2d", "linear", {}),
    (3, "trilinear3d", "linear", {}),
    (2, "bicubic2d", "cubic", {"cubic_coeff_a": -0.75}),
    (2, "_bilinear2d_aa", "linear", {"antialias": 1}),
    (2, "_bicubic2d_aa", "cubic", {"cubic_coeff_a": -0.5, "antialias": 1}),
):
    _name = f"_upsample{_op}" if _op.startswith("_") else f"upsample_{_op}"
    rule(f"aten.{_name}.default", f"aten.{_name}.vec")(_smooth(_n, _mode, **_extra))


@rule("aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default", "aten.grid_sampler.default")
def grid_sampler(
    t: Translation, input: Val, grid: Val, interpolation_mode: int, padding_mode: int,
    align_corners: bool,
) -> Val:  # fmt: skip
    return t.op(
        "GridSample", input, grid, dims=t.result.dims,
        mode=("linear", "nearest", "cubic")[interpolation_mode],
        padding_mode=_PADDING[padding_mode], align_corners=int(align_corners),
    )  # fmt: skip
