"""Convolutions of 1, 2, 3 dimensions and their transposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.torch.translate.core import Translation, Untranslatable, Val, rule


def _spread(values: Sequence[int] | int, n: int) -> list[int]:
    """One number stands for all axes."""
    if isinstance(values, int):
        return [values] * n
    return list(values) * n if len(values) == 1 else list(values)


@rule("aten.convolution.default", "aten._convolution.default")
def convolution(
    t: Translation,
    input: Val,
    weight: Val,
    bias: Val | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    *_: Any,
) -> Val:
    n = weight.rank - 2
    kernel = [k for k in weight.dims[2:] if isinstance(k, int)]
    if len(kernel) != n:
        raise Untranslatable("convolution with a symbolic kernel size")
    pads = _spread(padding, n)
    single = input.rank == n + 1
    x = t.unsqueeze(input, [0]) if single else input
    dims = (1, *t.result.dims) if single else t.result.dims
    common: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": _spread(stride, n),
        "pads": [*pads, *pads],
        "dilations": _spread(dilation, n),
        "group": groups,
    }
    if transposed:
        common["output_padding"] = _spread(output_padding, n)
    y = t.op("ConvTranspose" if transposed else "Conv", x, weight, bias, dims=dims, **common)
    return t.squeeze(y, [0]) if single else y


@rule("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default")
def conv(
    t: Translation,
    input: Val,
    weight: Val,
    bias: Val | None = None,
    stride: Sequence[int] | int = 1,
    padding: Sequence[int] | int = 0,
    dilation: Sequence[int] | int = 1,
    groups: int = 1,
) -> Val:
    n = weight.rank - 2
    return convolution(
        t, input, weight, bias, _spread(stride, n), _spread(padding, n), _spread(dilation, n),
        False, [0] * n, groups,
    )  # fmt: skip


@rule("aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding")
def conv_padding(
    t: Translation,
    input: Val,
    weight: Val,
    bias: Val | None = None,
    stride: Sequence[int] | int = 1,
    padding: str = "valid",
    dilation: Sequence[int] | int = 1,
    groups: int = 1,
) -> Val:
    """padding="same": the odd element goes behind."""
    n = weight.rank - 2
    kernel = [int(k) for k in weight.dims[2:] if isinstance(k, int)]
    spread = _spread(dilation, n)
    total = [d * (k - 1) if padding == "same" else 0 for d, k in zip(spread, kernel)]
    before = [p // 2 for p in total]
    return t.op(
        "Conv", input, weight, bias, dims=t.result.dims, kernel_shape=kernel,
        strides=_spread(stride, n), dilations=spread, group=groups,
        pads=[*before, *(p - b for p, b in zip(total, before))],
    )  # fmt: skip


@rule("aten.conv_transpose2d.input", "aten.conv_transpose1d.default", "aten.conv_transpose3d.input")
def conv_transpose(
    t: Translation,
    input: Val,
    weight: Val,
    bias: Val | None = None,
    stride: Sequence[int] | int = 1,
    padding: Sequence[int] | int = 0,
    output_padding: Sequence[int] | int = 0,
    groups: int = 1,
    dilation: Sequence[int] | int = 1,
) -> Val:
    n = weight.rank - 2
    return convolution(
        t, input, weight, bias, _spread(stride, n), _spread(padding, n), _spread(dilation, n),
        True, _spread(output_padding, n), groups,
    )  # fmt: skip


@rule("aten.im2col.default")
def im2col(
    t: Translation, self: Val, kernel_size: list[int], dilation: list[int], padding: list[int],
    stride: list[int],
) -> Val:  # fmt: skip
    """Windows as columns: a convolution with a kernel of ones and zeros would do; slices are
    fewer operations."""
    import numpy as np

    n, c, h, w = self.dims
    if not isinstance(h, int) or not isinstance(w, int):
        raise Untranslatable("im2col of symbolic sizes")
    ph, pw = padding
    x = self
    if ph or pw:
        pads = t.ints([0, 0, ph, pw, 0, 0, ph, pw])
        x = t.op("Pad", x, pads, dims=[n, c, h + 2 * ph, w + 2 * pw])
    hw = (h + 2 * ph, w + 2 * pw)
    index = []
    for size, k, d, s in zip(hw, kernel_size, dilation, stride):
        count = (size - d * (k - 1) - 1) // s + 1
        index.append(np.arange(k)[:, None] * d + np.arange(count)[None, :] * s)
    rows = index[0][:, None, :, None]
    cols = index[1][None, :, None, :]
    at = (rows * hw[1] + cols).reshape(-1)
    flat = t.reshape(x, [n, c, hw[0] * hw[1]])
    picked = t.op("Gather", flat, t.tensor(at), dims=[n, c, at.size], axis=2)
    return t.reshape(picked, t.result.dims)


@rule("aten.col2im.default")
def col2im(
    t: Translation, self: Val, output_size: list[int], kernel_size: list[int],
    dilation: list[int], padding: list[int], stride: list[int],
) -> Val:  # fmt: skip
    return t.op(
        "Col2Im", self, t.ints(output_size), t.ints(kernel_size), dims=t.result.dims,
        dilations=dilation, pads=[*padding, *padding], strides=stride,
    )  # fmt: skip
