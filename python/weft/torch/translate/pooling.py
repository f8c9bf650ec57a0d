"""Pooling: max, average, adaptive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.torch.record import Dim
from weft.torch.translate import sizes
from weft.torch.translate.core import Translation, Untranslatable, Val, rule


def _spread(values: int | Sequence[int], n: int) -> list[int]:
    if isinstance(values, int):
        return [values] * n
    return list(values) * n if len(values) == 1 else list(values)


def _batched(
    t: Translation, x: Val, n: int, pool: Callable[[Val, Sequence[Dim]], list[Val | None]]
) -> list[Val | None]:
    """torch pools [C, spatial] as well; ONNX wants the batch."""
    if x.rank == n + 2:
        return pool(x, t.result.dims)
    results = pool(t.unsqueeze(x, [0]), (1, *t.result.dims))
    return [None if r is None else t.squeeze(r, [0]) for r in results]


def _max_pool(n: int, with_indices: bool) -> Callable[..., Any]:
    def function(
        t: Translation,
        self: Val,
        kernel_size: int | list[int],
        stride: int | list[int] = (),  # type: ignore[assignment]
        padding: int | list[int] = 0,
        dilation: int | list[int] = 1,
        ceil_mode: bool = False,
    ) -> Any:
        kernel = _spread(kernel_size, n)
        strides = kernel if stride in ((), []) else _spread(stride, n)
        pads = _spread(padding, n)

        def pool(x: Val, dims: Sequence[Dim]) -> list[Val | None]:
            types: list[tuple[str, Sequence[Dim]]] = [(x.dtype, dims)]
            if with_indices and t.wants(1):
                types.append(("int64", dims))
            made: list[Val | None] = list(
                t.ops(
                    "MaxPool", [x], types, kernel_shape=kernel, strides=strides,
                    pads=[*pads, *pads], dilations=_spread(dilation, n), ceil_mode=int(ceil_mode),
                )
            )  # fmt: skip
            index = made[1] if len(made) > 1 else None
            if index is not None:
                # ONNX counts through the whole tensor, torch through one plane.
                plane = sizes.product(x.dims[2:])
                made[1] = t.binary("Mod", index, t.reshape(t.size(plane), []), "int64")
            return made

        made = _batched(t, self, n, pool)
        return made if with_indices else made[0]

    return function


for _n in (1, 2, 3):
    rule(f"aten.max_pool{_n}d.default")(_max_pool(_n, False))
    rule(f"aten.max_pool{_n}d_with_indices.default")(_max_pool(_n, True))


def _avg_pool(n: int) -> Callable[..., Any]:
    def function(
        t: Translation,
        self: Val,
        kernel_size: int | list[int],
        stride: int | list[int] = (),  # type: ignore[assignment]
        padding: int | list[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        kernel = _spread(kernel_size, n)
        strides = kernel if stride in ((), []) else _spread(stride, n)
        pads = _spread(padding, n)

        def pool(x: Val, dims: Sequence[Dim]) -> list[Val | None]:
            common: dict[str, Any] = {
                "kernel_shape": kernel,
                "strides": strides,
                "ceil_mode": int(ceil_mode),
            }
            if divisor_override is None:
                return [
                    t.op(
                        "AveragePool", x, dims=dims, pads=[*pads, *pads],
                        count_include_pad=int(count_include_pad), **common,
                    )
                ]  # fmt: skip
            # The sum of a window by the given number: the mean over all of its places, of zeros
            # where it hangs over, by their count.
            if ceil_mode:
                raise Untranslatable("avg_pool with divisor_override and ceil_mode")
            count = 1
            for k in kernel:
                count *= k
            mean = t.op(
                "AveragePool", x, dims=dims, pads=[*pads, *pads], count_include_pad=1, **common
            )
            return [t.mul(mean, count / divisor_override)]

        return _batched(t, self, n, pool)[0]

    return function


for _n in (1, 2, 3):
    rule(f"aten.avg_pool{_n}d.default")(_avg_pool(_n))


def _adaptive_windows(size: int, out: int) -> list[tuple[int, int]]:
    return [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]


def _adaptive(n: int, kind: str) -> Callable[..., Any]:
    def function(t: Translation, self: Val, output_size: int | list[Dim]) -> Any:
        out: list[Dim] = [output_size] * n if isinstance(output_size, int) else list(output_size)
        spatial = self.dims[self.rank - n :]

        def pool(x: Val, dims: Sequence[Dim]) -> list[Val | None]:
            if all(o == 1 for o in out):
                name = "GlobalMaxPool" if kind == "max" else "GlobalAveragePool"
                return [t.op(name, x, dims=dims)]
            if not all(isinstance(s, int) and isinstance(o, int) for s, o in zip(spatial, out)):
                if list(spatial) == out:
                    return [x]
                raise Untranslatable("adaptive pooling of symbolic sizes to more than 1")
            pairs = [(int(s), int(o)) for s, o in zip(spatial, out)]  # type: ignore[arg-type]
            if all(s % o == 0 for s, o in pairs):
                kernel = [s // o for s, o in pairs]
                name = "MaxPool" if kind == "max" else "AveragePool"
                return [t.op(name, x, dims=dims, kernel_shape=kernel, strides=kernel)]
            return [_unequal_windows(t, x, pairs, kind)]

        if kind == "max" and t.wants(1):
            kernel = [s // o for s, o in zip(spatial, out)
                      if isinstance(s, int) and isinstance(o, int) and s % o == 0]  # fmt: skip
            if len(kernel) < n:
                raise Untranslatable("indices of adaptive max pooling over unequal windows")
            return _max_pool(n, True)(t, self, kernel)
        made = _batched(t, self, n, pool)
        return made if kind == "max" else made[0]

    return function


def _unequal_windows(t: Translation, x: Val, pairs: list[tuple[int, int]], kind: str) -> Val:
    """One axis after the other: a product with a matrix of means, or a maximum per window."""
    import numpy as np

    from weft.torch.translate.builder import DTYPES

    for k, (size, out) in enumerate(pairs):
        axis = x.rank - len(pairs) + k
        if size == out:
            continue
        windows = _adaptive_windows(size, out)
        if kind == "max":
            parts = [
                t.reduce("ReduceMax", t.slice(x, axis, a, b, b - a), [axis], True)
                for a, b in windows
            ]
            x = t.concat(parts, axis, (*x.dims[:axis], out, *x.dims[axis + 1 :]))
            continue
        means = np.zeros((size, out), DTYPES[x.dtype])
        for i, (a, b) in enumerate(windows):
            means[a:b, i] = 1 / (b - a)
        last = list(range(x.rank))
        last[axis], last[-1] = last[-1], last[axis]
        moved = t.transpose(x, last)
        product = t.op("MatMul", moved, t.tensor(means), dims=(*moved.dims[:-1], out))
        x = t.transpose(product, last)
    return x


for _n in (1, 2, 3):
    rule(f"aten.adaptive_avg_pool{_n}d.default", f"aten._adaptive_avg_pool{_n}d.default")(
        _adaptive(_n, "mean")
    )
    rule(f"aten.adaptive_max_pool{_n}d.default")(_adaptive(_n, "max"))
